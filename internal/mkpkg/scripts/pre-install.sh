#!/bin/sh
# Makes the user and the group that playgroundd runs as, unless they exist. The id is one that the ports collection leaves
# free: ids from 1000 up are those of people, and jails share them with the host.

pw()
{
	case "${PKG_ROOTDIR}" in
	""|/) /usr/sbin/pw "$@" ;;
	*) /usr/sbin/pw -R "${PKG_ROOTDIR}" "$@" ;;
	esac
}

user="playground"
id=856
while pw usershow -u "${id}" >/dev/null 2>&1 || pw groupshow -g "${id}" >/dev/null 2>&1; do
	id=$((id + 1))
	[ "${id}" -le 867 ] || break
done

if ! pw groupshow -n "${user}" >/dev/null 2>&1; then
	[ "${id}" -le 867 ] || { echo "cannot make group ${user}: ids 856 to 867 are taken; make it with pw(8) first" >&2; exit 1; }
	pw groupadd -n "${user}" -g "${id}" || exit 1
fi
if ! pw usershow -n "${user}" >/dev/null 2>&1; then
	[ "${id}" -le 867 ] || { echo "cannot make user ${user}: ids 856 to 867 are taken; make it with pw(8) first" >&2; exit 1; }
	pw useradd -n "${user}" -u "${id}" -g "${user}" -c "Playground MCP service" -d /nonexistent -s /usr/sbin/nologin || exit 1
fi
exit 0
