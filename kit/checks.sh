# The groups of checks of accept.sh, in the order in which they run. Read by accept.sh.
# shellcheck shell=sh disable=SC2154

cli="${root}/usr/local/sbin/playground"
config="${root}/usr/local/etc/playground/playground.toml"
statedir="${root}/var/db/playground"
logdir="${root}/var/log/playground"
rundir="${root}/var/run/playground"
prefix="pgkit"
ruleset=28775
# What the suite and the tests of this kit call their jails.
# A "w" before the "-" is for workers of the work loop.
ourjails='^(pgkitw?-|pgkitbare|pgtestw?-|pghosttestw?-)'
# jobs.term_grace of the configuration, where a group wants another than the default.
grace=""
# service(8), for programs that call it.
service_program=$(command -v service 2>/dev/null) || service_program="/usr/sbin/service"

# description GROUP
description()
{
	case "$1" in
	preconditions) echo "the host is FreeBSD 13.2 or later with RACCT, root, room, and without Playground" ;;
	install) echo "install.sh (or pkg with --pkg) lays the files out as the package says; rcorder finds no fault" ;;
	config) echo "a configuration that asks for the securelevel that the host has" ;;
	template) echo "playground template create, from a folder with the host's own base system" ;;
	start) echo "service playground onestart, readiness, status, who runs what, a second start, doctor" ;;
	acceptance) echo "two tenants over MCP: commands, files, jobs, limits, isolation, tokens" ;;
	adversaries-1) echo "every adversary alone, cancelled and left behind" ;;
	adversaries-16) echo "every adversary in 16 jobs at once" ;;
	work) echo "the work loop: confined runs seen from outside, rules, stops, admission, the log, kill -9 and restarts in mid-run" ;;
	escape) echo "playground escape: every attempt to get out of a worker, with the error it got" ;;
	faculty) echo "a faculty from its build to its worker's proved end, through the gateway, and back again" ;;
	rc) echo "the rc scripts: boot order and a boot without a reboot, refusals, stale pid files, a restart that drains" ;;
	restart) echo "service restart of playground and of playground_jaild keeps jobs and their output" ;;
	crash) echo "SIGKILL for each daemon and for a job's supervisor" ;;
	zfs) echo "storage on ZFS: quota and clean removal, where --zfs names a dataset (skipped otherwise)" ;;
	bench) echo "exec against jexec, provision, attach, kill-and-prove, memory of idle tenants (only when named)" ;;
	stop) echo "service onestop of all of them ends within 60 s and leaves no process" ;;
	tests) echo "the test programs that make jails, mounts and limits of their own" ;;
	uninstall) echo "uninstall.sh --purge" ;;
	leftovers) echo "no jail, mount, process, rctl rule, account or file of its own is left" ;;
	esac
}

# shellcheck disable=SC2034
groups="preconditions install config start template acceptance work escape faculty adversaries-1 adversaries-16 restart crash rc tests zfs bench stop uninstall leftovers"

# requires GROUP: what must run before it.
requires()
{
	case "$1" in
	install|tests) echo "preconditions" ;;
	config) echo "preconditions install" ;;
	start) echo "preconditions install config" ;;
	template|stop) echo "preconditions install config start" ;;
	acceptance|work|escape|faculty|adversaries-1|adversaries-16|restart|crash|rc|bench|zfs) echo "preconditions install config start template" ;;
	uninstall|leftovers) echo "preconditions install" ;;
	esac
}

# newer VERSION FIRST SECOND: is 13.2-RELEASE-p4 at least FIRST.SECOND?
newer()
{
	printf '%s' "$1" | awk -F '[.-]' -v a="$2" -v b="$3" '{ exit !($1 > a || ($1 == a && $2 >= b)) }'
}

