# The group rc of accept.sh: what the host's own service scripts do, at boot, with leftovers of a crash, and while a daemon drains.
# Read by accept.sh.
# shellcheck shell=sh disable=SC2154,SC2034

# scripts: the four services, in the order of a boot.
scripts="playground_jaild playground_reaperd playground_facultyd playground"
# The process whose number stale files name; nobody may stop it.
victim=""

# stop_all WHEN: ends what runs of the suite, the daemon that faces the network first, and looks whether all of it has ended.
stop_all()
{
	for service in playground playground_facultyd playground_reaperd playground_jaild; do
		! limited 60 service "${service}" onestatus >/dev/null 2>&1 || attempt "$1: service ${service} onestop" 60 service "${service}" onestop || return 1
	done
	seen=$(running)
	expect "$1: nothing of the suite runs" "no process" "${seen}" [ -z "${seen}" ]
}

# order OPTIONS...: the names of rc scripts in the order in which a boot would run them, each on a line.
order()
{
	rcorder "$@" /etc/rc.d/* "${root}"/usr/local/etc/rc.d/* 2>/dev/null | sed 's|.*/||'
}

# earlier FIRST SECOND: does the one come before the other, and are both there? The order is on standard input.
earlier()
{
	awk -v first="$1" -v second="$2" '$0 == first { a = NR } $0 == second { b = NR } END { exit !(a && b && a < b) }'
}

rc_order()
{
	boot=$(order -s nostart)
	seen=$(printf '%s\n' "${boot}" | grep -n -x -e 'NETWORKING' -e 'securelevel' -e 'playground.*' | tr '\n' ' ')
	for pair in playground_jaild:securelevel playground_jaild:playground_reaperd securelevel:playground playground_reaperd:playground NETWORKING:playground \
		securelevel:playground_facultyd playground_reaperd:playground_facultyd; do
		if printf '%s\n' "${boot}" | earlier "${pair%%:*}" "${pair#*:}"; then verdict=ok; else verdict=fail; fi
		result "${verdict}" "rc: at boot ${pair%%:*} comes before ${pair#*:}" "in this order" "${seen}"
	done
	# What shows nothing at all would also show none of them.
	seen=$(order -s nojail | grep -x -e 'LOGIN' -e 'playground.*' | tr '\n' ' ')
	expect "rc: inside a jail none of them is started" "LOGIN and none of them in rcorder -s nojail" "${seen}" [ "${seen}" = "LOGIN " ]
	seen=$(order -k shutdown | grep -c -x 'playground.*') || true
	expect "rc: all are stopped at a shutdown" "4 in rcorder -k shutdown" "${seen}" [ "${seen}" = "4" ]
	seen=$(limited 120 service -e 2>/dev/null | sed -e '/playground/b' -e '/rc[.]d/!d' -e 's/.*/others/' | sort -u | tr '\n' ' ')
	expect "rc: none is enabled without being asked to" "others and none of them in service -e" "${seen}" [ "${seen}" = "others " ]
	for service in ${scripts}; do
		seen=$(limited 30 service "${service}" rcvar 2>&1) || true
		expect "rc: service ${service} rcvar" "${service}_enable" "${seen}" contains "${service}_enable" printf '%s' "${seen}"
	done
}

# rc_refusals: what is missing is named, by each of them, and nothing starts.
rc_refusals()
{
	mv "${config}" "${config}.aside" || { result fail "rc: without a configuration" "it can be moved aside" "no"; return 1; }
	for service in ${scripts}; do
		rc_refused "${service}" "without a configuration" "playground.toml"
	done
	mv "${config}.aside" "${config}" || return 1
	rc_refused playground_facultyd "without workers that are defined" "faculty.definitions"
	stop_all "rc: after refused starts"
}

# rc_refused SERVICE WHY WORD: a start that fails and names WORD.
rc_refused()
{
	refused_status=0
	refused_seen=$(limited 60 service "$1" onestart 2>&1) || refused_status=$?
	refused_verdict=fail
	case "${refused_seen}" in
	*"$3"*) [ "${refused_status}" -eq 0 ] || refused_verdict=ok ;;
	esac
	result "${refused_verdict}" "rc: service $1 onestart $2 is refused" "not 0, and the word $3" "exit ${refused_status}: ${refused_seen}"
}

# stale: files as a crash leaves them, with the number of a process that is somebody else's by now.
stale()
{
	for service in ${scripts}; do
		for file in "${root}/var/run/${service}.pid" "${root}/var/run/${service}_child.pid"; do
			printf '%s' "${victim}" >"${file}" || return 1
		done
	done
}

