# What accept.sh writes and remembers: TAP lines, summary.json, and the state file from which it clears up. Read by accept.sh.
# shellcheck shell=sh disable=SC2154,SC2034

count=0
passed=0
failed=0
skipped=0
child=""
tab=$(printf '\t')

# oneline: text on standard input as one short line that is safe in TAP and in a table.
oneline()
{
	LC_ALL=C tr '\n\t\r' '   ' | LC_ALL=C tr -cd '\040-\176' | sed -e 's/  */ /g' -e 's/^ //' -e 's/ $//' -e 's/|/\//g' -e 's/#/=/g' | cut -c 1-500
}

# tap LINE: to the file and to standard output. A reader that is gone ends only the subshell. No program is started for it: on an
# emulated host the lines would take longer than the checks.
tap()
{
	printf '%s\n' "$1" >>"${results}/tap.txt"
	(printf '%s\n' "$1") 2>/dev/null
}

# say TEXT: a line that is no check.
say()
{
	tap "# $*"
}

# result ok|fail|skip NAME EXPECTED SEEN: one check.
result()
{
	count=$((count + 1))
	result_seen="$4"
	case "${result_seen}" in
	*[!\ -~]*|*"|"*|*"#"*|*"  "*|" "*|*" ") result_seen=$(printf '%s' "$4" | oneline) ;;
	*) [ "${#result_seen}" -le 500 ] || result_seen=$(printf '%s' "$4" | oneline) ;;
	esac
	[ -n "${result_seen}" ] || result_seen="nothing"
	case "$1" in
	ok)
		passed=$((passed + 1))
		result_line="ok ${count} - $2 | expected: $3 | seen: ${result_seen}"
		;;
	skip)
		skipped=$((skipped + 1))
		result_line="ok ${count} - $2 # SKIP ${result_seen}"
		;;
	*)
		failed=$((failed + 1))
		result_line="not ok ${count} - $2 | expected: $3 | seen: ${result_seen}"
		;;
	esac
	tap "${result_line}"
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${result_seen}" >>"${results}/results.tsv"
}

# expect NAME EXPECTED SEEN CONDITION...: a check that passes if the condition, a command, succeeds.
expect()
{
	expect_name="$1"
	expect_expected="$2"
	expect_seen="$3"
	shift 3
	if "$@"; then
		result ok "${expect_name}" "${expect_expected}" "${expect_seen}"
	else
		result fail "${expect_name}" "${expect_expected}" "${expect_seen}"
		return 1
	fi
}

# speed: how many programs this host starts in not quite 3 s, at most 3000.
speed()
{
	speed_from=$(date +%s)
	speed_count=1
	while [ "${speed_count}" -lt 3000 ] && [ $(($(date +%s) - speed_from)) -lt 3 ]; do
		speed_count=$((speed_count + 1))
	done
	echo "${speed_count}"
}

# patience_of COUNT: the factor for the time limits of a host with that speed. A machine in hardware starts some 2000, an emulated
# one some 200.
patience_of()
{
	patience_found=$((1 + 1500 / $1))
	[ "${patience_found}" -le 10 ] || patience_found=10
	echo "${patience_found}"
}

# remaining: the seconds that --within leaves for checks.
remaining()
{
	echo $((within * 60 - reserve - ($(date +%s) - began)))
}

out_of_time()
{
	[ "${within}" -gt 0 ] && [ "$(remaining)" -le 0 ]
}

# allowed SECONDS: sets allowed_most to them, or to what --within leaves of them; then allowed_cut is yes. Clearing up has its time.
allowed()
{
	allowed_most="$1"
	allowed_cut=no
	if [ "${within}" -eq 0 ] || [ "${finished}" = "yes" ]; then return 0; fi
	allowed_left=$(remaining)
	if [ "${allowed_left}" -lt "${allowed_most}" ]; then
		allowed_cut=yes
		allowed_most="${allowed_left}"
		[ "${allowed_most}" -ge 1 ] || allowed_most=1
	fi
}