group_preconditions()
{
	must=${failed}
	expect "preconditions: system" "FreeBSD" "$(uname -s)" [ "$(uname -s)" = "FreeBSD" ]
	expect "preconditions: user" "root (run it with su or sudo)" "uid $(id -u)" [ "$(id -u)" -eq 0 ]
	case "$(uname -p)" in
	aarch64) machine=arm64 ;;
	*) machine=$(uname -p) ;;
	esac
	expect "preconditions: processor" "${kit_arch}, as this kit is built for" "${machine}" [ "${machine}" = "${kit_arch}" ]
	release=$(uname -r)
	expect "preconditions: release" "13.2 or later" "${release}" newer "${release}" 13 2
	if ! newer "${release}" 14 0; then
		say "FreeBSD 13 loses a process number for ever whenever a nested reaper dies before its child. The adversaries use up some"
		say "thousands of 99999 numbers until the next reboot; they are smaller here for that reason. Reboot before many runs."
	fi
	expect "preconditions: not in a jail" "security.jail.jailed=0" "$(fact security.jail.jailed)" [ "$(fact security.jail.jailed)" = "0" ]
	expect "preconditions: resource accounting (else: echo kern.racct.enable=1 >>/boot/loader.conf, and reboot)" "kern.racct.enable=1" "$(fact kern.racct.enable)" \
		[ "$(fact kern.racct.enable)" = "1" ]
	# The suite refuses to start before 2025: its tokens and records would bear times that never were.
	seen=$(date -u +%Y)
	expect "preconditions: clock (else: date -u YYYYMMDDhhmm)" "2025 or later" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" [ "${seen:-0}" -ge 2025 ]
	memory=$(fact hw.physmem)
	expect "preconditions: memory" "900 MiB or more" "$((${memory:-0} / 1048576)) MiB" [ "$((${memory:-0} / 1048576))" -ge 900 ]
	case "${template}" in
	full) need=3500 ;;
	*) need=600 ;;
	esac
	# A template and tenants, what is unpacked and tested, and the suite itself.
	if [ -d "${root}/usr/local" ]; then path="/usr/local"; else path="/usr"; fi
	seen=$(rooms "/var/db ${need}" "/var/tmp 600" "${path} 300")
	expect "preconditions: room on disk" "enough for ${need} MiB in /var/db, 600 in /var/tmp and 300 in ${path}" "${seen}" [ "${seen}${seen#*too little}" = "${seen:-nothing}${seen}" ]
	seen=$(noexec /var/db /var/tmp)
	expect "preconditions: programs can be run in /var/db and /var/tmp" "neither is mounted with noexec" "noexec: ${seen:-none}" [ -z "${seen}" ]
	for module in nullfs fdescfs tmpfs; do
		expect "preconditions: module ${module}" "loaded, or securelevel below 1 so that it can be" "$(modules | tr '\n' ' '), securelevel ${level}" usable "${module}"
	done
	found=""
	for path in "${cli}" "${root}/usr/local/etc/playground" "${statedir}" "${root}/usr/local/etc/rc.d/playground" "${rundir}" "${logdir}" \
		"${root}"/usr/local/etc/rc.conf.d/playground*; do
		[ ! -e "${path}" ] || found="${found} ${path}"
	done
	expect "preconditions: no Playground on this host (this kit installs one and removes it again)" "none of its files" "${found:-none}" [ -z "${found}" ]
	found=$(jls name 2>/dev/null | grep -E "${ourjails}" | tr '\n' ' ')
	expect "preconditions: no jails that are called as this kit calls its own" "none" "${found}" [ -z "${found}" ]
	if [ -n "$(sockstat -4 -l -p "${port}" 2>/dev/null | sed 1d)" ]; then free=no; else free=yes; fi
	expect "preconditions: port ${port} (else: --port NUMBER)" "nobody listens" "free: ${free}" [ "${free}" = "yes" ]
	if [ -n "${zfs}" ]; then
		expect "preconditions: dataset ${zfs}" "it exists" "$(zfs list -H -o name "${zfs}" 2>&1)" [ "$(zfs list -H -o name "${zfs}" 2>/dev/null)" = "${zfs}" ]
		expect "preconditions: no dataset ${zfs}/${prefix}" "none" "$(zfs list -H -o name "${zfs}/${prefix}" 2>/dev/null)" [ -z "$(zfs list -H -o name "${zfs}/${prefix}" 2>/dev/null)" ]
	fi
	missing=""
	for tool in timeout jail jls jexec rctl pw service install tar sockstat kldstat pgrep mount umount devfs pwd_mkdb rcorder cmp chflags proccontrol procstat ifconfig comm daemon protect pwait jot; do
		command -v "${tool}" >/dev/null 2>&1 || missing="${missing} ${tool}"
	done
	expect "preconditions: tools of the base system" "all of them" "missing:${missing:- none}" [ -z "${missing}" ]
	[ "${failed}" -eq "${must}" ]
}

