#!/bin/sh
# Removes a configuration that is still its sample, word for word; an upgrade then makes it from the new sample. One that
# was changed stays.

samples="@SAMPLES@"
root="${PKG_ROOTDIR%/}"
for sample in ${samples}; do
	config="${root}${sample%.sample}"
	if cmp -s "${root}${sample}" "${config}"; then
		rm -f "${config}"
	elif [ -e "${config}" ] && [ -z "${PKG_UPGRADE}" ]; then
		echo "${config} was changed and stays; remove it by hand if it is no longer needed."
	fi
done
exit 0