# cut_off NAME: a check that --within left no time for.
cut_off()
{
	why="out of time"
	result skip "$1" "" "the ${within} minutes of --within were over before its end"
}

# limited SECONDS COMMAND...: the command, with an end. Signals reach this script while it runs. Without --foreground, timeout(1)
# of FreeBSD makes itself a reaper, and waits for the daemons that a command starts, and kills them.
limited()
{
	allowed $(($1 * patience))
	shift
	timeout --foreground -k 10 "${allowed_most}" "$@" &
	child=$!
	limited_status=0
	wait "${child}" || limited_status=$?
	child=""
	return "${limited_status}"
}

# attempt NAME SECONDS COMMAND...: a check that the command succeeds. Its output goes to a log, of which a failure shows the end.
attempt()
{
	attempt_name="$1"
	attempt_most="$2"
	shift 2
	attempt_log="${results}/log/$(printf '%s' "${attempt_name}" | tr -c 'A-Za-z0-9_\n-' '_').log"
	attempt_began=$(date +%s)
	attempt_status=0
	limited "${attempt_most}" "$@" >"${attempt_log}" 2>&1 </dev/null || attempt_status=$?
	attempt_took=$(($(date +%s) - attempt_began))
	case "${attempt_status}${allowed_cut}" in
	124yes|137yes)
		cut_off "${attempt_name}"
		return 1
		;;
	esac
	case "${attempt_status}" in
	0)
		result ok "${attempt_name}" "exit 0 within $((attempt_most * patience)) s" "exit 0 after ${attempt_took} s"
		return 0
		;;
	124|137) attempt_why="no end within $((attempt_most * patience)) s" ;;
	*) attempt_why="exit ${attempt_status} after ${attempt_took} s" ;;
	esac
	result fail "${attempt_name}" "exit 0 within $((attempt_most * patience)) s" "${attempt_why}: $(tail -n 3 "${attempt_log}")"
	say "  command: $*"
	tail -n 20 "${attempt_log}" | while IFS= read -r attempt_text; do say "  | ${attempt_text}"; done
	return "${attempt_status}"
}

# relay GROUP COMMAND...: runs a program that writes TAP, and takes its lines over, numbered anew, as they come.
relay()
{
	relay_group="$1"
	shift
	relay_pipe="${work}/pipe"
	relay_log="${results}/log/${relay_group}.log"
	relay_failed=${failed}
	relay_plan=no
	rm -f "${relay_pipe}"
	if ! mkfifo -m 0600 "${relay_pipe}"; then
		result fail "${relay_group}: the client can be started" "a pipe ${relay_pipe}" "mkfifo failed"
		return 1
	fi
	case "${relay_group}" in
	bench) relay_most=$((7200 * patience)) ;;
	*) relay_most=$((2400 * patience)) ;;
	esac
	allowed "${relay_most}"
	relay_most="${allowed_most}"
	relay_cut="${allowed_cut}"
	# It destroys its tenants before it ends. With --within that is a part of clearing up.
	relay_grace=$((300 * patience))
	if [ "${within}" -gt 0 ] && [ "${relay_grace}" -gt $((reserve / 2)) ]; then relay_grace=$((reserve / 2)); fi
	timeout --foreground -k "${relay_grace}" "${relay_most}" "$@" >"${relay_pipe}" 2>"${relay_log}" </dev/null &
	child=$!
	while IFS= read -r relay_line; do
		case "${relay_line}" in
		"ok "*|"not ok "*)
			relay_text="${relay_line#*" - "}"
			relay_name="${relay_text%%" | expected: "*}"
			case "${relay_text}" in
			*" # SKIP "*) result skip "${relay_text%%" # SKIP "*}" "" "${relay_text#*" # SKIP "}" ;;
			*" | expected: "*" | seen: "*)
				relay_rest="${relay_text#*" | expected: "}"
				case "${relay_line}" in
				"ok "*) result ok "${relay_name}" "${relay_rest%%" | seen: "*}" "${relay_rest#*" | seen: "}" ;;
				*) result fail "${relay_name}" "${relay_rest%%" | seen: "*}" "${relay_rest#*" | seen: "}" ;;
				esac
				;;
			*) result fail "${relay_group}: a line of its own form" "expected and seen" "${relay_line}" ;;
			esac
			;;
		"1.."*) relay_plan=yes ;;
		"# "*) say "${relay_line#"# "}" ;;
		esac
	done <"${relay_pipe}"
	relay_status=0
	wait "${child}" || relay_status=$?
	child=""
	case "${relay_status}${relay_cut}" in
	124yes|137yes)
		cut_off "${relay_group}: the client goes to its end"
		return 1
		;;
	124no|137no) relay_status="${relay_status} (no end within ${relay_most} s)" ;;
	esac
	# A program that died without a word must not look like one that had nothing to say.
	if [ "${relay_plan}" = "no" ] || { [ "${relay_status}" != "0" ] && [ "${failed}" -eq "${relay_failed}" ]; }; then
		result fail "${relay_group}: the client goes to its end" "exit 0 and a plan" "exit ${relay_status}, plan ${relay_plan}: $(tail -n 3 "${relay_log}")"
	fi
	[ "${failed}" -eq "${relay_failed}" ]
}