# rooms "PATH MIB"...: what is free where the paths are, and where it is too little for all that is there.
rooms()
{
	for rooms_one in "$@"; do
		df -k "${root}${rooms_one% *}" 2>/dev/null | awk -v path="${rooms_one% *}" -v need="${rooms_one#* }" '
			NR == 2 { print path, need, $1, int($4 / 1024); found = 1 }
			END { if (!found) print path, need, "nothing", 0 }'
	done | awk '
		{ path[NR] = $1; device[NR] = $3; free[$3] = $4; need[$3] += $2 }
		END {
			for (i = 1; i <= NR; i++)
				printf "%s%s: %d MiB on %s%s", (i > 1) ? ", " : "", path[i], free[device[i]], device[i], (free[device[i]] < need[device[i]]) ? " (too little)" : ""
		}'
}

# noexec PATH...: those that lie on a filesystem that runs no programs.
noexec()
{
	for noexec_path in "$@"; do
		noexec_mount=$(df -k "${root}${noexec_path}" 2>/dev/null | awk 'NR == 2 { print $NF }')
		[ -z "$(mount -p 2>/dev/null | awk -v where="${noexec_mount}" '$2 == where && $4 ~ /(^|,)noexec(,|$)/')" ] || printf '%s ' "${noexec_path}"
	done
}

# modules: those of the three that the kernel has.
modules()
{
	for name in nullfs fdescfs tmpfs; do
		kldstat -q -m "${name}" 2>/dev/null && echo "${name}"
	done
	return 0
}

usable()
{
	kldstat -q -m "$1" 2>/dev/null || [ "${level}" -lt 1 ]
}

# before: what the host was like, so that it can be compared afterwards.
before()
{
	jls name 2>/dev/null | sort >"${state}/jails.before"
	mount -p 2>/dev/null | awk '{ print $1, $2, $3 }' | sort >"${state}/mounts.before"
	ifconfig lo0 2>/dev/null | grep inet | sort >"${state}/lo0.before"
	for name in nullfs fdescfs tmpfs; do
		kldstat -q -m "${name}" 2>/dev/null || note module "${name}"
	done
	devfs rule -s "${ruleset}" show 2>/dev/null | grep -q . || note ruleset "${ruleset}"
	pw groupshow -n playground >/dev/null 2>&1 || note newgroup playground
	pw usershow -n playground >/dev/null 2>&1 || note newuser playground
}

