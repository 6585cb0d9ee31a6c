# How accept.sh leaves a host: the suite is stopped and removed, what is left is looked for, told, and taken away. Read by
# accept.sh.
# shellcheck shell=sh disable=SC2154,SC2034

# group_uninstall removes the suite. At securelevel 1 and up, append-only files stay, which is told and no failure.
group_uninstall()
{
	mkdir -p "${results}/log/daemons"
	cp -p "${logdir}"/* "${results}/log/daemons/" 2>/dev/null
	cp -p "${config}" "${results}/log/daemons/" 2>/dev/null
	if [ "$(values installed)" = "yes" ]; then
		attempt "uninstall: pkg delete" 300 pkg delete -y playground
		chflags -R noschg,nosappnd "${statedir}" 2>/dev/null
		unmounted "${statedir}" && rm -rf "${statedir}" 2>/dev/null
		rm -rf "${logdir}" "${rundir}" "${root}"/var/run/playground*.pid "${root}/usr/local/etc/playground" 2>/dev/null
		! noted newuser || pw userdel -n playground 2>/dev/null
		! noted newgroup || pw groupdel -n playground 2>/dev/null
	elif [ "$(fact kern.securelevel)" -ge 1 ] 2>/dev/null; then
		limited 300 "${kit}/uninstall.sh" --purge ${root:+--root "${root}"} >"${results}/log/uninstall.log" 2>&1 || true
		kept=$(find "${statedir}" -type f 2>/dev/null | wc -l | tr -d ' ')
		loose=""
		if [ -d "${statedir}" ]; then
			loose=$(find "${statedir}" -type f ! -flags +sappnd,schg,sunlnk 2>&1) || loose="find failed: ${loose}"
		fi
		expect "uninstall: uninstall.sh --purge at securelevel $(fact kern.securelevel)" "all removed but files with system flags" \
			"${kept} files stay until a reboot; without such a flag: ${loose:-none}" [ -z "${loose}" ]
		find "${statedir}" -type f 2>/dev/null | head -n 20 | while IFS= read -r text; do say "  stays: ${text}"; done
		say "after the reboot: ${kit}/accept.sh --clean"
	else
		attempt "uninstall: uninstall.sh --purge" 300 "${kit}/uninstall.sh" --purge ${root:+--root "${root}"}
	fi
}

# unmounted FOLDER: is nothing mounted below it?
unmounted()
{
	! mount -p 2>/dev/null | awk '{ print $2 }' | grep -q "^$1/"
}

# leftover NAME SEEN: a check that there is nothing.
leftover()
{
	expect "leftovers: $1" "none" "$2" [ -z "$2" ]
}

# our_jails, our_mounts, our_addresses, our_rules: what is left of ours in the kernel. Jails that die on their own are waited for.
our_jails() { jls -d name 2>/dev/null | grep -E "${ourjails}" | sort -u; }
our_mounts() { mount -p 2>/dev/null | awk '{ print $2 }' | grep -E -e "^${statedir}/" -e "^${work:-/nowhere}/"; }
our_addresses() { [ ! -f "${state}/lo0.before" ] || ifconfig lo0 2>/dev/null | grep inet | sort | comm -13 "${state}/lo0.before" - | awk '$1 == "inet" && $2 ~ /^127[.]80[.]/ { print $2 }'; }
our_rules() { rctl 2>/dev/null | grep -E -e "^jail:${ourjails#^}"; }

group_leftovers()
{
	waited=0
	while [ -n "$(our_jails)" ] && [ "${waited}" -lt $((90 * patience)) ]; do
		sleep 1
		waited=$((waited + 1))
	done
	# A tool that fails also prints nothing.
	seen=""
	for tool in "jls -d name" "mount -p" "rctl" "ps -ax" "ifconfig lo0"; do
		# Words are meant to be split.
		# shellcheck disable=SC2086
		${tool} >/dev/null 2>&1 || seen="${seen} ${tool};"
	done
	expect "leftovers: the tools that look for them work" "jls, mount, rctl, ps, ifconfig" "failed:${seen:- none}" [ -z "${seen}" ]
	leftover "processes" "$(running)"
	leftover "jails, dying ones included, after ${waited} s" "$(our_jails | tr '\n' ' ')"
	leftover "mounts" "$(our_mounts | tr '\n' ' ')"
	if noted dataset; then
		# Only what this kit made: its last part is the kit's own name.
		case "$(values dataset)" in
		?*/"${prefix}") attempt "leftovers: zfs destroy -r $(values dataset)" 120 zfs destroy -r "$(values dataset)" ;;
		esac
	fi
	leftover "rctl rules" "$(our_rules | head -n 5 | tr '\n' ' ')"
	if [ -f "${state}/lo0.before" ]; then
		leftover "addresses on lo0" "$(ifconfig lo0 2>/dev/null | grep inet | sort | comm -13 "${state}/lo0.before" - | tr '\n' ' ')"
		leftover "jails of others that are gone" "$(jls name 2>/dev/null | sort | comm -23 "${state}/jails.before" - | tr '\n' ' ')"
		leftover "mounts of others that are gone" "$(mount -p 2>/dev/null | awk '{ print $1, $2, $3 }' | sort | comm -23 "${state}/mounts.before" - | tr '\n' ' ')"
	fi
	sweep
	if [ "$(fact kern.securelevel)" -ge 1 ] 2>/dev/null; then
		result skip "leftovers: files" "" "at securelevel $(fact kern.securelevel) append-only files stay until a reboot: $(find "${statedir}" -type f 2>/dev/null | head -n 3 | tr '\n' ' ')"
		return 0
	fi
	left=""
	for path in $(sed -n 's/^[a-z]* [0-7]* [^ ]* [^ ]* //p' "${kit}/files.list" | sed 'p; s/\.sample$//') "${statedir}" "${logdir}" "${root}"/var/run/playground* \
		"${root}/usr/local/etc/playground" "${root}"/usr/local/etc/rc.conf.d/playground*; do
		case "${path}" in
		"${root}"/*) ;;
		*) path="${root}${path}" ;;
		esac
		[ ! -e "${path}" ] || left="${left} ${path}"
	done
	leftover "files" "${left}"
	left=""
	! noted newuser || ! pw usershow -n playground >/dev/null 2>&1 || left="user playground "
	! noted newgroup || ! pw groupshow -n playground >/dev/null 2>&1 || left="${left}group playground"
	leftover "accounts" "${left}"
}

# sweep takes away by force what should not be there any more, and only what is ours by its name or place.
sweep()
{
	for name in $(our_jails); do limited 60 jail -R "${name}" 2>/dev/null; done
	# The last mount lies on top.
	our_mounts | sed '1!G;h;$!d' | while IFS= read -r path; do limited 60 umount -f "${path}" 2>/dev/null; done
	our_rules | cut -d : -f 1,2 | sort -u | while IFS= read -r rule; do
		case "${rule}" in
		jail:pg?*) rctl -r "${rule}" 2>/dev/null ;;
		esac
	done
	# Tenants' own addresses (sandbox.addresses), where they were not there before this run.
	our_addresses | while IFS= read -r address; do ifconfig lo0 inet "${address}" -alias 2>/dev/null; done
	if noted ruleset; then devfs rule -s "$(values ruleset)" delset 2>/dev/null; fi
	for name in $(values module); do
		# A module stays where somebody else has come to use it, or at a securelevel.
		kldstat -q -m "${name}" 2>/dev/null && limited 60 kldunload "${name}" 2>/dev/null
	done
	return 0
}

# finish clears up, once, whatever ended the run. Called on every way out.
finish()
{
	[ "${finished}" = "no" ] || return 0
	finished=yes
	trap '' INT TERM HUP
	if [ -n "${child}" ]; then
		kill "${child}" 2>/dev/null
		wait "${child}" 2>/dev/null
		child=""
	fi
	# What the kernel said meanwhile may be the only trace of a fault.
	dmesg 2>/dev/null | tail -n 200 >"${results}/log/dmesg.log"
	tail -n 200 "${root}/var/log/messages" >"${results}/log/messages.log" 2>/dev/null
	end_victim
	if [ "${mine}" = "yes" ]; then
		if [ "${keep}" = "yes" ] && noted installed; then
			say "--keep: the suite stays: ${cli} -c ${config} status"
			say "remove it with: ${kit}/accept.sh --clean"
		else
			clear_up
		fi
	fi
	tap "1..${count}"
	summary "${why}"
	say "${passed} passed, ${failed} failed, ${skipped} skipped; ${results}/summary.json"
}

clear_up()
{
	if noted installed; then
		if noted started || [ -n "$(running)" ]; then group_stop; fi
		# The suite's own tools are gone next, so what they should have removed is removed now.
		[ -z "$(our_jails)$(our_mounts)" ] || tear_down
		rm -f "${config}.aside" "${config}.new"
		values rcfile | while IFS= read -r path; do rm -f "${path}"; done
		! noted rcdir || rmdir "$(values rcdir)" 2>/dev/null
		group_uninstall
	fi
	group_leftovers
	if [ -n "${work}" ]; then
		chflags -R noschg,nosappnd "${work}" 2>/dev/null
		! unmounted "${work}" || rm -rf "${work}"
	fi
	if [ -f "${state}/installed" ]; then
		say "files of the installation stay: when what is named above is mended, run ${kit}/accept.sh --clean"
	else
		rm -rf "${state}"
	fi
}

# tear_down: jails and mounts that outlived the stop. Tenants' jails may, because they come back at the next start; those of jobs
# may not.
tear_down()
{
	leaves=$(our_jails | grep -e '[.]' -e '^[a-z]*w-' | tr '\n' ' ')
	leftover "jails of jobs and workers after the stop" "${leaves}"
	sweep
	waited=0
	while [ -n "$(our_jails)" ] && [ "${waited}" -lt $((90 * patience)) ]; do
		sleep 1
		waited=$((waited + 1))
	done
	sweep
}