# note KIND VALUE: what was made, written down before it is made.
note()
{
	printf '%s %s\n' "$1" "$2" >>"${state}/state"
}

# noted KIND: was it?
noted()
{
	[ -f "${state}/state" ] && grep -q "^$1 " "${state}/state"
}

# values KIND: what was written down of a kind.
values()
{
	[ ! -f "${state}/state" ] || sed -n "s/^$1 //p" "${state}/state"
}

# summary STATUS: writes summary.json from the table of results.
summary()
{
	awk -F "${tab}" -v version="${kit_version}" -v arch="${kit_arch}" -v release="$(uname -r)" -v machine="$(uname -m)" \
		-v cpus="$(fact hw.ncpu)" -v memory="$(fact hw.physmem)" -v level="$(fact kern.securelevel)" -v racct="$(fact kern.racct.enable)" \
		-v patience="${patience}" -v started="${started}" -v seconds="$(($(date +%s) - began))" -v why="$1" -v only="${only}" -v bench="${results}/bench.json" '
	function text(s) {
		gsub(/\\/, "/", s) # what a replacement makes of backslashes differs between awks
		gsub(/"/, "\\\"", s)
		gsub(/[\001-\037]/, " ", s)
		return "\"" s "\""
	}
	function number(s) { return s ~ /^-?[0-9]+$/ ? s : "null" }
	{
		name = ($1 == "fail") ? "failed" : (($1 == "skip") ? "skipped" : "passed")
		total[name]++
		checks = checks (NR > 1 ? "," : "") "\n    {\"result\": " text(name) ", \"name\": " text($2) ", \"expected\": " text($3) ", \"seen\": " text($4) "}"
	}
	END {
		printf "{\n  \"kit\": {\"version\": %s, \"arch\": %s},\n", text(version), text(arch)
		printf "  \"host\": {\"release\": %s, \"machine\": %s, \"cpus\": %s, \"memory\": %s, \"securelevel\": %s, \"racct\": %s, \"patience\": %s},\n", \
			text(release), text(machine), number(cpus), number(memory), number(level), number(racct), number(patience)
		printf "  \"started\": %s, \"seconds\": %s, \"end\": %s, \"only\": %s,\n", text(started), number(seconds), text(why), text(only)
		printf "  \"passed\": %d, \"failed\": %d, \"skipped\": %d,\n", total["passed"], total["failed"], total["skipped"]
		printf "  \"checks\": [%s\n  ]", checks
		first = 1
		while ((getline line < bench) > 0) {
			printf "%s%s", first ? ",\n  \"bench\": " : "\n  ", line
			first = 0
		}
		printf "\n}\n"
	}' "${results}/results.tsv" >"${results}/summary.json.new" && mv -f "${results}/summary.json.new" "${results}/summary.json"
}

# fact NAME: a sysctl's value, or nothing.
fact()
{
	sysctl -n "$1" 2>/dev/null || true
}