group_install()
{
	if [ -n "${securelevel}" ]; then
		for name in nullfs fdescfs tmpfs; do
			kldstat -q -m "${name}" 2>/dev/null || kldload "${name}" 2>/dev/null
		done
		say "raising kern.securelevel to ${securelevel}, as --securelevel says: only a reboot lowers it again"
		attempt "install: securelevel is raised" 10 sysctl "kern.securelevel=${securelevel}" || return 1
		level=$(fact kern.securelevel)
	fi
	if [ -n "${zfs}" ]; then
		note dataset "${zfs}/${prefix}"
		attempt "install: zfs create ${zfs}/${prefix}" 60 zfs create -o mountpoint=none "${zfs}/${prefix}" || return 1
	fi
	note installed "${bypkg}"
	if [ "${bypkg}" = "yes" ]; then
		major=$(uname -r | sed 's/\..*//')
		attempt "install: pkg add" 300 pkg add "${kit}/packages/"*"-freebsd${major}-${kit_arch}.pkg" || return 1
	else
		attempt "install: install.sh" 300 "${kit}/install.sh" ${root:+--root "${root}"} || return 1
	fi
	wrong=""
	laid=0
	while read -r kind mode owner group path; do
		laid=$((laid + 1))
		seen=$(stat -f '%Mp%03Lp %Su %Sg' "${root}${path}" 2>&1) || true
		want=$(printf '%04o %s %s' "0${mode}" "${owner}" "${group}")
		[ "${seen}" = "${want}" ] || [ "${kind}" = "dir" ] || wrong="${wrong} ${path}: ${seen} and not ${want};"
	done <"${kit}/files.list"
	[ "${laid}" -gt 0 ] || wrong=" ${kit}/files.list names no file"
	expect "install: owners and modes" "${laid} files as listed" "wrong:${wrong:- none}" [ -z "${wrong}" ]
	complaints=$(rcorder /etc/rc.d/* /usr/local/etc/rc.d/* 2>&1 >/dev/null | grep -i playground | head -n 3)
	expect "install: rcorder" "no complaint about playground" "${complaints}" [ -z "${complaints}" ]
	status=0
	seen=$(limited 30 "${cli}" version 2>&1) || status=$?
	expect "install: playground version" "exit 0 and a version" "exit ${status}: ${seen}" [ "${status}${seen:+ said}" = "0 said" ]
	[ -z "${wrong}" ]
}

# rc_patience: what the rc scripts wait for grows with --patience too, in files that rc.subr(8) reads for them.
rc_patience()
{
	[ "${patience}" -gt 1 ] || return 0
	dir="${root}/usr/local/etc/rc.conf.d"
	[ -d "${dir}" ] || { note rcdir "${dir}" && mkdir -m 0755 "${dir}"; } || return 1
	for service in ${scripts}; do
		note rcfile "${dir}/${service}"
		printf '# Written by the kit, for a slow host.\n%s_ready_timeout=%d\n%s_stop_timeout=%d\n%s_status_timeout=%d\n' \
			"${service}" "$((30 * patience))" "${service}" "$((60 * patience))" "${service}" "$((2 * patience))" >"${dir}/${service}" || return 1
	done
}

# configure: writes the configuration. The proof's deadline grows with --patience, as every limit here does.
configure()
{
	proof=$((15 * patience))
	[ "${proof}" -le 600 ] || proof=600
	{
		cat <<END
# Written by the kit's accept.sh. It asks for the securelevel that this host has.
[host]
prefix = "${prefix}"
securelevel_min = ${level}

[http]
listen = "127.0.0.1:${port}"

[jobs]
proof_deadline = "${proof}s"
END
		[ -z "${grace}" ] || printf 'term_grace = "%s"\n' "${grace}"
		! noted adversaries || printf '\n[resources]\nswap = 0\nmemory = 0\n'
		printf '\n[work]\nprovider = "scripted"\nscript = "%s"\ndata_dir = "%s"\ncapacity = 1\n' "${work}/script.json" "${work}/data"
		[ -z "${zfs}" ] || printf '\n[sandbox]\nstorage = "zfs"\ndataset = "%s"\nquota = "1GiB"\n' "${zfs}/${prefix}"
	} >"${config}.new"
	chown root:playground "${config}.new" 2>/dev/null
	chmod 0640 "${config}.new"
	mv "${config}.new" "${config}"
}

# for_adversaries: configures the suite anew, once, before the adversaries. They are Go programs: the kernel charges each fork of
# one with 40 MB that it never uses, so limits of memory would stop them before they stand in the way of a kill. And without a
# grace, none of them dies of a mere SIGTERM.
for_adversaries()
{
	! noted adversaries || return 0
	note adversaries yes
	grace="0s"
	configure
	for service in playground_jaild playground_reaperd playground; do
		attempt "configured for adversaries: service ${service} onerestart" 180 service "${service}" onerestart || { daemons_say; return 1; }
	done
}

group_config()
{
	# Without a configuration nothing starts, and the reason is told.
	mv "${config}" "${config}.aside" 2>/dev/null || true
	status=0
	seen=$(limited 60 service playground onestart 2>&1) || status=$?
	case "${seen}" in
	*playground.toml*) named=yes ;;
	*) named=no ;;
	esac
	mv "${config}.aside" "${config}" 2>/dev/null || true
	if [ "${status}" -ne 0 ] && [ "${named}" = "yes" ]; then verdict=ok; else verdict=fail; fi
	result "${verdict}" "config: a start without configuration is refused" "not 0, and the file's name" "exit ${status}: ${seen}"
	seen=$(rc_patience 2>&1) || { result fail "config: the waits of the rc scripts" "files in ${root}/usr/local/etc/rc.conf.d" "${seen:-they cannot be written}"; return 1; }
	seen=$(work_files 2>&1) || { result fail "config: files of the work loop" "a script and a folder in ${work}" "${seen:-they cannot be made}"; return 1; }
	configure
	attempt "config: playgroundd -t" 30 "${root}/usr/local/sbin/playgroundd" -t -c "${config}"
}

# work_files: what a model that plays a script says, and a folder of data that confined runs must not be given.
work_files()
{
	"${kit}/bin/accept" -patience "${patience}" script >"${work}/script.json" && chmod 0644 "${work}/script.json" &&
		mkdir -m 0700 "${work}/data" && echo "of the host" >"${work}/data/file" && chown -R playground:playground "${work}/data"
}

# small_base FOLDER: the host's base system without compilers, static libraries and documents. A tenant needs no more for this.
small_base()
{
	mkdir -p "$1" || return 1
	tar -c -f - -C "${root}/" --exclude '*.a' --exclude '*/debug' --exclude 'usr/bin/*clang*' --exclude 'usr/bin/*lld*' --exclude 'usr/bin/*lldb*' \
		--exclude 'usr/bin/llvm*' --exclude 'usr/bin/cc' --exclude 'usr/bin/c++' --exclude 'usr/bin/CC' --exclude 'usr/bin/cpp' --exclude 'usr/bin/c[89]*' \
		--exclude 'usr/bin/ld' --exclude 'usr/bin/gdb*' --exclude 'usr/lib/clang' --exclude 'usr/lib/liblldb*' --exclude 'usr/lib/libprivatellvm*' \
		--exclude 'usr/lib/libprivateclang*' bin sbin lib libexec usr/bin usr/sbin usr/lib usr/libexec usr/share/misc usr/share/locale \
		etc/login.conf etc/profile etc/shells etc/services etc/protocols etc/termcap etc/ttys etc/csh.cshrc etc/csh.login |
		tar -x -p -f - --no-fflags -C "$1" || return 1
	mkdir -p "$1/etc" "$1/var/run" "$1/var/tmp" "$1/var/log" "$1/var/db" "$1/var/empty" "$1/usr/local" "$1/tmp" "$1/root" "$1/dev" "$1/home" || return 1
	printf 'root:*:0:0::0:0:Charlie &:/root:/bin/sh\ndaemon:*:1:1::0:0:Owner:/root:/usr/sbin/nologin\nnobody:*:65534:65534::0:0:Unprivileged user:/nonexistent:/usr/sbin/nologin\n' >"$1/etc/master.passwd" || return 1
	printf 'wheel:*:0:root\ndaemon:*:1:\nkmem:*:2:\nsys:*:3:\ntty:*:4:\noperator:*:5:root\nbin:*:7:\nnogroup:*:65533:\nnobody:*:65534:\n' >"$1/etc/group" || return 1
	printf '::1 localhost\n127.0.0.1 localhost\n' >"$1/etc/hosts" || return 1
	chmod 0600 "$1/etc/master.passwd" && pwd_mkdb -p -d "$1/etc" "$1/etc/master.passwd"
}

group_template()
{
	case "${template}" in
	small)
		source="${work}/base"
		attempt "template: a folder with the host's base system, without compilers" 1200 sh -c ". '${kit}/lib.sh'; root='${root}'; . '${kit}/checks.sh'; small_base '${source}'" || return 1
		;;
	full) source="/" ;;
	*) source="${template}" ;;
	esac
	attempt "template: playground template create base --from ${source}" 3600 "${cli}" -c "${config}" template create base --from "${source}" || return 1
	[ "${source}" != "${work}/base" ] || { chflags -R noschg "${source}" 2>/dev/null; rm -rf "${source}"; }
	seen=$(ask template list 2>&1) || true
	expect "template: playground template list" "base" "${seen}" contains base printf '%s' "${seen}"
}

# contains WORD COMMAND...: does the command print it?
contains()
{
	contains_word="$1"
	shift
	"$@" 2>/dev/null | grep -q -F -e "${contains_word}"
}

# ask ARGUMENTS...: the operator's tool, with an end.
ask()
{
	limited 60 "${cli}" -c "${config}" "$@"
}

# pidof DAEMON: what "playground status" says.
pidof()
{
	ask status 2>/dev/null | awk -v name="$1" '$1 == name { print $3 }'
}

group_start()
{
	note started yes
	attempt "start: service playground onestart" 180 service playground onestart || { daemons_say; return 1; }
	attempt "start: playground ready" 60 "${cli}" -c "${config}" ready --timeout "$((30 * patience))s" || { daemons_say; return 1; }
	for service in playground_jaild playground_reaperd playground; do
		attempt "start: service ${service} onestatus" 30 service "${service}" onestatus
	done
	for pair in playgroundd:playground playground-jaild:root playground-reaperd:root; do
		daemon="${pair%%:*}"
		pid=$(pidof "${daemon}")
		seen=$(ps -o user= -p "${pid:-0}" 2>/dev/null | tr -d ' ')
		expect "start: who runs ${daemon}" "${pair#*:}" "${seen} (pid ${pid})" [ "${seen}" = "${pair#*:}" ]
		seen=$(proccontrol -m trace -q -p "${pid:-0}" 2>&1)
		expect "start: ${daemon} cannot be traced and leaves no core" "disabled" "${seen}" [ "${seen}" != "${seen#*disabled}" ]
	done
	attempt "start: service playground onepreflight" 60 service playground onepreflight
	old=$(pidof playgroundd)
	limited 60 service playground onestart >/dev/null 2>&1 || true
	seen=$(pidof playgroundd)
	expect "start: a second start changes nothing" "pid ${old:-of playgroundd}" "pid ${seen}" [ "${seen:-none}" = "${old}" ]
	status=0
	ask doctor >"${results}/log/doctor.log" 2>&1 || status=$?
	expect "start: playground doctor" "exit 0, or 1 for warnings" "exit ${status}: $(grep -E '^(FAIL|WARN)' "${results}/log/doctor.log" | head -n 6)" [ "${status}" -le 1 ]
	[ "${status}" -le 1 ]
}

# daemons_say: the ends of the daemons' logs, where a start failed.
daemons_say()
{
	for log in "${logdir}"/*.log; do
		[ -f "${log}" ] || continue
		say "${log} ends so:"
		tail -n 12 "${log}" | while IFS= read -r text; do say "  | ${text}"; done
	done
	tail -n 5 "${root}/var/log/messages" 2>/dev/null | while IFS= read -r text; do say "  messages | ${text}"; done
}

# client ARGUMENTS...: the acceptance client, with this run's suite.
client()
{
	client_group="$1"
	shift
	set -- -playground "${cli}" -config "${config}" -endpoint "http://127.0.0.1:${port}/mcp" -prefix "${prefix}" -adversary "${kit}/bin/pgadversary" \
		-patience "${patience}" -service "${service_program}" -logs "${logdir}" -data "${statedir}/playgroundd" "$@"
	newer "$(uname -r)" 14 0 || set -- -small "$@"
	relay "${client_group}" env TMPDIR="${work}" "${kit}/bin/accept" "$@" || { daemons_say; return 1; }
}

group_acceptance() { client acceptance acceptance; }
group_adversaries_1() { for_adversaries && client adversaries-1 -at-once 1 adversaries; }
group_adversaries_16() { for_adversaries && client adversaries-16 -at-once 16 adversaries; }
group_crash() { for_adversaries && client crash crash; }
group_bench() { for_adversaries && client bench -tenants "${tenants}" -json "${results}/bench.json" bench; }

group_work() { client work work; }
group_escape() { client escape escape; }

# group_faculty: the client makes the suite a gateway. The configuration is put back whatever came of it.
group_faculty()
{
	if ! mkdir -m 0711 "${work}/faculty"; then
		result fail "faculty: a folder for its files" "${work}/faculty" "it cannot be made"
		return 1
	fi
	faculty_status=0
	client faculty -folder "${work}/faculty" -notebook "${kit}/faculty/notebook" faculty || faculty_status=1
	configure
	limited 120 service playground_facultyd onestop >/dev/null 2>&1 || true
	attempt "faculty: the configuration is put back: service playground onerestart" 180 service playground onerestart || { daemons_say; return 1; }
	rm -rf "${work}/faculty"
	return "${faculty_status}"
}

group_restart()
{
	client restart survive -- service playground onerestart
	client restart-jaild survive -- service playground_jaild onerestart
	attempt "restart: service playground onestatus" 30 service playground onestatus
}

group_zfs()
{
	if [ -z "${zfs}" ]; then
		pools=$(zpool list -H -o name 2>/dev/null | tr '\n' ' ')
		if [ -n "${pools}" ]; then
			result skip "zfs: storage on ZFS" "" "not asked for; this host has pools, so run again with --zfs ${pools%% *}"
		else
			result skip "zfs: storage on ZFS" "" "this host has no ZFS pool"
		fi
		return 0
	fi
	attempt "zfs: a tenant on ZFS" 120 "${cli}" -c "${config}" user create kit-zfs || return 1
	seen=$(zfs list -r -H -o name,refquota -t filesystem "${zfs}/${prefix}" 2>/dev/null | grep /sandboxes/)
	case "${seen}" in
	*1G*) verdict=ok ;;
	*) verdict=fail ;;
	esac
	result "${verdict}" "zfs: the sandbox is a dataset with the configured quota" "refquota 1G" "${seen}"
	attempt "zfs: the tenant is destroyed" 180 "${cli}" -c "${config}" user destroy --force kit-zfs
	seen=$(zfs list -r -H -o name -t filesystem "${zfs}/${prefix}" 2>/dev/null | grep /sandboxes/)
	expect "zfs: its dataset is gone" "none" "${seen}" [ -z "${seen}" ]
}

# test_programs: the suite's programs in one folder under the names that they are built with, as tests look for them.
test_programs()
{
	mkdir -p "${work}/bin"
	for program in "${root}"/usr/local/sbin/playground*; do
		[ ! -x "${program}" ] || ln -sf "${program}" "${work}/bin/${program##*/}"
	done
	for program in "${root}"/usr/local/libexec/playground/*; do
		[ ! -x "${program}" ] || ln -sf "${program}" "${work}/bin/playground-${program##*/}"
	done
}

