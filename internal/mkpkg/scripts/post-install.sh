#!/bin/sh
# Makes the configuration from its sample where there is none. What the administrator has is never touched.

samples="@SAMPLES@"
root="${PKG_ROOTDIR%/}"
for sample in ${samples}; do
	config="${root}${sample%.sample}"
	[ -e "${config}" ] || [ -L "${config}" ] || cp -p "${root}${sample}" "${config}" || exit 1
done
exit 0
