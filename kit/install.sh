#!/bin/sh
# Installs Playground on a FreeBSD host without pkg(8): lays out the files of the package in packages/ with their owners and
# modes, makes the user and group, and each configuration from its sample where there is none. It starts nothing and changes
# nothing else. Everything is written down in /var/db/playground-kit/installed before it is made, and uninstall.sh removes
# exactly that. Run again, it upgrades.
#
# usage: install.sh [--root FOLDER]     FOLDER stands for a host's root; owners and accounts are left alone then

set -eu
umask 022
kit=$(cd "$(dirname "$0")" && pwd -P)
root=""

die()
{
	echo "install.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case "$1" in
	--root)
		[ $# -ge 2 ] || die "--root needs a folder"
		root="${2%/}"
		shift 2
		;;
	*) die "unknown argument $1; usage: install.sh [--root FOLDER]" ;;
	esac
done

state="${root}/var/db/playground-kit"
installed="${state}/installed"
user="playground"

# Any of the packages: they hold the same programs, and differ in the version of FreeBSD that pkg(8) asks for.
package=""
for file in "${kit}"/packages/*.pkg; do
	[ -f "${file}" ] && package="${file}" && break
done
[ -n "${package}" ] || die "there is no package in ${kit}/packages"
[ -r "${kit}/files.list" ] || die "there is no ${kit}/files.list"

if [ -z "${root}" ]; then
	[ "$(id -u)" -eq 0 ] || die "only root can install; or use --root FOLDER"
	[ "$(uname -s)" = "FreeBSD" ] || die "this host runs $(uname -s) and not FreeBSD; --root FOLDER lays the files out for a look"
	if pkg -N >/dev/null 2>&1 && pkg info -e playground >/dev/null 2>&1; then
		die "pkg(8) has installed playground on this host: use pkg upgrade, or pkg delete playground first"
	fi
fi

# ours PATH: did this script lay it out?
ours()
{
	[ -f "${installed}" ] && grep -q -x -e "file $1" -e "sample $1" "${installed}"
}

# record WORDS: written down once, before it is done.
record()
{
	if ! [ -f "${installed}" ] || ! grep -q -x -e "$*" "${installed}"; then
		echo "$*" >>"${installed}"
	fi
}

# folder PATH: makes it and its parents, and writes down those that were not there.
folder()
{
	if [ ! -d "${root}$1" ]; then
		[ -L "${root}$1" ] && die "${root}$1 is a broken symbolic link"
		[ "$1" = "/" ] || folder "$(dirname "$1")"
		record "mkdir $1"
		mkdir -m 0755 "${root}$1"
	fi
}

# put MODE OWNER GROUP FROM TO: a whole file, or the old one.
put()
{
	if [ -n "${root}" ]; then
		install -m "$1" "$4" "$5.new"
	else
		install -o "$2" -g "$3" -m "$1" "$4" "$5.new"
	fi
	mv -f "$5.new" "$5"
}

accounts()
{
	[ -z "${root}" ] || return 0
	# An id that ports leave free; ids from 1000 up are those of people, and jails share ids with the host.
	id=856
	while pw usershow -u "${id}" >/dev/null 2>&1 || pw groupshow -g "${id}" >/dev/null 2>&1; do
		id=$((id + 1))
		[ "${id}" -le 867 ] || break
	done
	if ! pw groupshow -n "${user}" >/dev/null 2>&1; then
		[ "${id}" -le 867 ] || die "the ids 856 to 867 are taken: make the group ${user} with pw(8) first"
		record "group ${user}"
		pw groupadd -n "${user}" -g "${id}"
	fi
	if ! pw usershow -n "${user}" >/dev/null 2>&1; then
		[ "${id}" -le 867 ] || die "the ids 856 to 867 are taken: make the user ${user} with pw(8) first"
		record "user ${user}"
		pw useradd -n "${user}" -u "${id}" -g "${user}" -c "Playground MCP service" -d /nonexistent -s /usr/sbin/nologin
	fi
}

# Everything is looked at before anything is changed.
while read -r kind mode owner group path; do
	case "${kind}" in
	dir) ;;
	file|sample)
		if { [ -e "${root}${path}" ] || [ -L "${root}${path}" ]; } && ! ours "${path}"; then
			die "${root}${path} is there and was not laid out by this script; move it away first"
		fi
		;;
	*) die "files.list holds a line that is not understood: ${kind} ${mode} ${owner} ${group} ${path}" ;;
	esac
done <"${kit}/files.list"

# Not in /tmp, which may be a small tmpfs.
mkdir -p "${state}"
stage=$(mktemp -d "${state}/stage.XXXXXX")
trap 'rm -rf "${stage}"' EXIT
trap 'exit 1' INT TERM HUP
# The names in a package are absolute; tar(1) makes them relative to the stage.
tar -xf "${package}" -C "${stage}" || die "cannot unpack ${package}"

accounts
count=0
while read -r kind mode owner group path; do
	case "${kind}" in
	dir)
		if [ ! -d "${root}${path}" ]; then
			folder "$(dirname "${path}")"
			record "dir ${path}"
			mkdir -m "${mode}" "${root}${path}"
			[ -n "${root}" ] || chown "${owner}:${group}" "${root}${path}"
		fi
		continue
		;;
	esac
	folder "$(dirname "${path}")"
	config="${path%.sample}"
	# A configuration that is still the old sample follows the new one, as with pkg(8).
	renew=no
	if [ "${kind}" = "sample" ]; then
		if [ ! -e "${root}${config}" ] && [ ! -L "${root}${config}" ]; then
			renew=yes
		elif [ -f "${root}${path}" ] && cmp -s "${root}${path}" "${root}${config}"; then
			renew=yes
		fi
	fi
	record "${kind} ${path}"
	put "${mode}" "${owner}" "${group}" "${stage}${path}" "${root}${path}"
	if [ "${renew}" = "yes" ]; then
		record "config ${config}"
		put "${mode}" "${owner}" "${group}" "${stage}${path}" "${root}${config}"
	fi
	count=$((count + 1))
done <"${kit}/files.list"
echo "${count} files installed; ${installed} lists them. Nothing was started: see README and playground(8)."
