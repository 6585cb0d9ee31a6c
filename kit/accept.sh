#!/bin/sh
# Shows on a real FreeBSD host that Playground does what it promises, and leaves the host as it was. Run it as root on a host
# that has no Playground: it installs one, starts it, lets tenants, adversaries and tests loose, stops and removes it, and looks
# for what is left. It needs the base system only and no network.
#
# It prints TAP, one line a check with what was expected and seen, and keeps that, summary.json and all logs in a folder of
# results. It touches nothing that it did not make: what it makes is called pgkit..., is below /var/db/playground..., or is
# written down in /var/db/playground-kit/state before it is made. It clears up at its end and after signals; after a crash or
# SIGKILL, "accept.sh --clean" does.

# Traps call functions, and the files that are read in use variables; shellcheck sees neither.
# shellcheck disable=SC1091,SC2034,SC2154,SC2317

set -u
umask 022
unset CDPATH
PATH="${KIT_TEST_PATH:-/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin}"
export PATH
LC_ALL=C
export LC_ALL

kit=$(cd "$(dirname "$0")" && pwd -P) || exit 2
# Tests of this script put another folder in the place of the host's root.
root="${KIT_TEST_ROOT:-}"
state="${root}/var/db/playground-kit"
work=""
results=""
only=""
keep=no
clean=no
securelevel=""
port=18787
template="small"
patience=""
within=0
bypkg=no
alltests=no
tenants=200
zfs=""

usage()
{
	cat <<END
usage: accept.sh [options]

  --list            show the groups of checks and stop
  --only NAME       only this group, and what it needs; may be given again
  --keep            leave the installed, running suite for a look; --clean removes it
  --clean           remove what an earlier run left
  --securelevel N   raise kern.securelevel to N (1 to 3) first. Only a reboot lowers it again, and until then append-only
                    files cannot be removed. Without this the configuration asks for the level that the host has
  --port N          where the suite listens on 127.0.0.1 (${port})
  --template KIND   of tenants: "small" is a folder with the host's base system without compilers, "full" is all of it, or
                    the path of a base.txz or folder (${template})
  --zfs DATASET     keep tenants on ZFS, in the new dataset DATASET/pgkit, which is destroyed at the end
  --pkg             install with pkg add instead of install.sh
  --patience N      multiply every time limit by N, 1 to 50, for slow or emulated hosts (1 to 10, by how fast this host is)
  --within N        be done in about N minutes, clearing up included: what there is no time for is skipped (no limit)
  --tenants N       idle tenants of the group bench (${tenants})
  --all-tests       run every test program, not only those that need a FreeBSD host
  --results FOLDER  where results go (results-DATE beside this script)
END
}

die()
{
	echo "accept.sh: $*" >&2
	exit 2
}

kit_version=$(sed -n 's/^version=//p' "${kit}/kit.conf" 2>/dev/null)
kit_arch=$(sed -n 's/^arch=//p' "${kit}/kit.conf" 2>/dev/null)
. "${kit}/lib.sh"
. "${kit}/checks.sh"
. "${kit}/rc.sh"
. "${kit}/teardown.sh"

number()
{
	case "$2" in
	# A leading 0 would make it octal.
	""|*[!0-9]*|0?*|?????????*) die "$1 needs a number, not \"$2\"" ;;
	esac
}

while [ $# -gt 0 ]; do
	case "$1" in
	--only|--securelevel|--port|--template|--patience|--within|--tenants|--results|--zfs)
		[ $# -ge 2 ] || die "$1 needs a value; see --help"
		;;
	esac
	case "$1" in
	--list)
		for group in ${groups}; do printf '%-15s %s\n' "${group}" "$(description "${group}")"; done
		exit 0
		;;
	--only)
		[ -n "$(description "$2")" ] || die "there is no group \"$2\"; --list shows them"
		only="${only}${only:+ }$2"
		shift
		;;
	--keep) keep=yes ;;
	--clean) clean=yes ;;
	--securelevel)
		case "$2" in
		1|2|3) securelevel="$2" ;;
		*) die "--securelevel takes 1, 2 or 3" ;;
		esac
		shift
		;;
	--port) number "$1" "$2"; port="$2"; shift ;;
	--template) template="$2"; shift ;;
	--zfs)
		case "$2" in
		""|[!A-Za-z0-9]*|*[!A-Za-z0-9_:./-]*|*/) die "\"$2\" is not the name of a dataset" ;;
		esac
		zfs="$2"
		shift
		;;
	--pkg) bypkg=yes ;;
	--patience)
		number "$1" "$2"
		patience="$2"
		if [ "${patience}" -lt 1 ] || [ "${patience}" -gt 50 ]; then die "--patience takes 1 to 50"; fi
		shift
		;;
	--within) number "$1" "$2"; within="$2"; shift ;;
	--tenants) number "$1" "$2"; tenants="$2"; shift ;;
	--all-tests) alltests=yes ;;
	--results) results="$2"; shift ;;
	--help|-h) usage; exit 0 ;;
	*) usage >&2; die "unknown argument $1" ;;
	esac
	shift
done
case "${kit}" in
*\'*) die "move the kit to a folder without ' in its name" ;;
esac
[ -n "${kit_version}" ] || die "${kit}/kit.conf is missing: unpack the whole kit"

