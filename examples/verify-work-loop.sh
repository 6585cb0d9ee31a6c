#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# verify-work-loop.sh: check that the work loop of a running instance works, sandboxed. It starts one small run that records a
# note and stops, and looks at what the log holds of it. Its output is TAP (https://testanything.org); it ends with status 0
# when every line says "ok".
#
# It needs curl(1) and jq(1), and one of
#   PLAYGROUND_SOCKET   the operator's socket, such as /var/run/playground/operator.sock
#   PLAYGROUND_TOKEN    a token of `playground operator token create`, used with
#   PLAYGROUND_URL      the instance (default http://127.0.0.1:8787)
# With
#   PLAYGROUND_ACTOR    a member's DID, such as did:sync:user:alice,
# the run is that member's. Without it the run is the operator's: then the transport of the operator's runs is set to sandboxed
# for as long as the check takes.
set -eu

for tool in curl jq; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "1..0 # SKIP $tool is not installed"
		exit 0
	fi
done

work=$(mktemp -d "${TMPDIR:-/tmp}/verify-work-loop.XXXXXX")
restore=
cleanup() {
	status=$?
	trap - EXIT
	if [ -n "$restore" ]; then
		transport "$restore" >/dev/null || echo "# the transport of the operator's runs could not be set back to $restore"
	fi
	rm -rf "$work"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

# api METHOD PATH [BODY]: the answer is in $work/answer, the status on standard output. No secret is an argument of a program.
umask 077
: >"$work/headers"
if [ -n "${PLAYGROUND_TOKEN:-}" ]; then
	printf 'Authorization: Bearer %s\n' "$PLAYGROUND_TOKEN" >>"$work/headers"
fi
if [ -n "${PLAYGROUND_ACTOR:-}" ]; then
	printf 'X-Playground-Actor: %s\n' "$PLAYGROUND_ACTOR" >>"$work/actor"
else
	: >"$work/actor"
fi
api() {
	method=$1 path=$2 body=${3:-}
	set -- -sS -X "$method" -H "@$work/headers" -o "$work/answer" -w '%{http_code}' --max-time 30
	if [ -n "${PLAYGROUND_SOCKET:-}" ]; then
		set -- "$@" --unix-socket "$PLAYGROUND_SOCKET" "http://localhost$path"
	else
		set -- "$@" "${PLAYGROUND_URL:-http://127.0.0.1:8787}$path"
	fi
	if [ -n "$body" ]; then
		printf '%s' "$body" >"$work/body"
		set -- "$@" -H 'content-type: application/json' --data-binary "@$work/body"
	fi
	case $path in
	/v1/work/loop*) set -- "$@" -H "@$work/actor" ;;
	esac
	curl "$@"
}

# transport VALUE: where the operator's next run goes.
transport() {
	api POST /v1/records "$(jq -nc --arg transport "$1" '{act:"LEARN", actor:"did:sync:system:engine", thread:"th_engine_config",
		body:{kind:"core.engine.config.v1", topic:"work_loop_transport", transport:$transport}}')"
}

number=0 failed=0
# check TEXT COMMAND...: one line of TAP.
check() {
	text=$1
	shift
	number=$((number + 1))
	if "$@" >"$work/detail" 2>&1; then
		echo "ok $number - $text"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $number - $text"
	sed 's/^/# /' "$work/detail"
	sed 's/^/# /' "$work/answer" 2>/dev/null || :
	echo
}
says() { jq -e "$@" "$work/answer" >/dev/null; }
is() { [ "$1" = "$2" ] || { echo "got $1, want $2"; return 1; }; }

echo "1..11"
check "the instance answers" is "$(api GET /v1/engine/health)" 200
if [ -z "${PLAYGROUND_ACTOR:-}" ]; then
	now=$(jq -r '.work_loop.transport' "$work/answer")
	if [ "$now" != sandboxed ]; then
		is "$(transport sandboxed)" 201 >/dev/null || : # the next line tells
		restore=$now
	fi
	api GET /v1/engine/health >"$work/status" || : # the next line tells
	check "new runs of the operator are sandboxed" says '.work_loop.transport == "sandboxed"'
else
	check "new runs of members are sandboxed" says '.work_loop.member_transport == "sandboxed"'
fi

goal='Record a note whose text is exactly: transport-check . Use the record_note tool with only the text argument. Then stop.'
request=$(jq -nc --arg goal "$goal" '{goal:$goal, max_turns:3, budget_usd:0.05}')
check "a preview is answered" is "$(api POST /v1/work/loop/preview "$request")" 200
check "a start would be sandboxed and is not denied" says '.transport == "sandboxed" and .would_be_denied == false'
check "the run starts" is "$(api POST /v1/work/loop "$request")" 201
thread=$(jq -r '.thread // empty' "$work/answer")
echo "# thread $thread"

tries=0 state=
while [ -n "$thread" ] && [ "$tries" -lt 120 ]; do
	[ "$(api GET "/v1/runs/$thread")" = 200 ] || break
	state=$(jq -r .state "$work/answer")
	[ "$state" = running ] || break
	tries=$((tries + 1))
	sleep 0.5
done
check "the run ends as done" is "$state" "done"
check "its row says what was withheld" says '.transport == "sandboxed" and (.narrowed | type == "array")'

api GET "/v1/threads/$thread/records" >"$work/status" || :
check "its records can be read" is "$(cat "$work/status")" 200
check "the outcome is the kernel's and says sandboxed" says '[.data[] | select(.body.kind == "core.work.loop_outcome.v1")] |
	length == 1 and .[0].actor == "did:sync:system:engine" and .[0].body.transport == "sandboxed"'
check "at least one tool call succeeded" says '.data[] | select(.body.kind == "core.work.loop_outcome.v1") | .body.tool_calls_ok >= 1'
check "the note is there" says 'any(.data[]; .body.kind == "core.work.note.v1" and .body.text == "transport-check")'

[ "$failed" -eq 0 ]
