#!/bin/sh
# Removes what install.sh laid out, as /var/db/playground-kit/installed lists it. A configuration that was changed, and all
# data, stay; --purge removes them too, with the user and group that install.sh made.
#
# usage: uninstall.sh [--purge] [--root FOLDER]

set -eu
root=""
purge=no

die()
{
	echo "uninstall.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case "$1" in
	--purge) purge=yes; shift ;;
	--root)
		[ $# -ge 2 ] || die "--root needs a folder"
		root="${2%/}"
		shift 2
		;;
	*) die "unknown argument $1; usage: uninstall.sh [--purge] [--root FOLDER]" ;;
	esac
done

state="${root}/var/db/playground-kit"
installed="${state}/installed"
[ -f "${installed}" ] || die "there is no ${installed}: install.sh installed nothing here"

if [ -z "${root}" ]; then
	[ "$(id -u)" -eq 0 ] || die "only root can uninstall"
	for program in playgroundd playground-facultyd playground-jaild playground-reaperd; do
		if pgrep -x "${program}" >/dev/null 2>&1; then
			die "${program} runs: service playground onestop; service playground_facultyd onestop; service playground_reaperd onestop; service playground_jaild onestop"
		fi
	done
fi

# words KIND: the paths of one kind, as they were written down.
words()
{
	sed -n "s/^$1 //p" "${installed}"
}

# backwards: the last line first.
backwards()
{
	sed '1!G;h;$!d'
}

left=0
# clear FOLDER: removes a folder of data. Nothing is removed through a mount, because below it are others' files.
clear_data()
{
	[ -d "$1" ] || return 0
	if mount | grep -q -F " on $1/"; then
		echo "uninstall.sh: something is mounted below $1; umount it, then run this again" >&2
		left=1
		return 0
	fi
	if command -v chflags >/dev/null 2>&1; then
		chflags -R noschg,nosappnd,nosunlnk,nouchg,nouappnd "$1" 2>/dev/null || true
	fi
	if ! rm -rf "$1" 2>/dev/null; then
		echo "uninstall.sh: these files could not be removed. At securelevel $(sysctl -n kern.securelevel 2>/dev/null || echo unknown)" \
			"append-only flags stay until a reboot; then: chflags -R nosappnd $1 && rm -r $1" >&2
		find "$1" -type f >&2 || true
		left=1
	fi
}

# Configurations first: they are compared with samples that go next.
words sample | while read -r sample; do
	config="${root}${sample%.sample}"
	if [ -f "${config}" ] && { [ "${purge}" = "yes" ] || cmp -s "${root}${sample}" "${config}"; }; then
		rm -f "${config}"
	elif [ -e "${config}" ]; then
		echo "${config} was changed and stays"
	fi
done
{ words file; words sample; } | while read -r path; do
	# The second is what a killed installation was just about to lay out.
	rm -f "${root}${path}" "${root}${path}.new"
done
clear_data "${root}/var/run/playground"
for volatile in "${root}"/var/run/playground*.pid; do
	rm -f "${volatile}"
done
if [ "${purge}" = "yes" ]; then
	for dir in $(words dir); do
		clear_data "${root}${dir}"
	done
fi
words mkdir | backwards | while read -r dir; do
	rmdir "${root}${dir}" 2>/dev/null || true
done
if [ "${purge}" = "yes" ] && [ -z "${root}" ]; then
	for name in $(words user); do pw userdel -n "${name}" || left=1; done
	# pw(8) removes a user's own group with it.
	for name in $(words group); do
		if pw groupshow -n "${name}" >/dev/null 2>&1; then pw groupdel -n "${name}" || left=1; fi
	done
fi
if [ "${purge}" = "no" ]; then
	for dir in $(words dir); do
		[ ! -d "${root}${dir}" ] || echo "${root}${dir} stays, with its data; uninstall.sh --purge removes it"
	done
	# What stays is still ours to remove later.
	grep -E '^(dir|user|group|mkdir|sample) ' "${installed}" >"${installed}.new" || true
	mv "${installed}.new" "${installed}"
elif [ "${left}" -eq 0 ]; then
	rm -f "${installed}"
	# What an installation unpacked that was killed.
	rm -rf "${state}"/stage.*
	rmdir "${state}" 2>/dev/null || true
fi
exit "${left}"