# Which groups run: those that were named, with what they need, or all but the benchmark.
chosen=""
if [ -n "${only}" ]; then
	for group in ${only}; do chosen="${chosen} $(requires "${group}") ${group}"; done
else
	for group in ${groups}; do [ "${group}" = "bench" ] || chosen="${chosen} ${group}"; done
fi

wanted()
{
	case " ${chosen} " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
began=$(date +%s)
[ -n "${results}" ] || results="${kit}/results-$(date +%Y%m%d-%H%M%S)"
mkdir -p "${results}/log" || die "cannot make ${results}; --results FOLDER puts the results elsewhere"
results=$(cd "${results}" && pwd -P)
: >"${results}/tap.txt"
: >"${results}/results.tsv"
level=$(fact kern.securelevel)
level="${level:--1}"
finished=no
why="complete"
# Whether there is anything to clear up: nothing is touched before the preconditions hold, nor while another run goes on.
mine=no
if [ -n "${patience}" ]; then
	measured=""
else
	measured=$(speed)
	patience=$(patience_of "${measured}")
fi
# What clearing up may take of --within.
reserve=$((240 * patience))
[ "${reserve}" -lt $((within * 20)) ] || reserve=$((within * 20))

on_exit()
{
	finish
	[ "${failed}" -eq 0 ] && [ "${why}" = "complete" ] && exit 0
	[ "${failed}" -gt 0 ] && exit 1
	exit 2
}

trap on_exit EXIT
trap 'why="interrupted by SIGINT"; exit 2' INT
trap 'why="interrupted by SIGTERM"; exit 2' TERM
trap 'why="interrupted by SIGHUP"; exit 2' HUP

# goes_on PID: is that process a run of this script?
goes_on()
{
	[ -n "$1" ] && ps -o command= -p "$1" 2>/dev/null | grep -q 'accept\.sh'
}

if [ "${clean}" = "yes" ]; then
	if [ ! -f "${state}/state" ]; then
		say "there is no ${state}/state: no run of this script left anything"
		exit 0
	fi
	pid=$(values pid)
	if goes_on "${pid}"; then
		why="another run"
		result fail "clean: no run goes on" "process ${pid} is gone" "it runs; end it first: kill ${pid}"
		exit 1
	fi
	keep=no
	mine=yes
	zfs=$(values dataset)
	zfs="${zfs%/*}"
	work=$(values work)
	case "${work}" in
	"${root}"/var/tmp/playground-kit.?*) ;;
	*) work="" ;;
	esac
	exit 0
fi
if [ -f "${state}/state" ]; then
	why="another run"
	pid=$(values pid)
	if goes_on "${pid}"; then
		seen="it is there, and process ${pid} is that run: wait for its end, or kill ${pid}"
	else
		seen="it is there, of a run that was killed or told to --keep: ${kit}/accept.sh --clean removes what it left"
	fi
	result fail "preconditions: no earlier run of this script" "no ${state}/state" "${seen}"
	exit 1
fi
say "Playground kit ${kit_version} for ${kit_arch} on $(uname -s) $(uname -r), $(hostname 2>/dev/null), securelevel ${level}; results in ${results}"
say "time limits are multiplied by ${patience}${measured:+: this host starts ${measured} programs in 3 s, and a fast one 1500 or more; --patience N sets it}"
{
	date -u
	df -k -n
	mount -p
	swapinfo -k
} >"${results}/log/host.log" 2>&1
for name in kern.version hw.model hw.ncpu hw.physmem kern.vm_guest kern.maxproc kern.securelevel kern.racct.enable vm.overcommit vm.swap_total security.jail kern.pid_max; do
	sysctl "${name}" 2>/dev/null
done >>"${results}/log/host.log"
if ! group_preconditions; then
	why="preconditions failed"
	exit 1
fi
[ -d "${state}" ] || mkdir -m 0700 "${state}" || die "cannot make ${state}"
: >"${state}/state"
mine=yes
note pid "$$"
# Tenants' users must be able to reach what is below. A folder that is there is somebody else's.
work="${root}/var/tmp/playground-kit.$$"
if [ -e "${work}" ] || [ -L "${work}" ]; then
	work=""
	die "${root}/var/tmp/playground-kit.$$ is there already"
fi
note work "${work}"
mkdir -m 0711 "${work}" || die "cannot make ${work}"
before
for group in install config start template acceptance work escape faculty adversaries-1 adversaries-16 restart crash rc tests zfs bench; do
	wanted "${group}" || continue
	if out_of_time; then
		why="out of time"
		result skip "${group}: not run" "" "the ${within} minutes of --within are over, but for what clearing up needs"
		continue
	fi
	say "group ${group}: $(description "${group}")"
	case "${group}" in
	adversaries-1) group_adversaries_1 ;;
	adversaries-16) group_adversaries_16 ;;
	*) "group_${group}" ;;
	esac || case "${group}" in
	install|config|start|template)
		# Nothing after these can say anything of its own.
		[ "${why}" != "complete" ] || why="group ${group} failed"
		for rest in acceptance work escape faculty adversaries-1 adversaries-16 restart crash rc zfs bench; do
			! wanted "${rest}" || result skip "${rest}: not run" "" "group ${group} failed"
		done
		break
		;;
	esac
	# Whoever stops this by force finds what there is so far.
	summary "cut off after group ${group}"
done
exit 0