# rc_stale: neither a stop nor a start takes that process for its own.
rc_stale()
{
	sleep $((1200 * patience)) >/dev/null 2>&1 &
	victim=$!
	stale || { result fail "rc: stale pid files" "they can be written" "no"; return 1; }
	for service in ${scripts}; do limited 60 service "${service}" onestop >/dev/null 2>&1 || true; done
	expect "rc: a stop with stale pid files ends nobody else's process" "process ${victim} lives" "$(alive "${victim}")" [ "$(alive "${victim}")" = "lives" ]
	stale
	attempt "rc: service playground onestart with stale pid files" 180 service playground onestart || { daemons_say; return 1; }
	for service in playground_jaild playground_reaperd playground; do
		attempt "rc: then service ${service} onestatus" 30 service "${service}" onestatus
	done
	seen=""
	for service in playground_jaild playground_reaperd playground; do
		seen="${seen} $(cat "${root}/var/run/${service}.pid" 2>/dev/null)"
	done
	expect "rc: the pid files are written anew" "three, others than ${victim}" "${seen}" anew "${seen}"
	expect "rc: nobody else's process was ended" "process ${victim} lives" "$(alive "${victim}")" [ "$(alive "${victim}")" = "lives" ]
	end_victim
	rm -f "${root}/var/run/playground_facultyd.pid" "${root}/var/run/playground_facultyd_child.pid"
}

alive()
{
	# One that was ended and not waited for yet answers kill -0.
	case "$(ps -o stat= -p "$1" 2>/dev/null)" in
	""|Z*) echo "is gone" ;;
	*) echo "lives" ;;
	esac
}

# anew PIDS: three, and none of them the stale one?
anew()
{
	# Words are meant to be split.
	# shellcheck disable=SC2086
	set -- $1
	[ $# -eq 3 ] && [ "$1" != "${victim}" ] && [ "$2" != "${victim}" ] && [ "$3" != "${victim}" ]
}

end_victim()
{
	[ -z "${victim}" ] || kill "${victim}" 2>/dev/null
	victim=""
}

# rc_drain: a restart while the daemon that stops has something to end.
rc_drain()
{
	grace="5s"
	configure
	attempt "rc: service playground_reaperd onerestart" 180 service playground_reaperd onerestart || { daemons_say; return 1; }
	client drain drain
}

# rc_boot: everything is down and /var/run is empty, as after a reboot; then the scripts run as a boot runs them.
rc_boot()
{
	attempt "rc: a tenant to come back to" 120 "${cli}" -c "${config}" user create kit-boot || return 1
	limited 60 "${cli}" -c "${config}" user detach kit-boot >/dev/null 2>&1 || true
	stop_all "rc: before the boot" || return 1
	# What is mounted there would be somebody else's.
	unmounted "${rundir}" && rm -rf "${rundir}"
	rm -f "${root}"/var/run/playground*.pid
	for service in $(order -s nostart | grep -x -e playground_jaild -e playground_reaperd -e playground); do
		attempt "rc: boot: ${service} faststart" 120 env playground_enable=YES "${root}/usr/local/etc/rc.d/${service}" faststart || { daemons_say; return 1; }
	done
	attempt "rc: boot: the suite is ready when its script is done" 15 "${cli}" -c "${config}" ready --timeout "${patience}s"
	attempt "rc: boot: the tenant's sandbox comes back" 120 "${cli}" -c "${config}" user attach kit-boot
	expect "rc: boot: its jail is there" "${prefix}-kit-boot in jls" "$(jls name 2>/dev/null | tr '\n' ' ')" contains "${prefix}-kit-boot" jls name
	attempt "rc: boot: the tenant is destroyed" 180 "${cli}" -c "${config}" user destroy --force kit-boot
}

group_rc()
{
	rc_failed=${failed}
	rc_grace="${grace}"
	rc_order
	# Each says by itself what went wrong; only where the suite does not stop, there is nothing to try.
	if stop_all "rc: before refused starts"; then
		rc_refusals
		rc_stale
		rc_drain
		rc_boot
	fi
	end_victim
	[ ! -e "${config}.aside" ] || mv "${config}.aside" "${config}"
	# Whatever came of it, the groups after this one find the suite as they know it.
	grace="${rc_grace}"
	configure
	for service in playground_jaild playground_reaperd playground; do
		attempt "rc: put back: service ${service} onerestart" 180 service "${service}" onerestart || { daemons_say; return 1; }
	done
	[ "${failed}" -eq "${rc_failed}" ]
}