group_tests()
{
	test_programs
	ran=0
	while read -r folder kind; do
		case "${kind}" in
		host) ;;
		plain) [ "${alltests}" = "yes" ] || continue ;;
		*)
			[ "${alltests}" = "no" ] || result skip "tests: ${folder}" "" "it needs the source tree"
			continue
			;;
		esac
		[ -x "${kit}/tests/${folder}/run.test" ] || { result fail "tests: ${folder}" "a program" "there is no ${kit}/tests/${folder}/run.test"; continue; }
		attempt "tests: ${folder}" 1320 sh -c "cd '${kit}/tests/${folder}' && TMPDIR='${work}' PLAYGROUND_HOST_TESTS=1 PLAYGROUND_BIN='${work}/bin' PLAYGROUND_STANDIN='${kit}/bin/standin' PLAYGROUND_HOST_DATASET='${zfs:+${zfs}/${prefix}}' exec ./run.test -test.v -test.timeout $((20 * patience))m"
		ran=$((ran + 1))
		# What a test skipped is said, so that a green line does not look like more than it is.
		skips=$(grep -c -e '--- SKIP' "${attempt_log}" 2>/dev/null) || true
		passes=$(grep -c -e '^--- PASS' "${attempt_log}" 2>/dev/null) || true
		say "  ${folder}: ${passes:-0} tests passed, ${skips:-0} skipped; the log names them"
		# From securelevel 1 on, tests that make append-only files are skipped: nobody could remove them again.
		if [ "${kind}" = "host" ] && [ "${level}" -lt 1 ] && [ "${attempt_status}" -eq 0 ] && [ "${passes:-0}" -eq 0 ]; then
			result fail "tests: ${folder} shows something" "1 or more tests passed" "none, and ${skips:-0} skipped"
		fi
	done <"${kit}/tests.list"
	expect "tests: all programs of the list were run" "1 or more" "${ran}" [ "${ran}" -gt 0 ]
}

group_stop()
{
	for service in playground playground_facultyd playground_reaperd playground_jaild; do
		# Only that of the group faculty has workers, and it has ended them, unless something failed.
		[ "${service}" != "playground_facultyd" ] || limited 60 service "${service}" onestatus >/dev/null 2>&1 || continue
		attempt "stop: service ${service} onestop" 60 service "${service}" onestop || daemons_say
	done
	seen=$(running)
	expect "stop: no process of the suite" "none" "${seen}" [ -z "${seen}" ]
	if limited 60 service playground onestatus >/dev/null 2>&1; then seen=0; else seen="not 0"; fi
	expect "stop: service playground onestatus" "not 0" "${seen}" [ "${seen}" != "0" ]
}

# running: processes of the suite, of the adversary and of the faculty.
running()
{
	# pgrep(1) would also find this script by its arguments, and cannot show commands with their pids on 13.
	# shellcheck disable=SC2009
	ps -axww -o pid= -o command= | grep -E -e '/usr/local/sbin/playground' -e '/usr/local/libexec/playground/' -e '[/ ]pgadversary' -e '^ *[0-9]* /home/kit-[^ ]*/faculties/' -e 'run\.test' | grep -v -e grep -e "${kit}/" | head -n 5 | oneline
}
