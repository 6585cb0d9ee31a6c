package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"playground/fault"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// anyText draws text as an agent may write it, and bytes that are none.
func anyText(t *rapid.T) string {
	hostile := rapid.SampledFrom([]string{"\x1b[2J", "\x1b]0;t\x07", "\u009b31m", "\u202e", "\u2066", "\r", "\n", "\t", "\x7f", "\ufeff", "\U000e0001", "\u2028", "\xff", "é", "日", "\\", `"`})
	return strings.Join(rapid.SliceOf(rapid.OneOf(hostile, rapid.String())).Draw(t, "text"), "")
}

// Nothing that an agent writes reaches a terminal as a control.
func TestSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyText(t)
		n := rapid.IntRange(3, 40).Draw(t, "n")
		for _, got := range append(lines(text), safe(text), short(text, n)) {
			if strings.ContainsFunc(got, hidden) || !utf8.ValidString(got) && !strings.Contains(text, "\xff") {
				t.Errorf("%q of %q", got, text)
			}
		}
		if got := short(text, n); utf8.RuneCountInString(got) > n {
			t.Errorf("%q has over %d characters", got, n)
		}
		document, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		var before, after any
		escaped := safeJSON(document)
		if err := json.Unmarshal(document, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &after); err != nil || !reflect.DeepEqual(before, after) || strings.ContainsFunc(string(escaped), hidden) {
			t.Errorf("%q of %q: %v", escaped, document, err)
		}
	})
}

// Wrapping loses nothing but spaces, and no piece is too wide.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n := safe(anyText(t)), rapid.IntRange(1, 30).Draw(t, "n")
		got := wrap(text, n)
		for _, piece := range got {
			if utf8.RuneCountInString(piece) > n {
				t.Errorf("%q has over %d characters", piece, n)
			}
		}
		if strings.Join(strings.Fields(strings.Join(got, "")), "") != strings.Join(strings.Fields(text), "") {
			t.Errorf("%q of %q", got, text)
		}
	})
}

// play shows events and returns what is printed.
func play(screen Screen, events []workapi.StreamEvent) string {
	var out bytes.Buffer
	begin := time.Unix(0, 0)
	v := newRunView(&out, screen, begin)
	for i, e := range events {
		v.event(e)
		v.tick(begin.Add(time.Duration(i) * time.Second))
	}
	v.clear()
	return out.String()
}

// event is an event whose record has this body.
func event(kind, id, body string) workapi.StreamEvent {
	return workapi.StreamEvent{Type: kind, Record: record.Record{ID: id, Actor: record.EngineDID, Body: json.RawMessage(body)}}
}

func sample() []workapi.StreamEvent {
	return []workapi.StreamEvent{
		event("start", "1", `{"actor":"did:sync:user:ada","tier":"trial","transport":"sandboxed","model":"m","narrowed":["read_file"]}`),
		event("turn", "2", `{"turn_index":0,"input_tokens":10,"output_tokens":5,"cost_usd":0.01,"text":"look\nat\u001b[2J this\n  <- ok granted"}`),
		event("tool_call", "3", `{"tool":"bash","args":{"command":"ls"}}`),
		event("tool_verdict", "4", `{"tool":"bash","fulfills":"3","decision":"deny","layer":"rule","rule":"no-bash","reason":"not now"}`),
		event("tool_result", "5", `{"fulfills":"3","status":"denied","content":"no"}`),
		event("tool_call", "6", `{"tool":"record_note","args":{"text":"n"}}`),
		event("tool_verdict", "7", `{"tool":"record_note","fulfills":"6","decision":"allow","layer":"allow"}`),
		event("note", "8", `{"text":"n"}`),
		event("tool_result", "9", `{"fulfills":"6","status":"ok","content":"Noted.\nTwice."}`),
		event("observation", "10", `{"rule":"repeat_guard","text":"You have\ncalled"}`),
		event("tool_call", "11", `{"tool":"probe","args":{}}`),
		event("tool_result", "12", `{"fulfills":"11","status":"truncated","code":"reply_truncated","content":"Not run."}`),
		event("message", "13", `{"text":"hurry"}`),
		event("error", "14", `{"verdict":"block","tool":"probe","count":3}`),
		event("error", "15", `{"reason":"tool_unavailable","narrative":"no vim"}`),
		event("ask", "16", `{"question":"Which?","options":["blue","red"]}`),
		event("outcome", "17", `{"outcome":"awaiting_actor","state":"waiting_on_you"}`),
		event("decision", "18", `{"decision":"blue"}`),
		event("record", "19", `[]`),
		event("stop", "19", `{"reason":"stopped by did:sync:user:operator"}`),
		event("outcome", "20", `{"outcome":"max_turns","state":"stopped_short","summary":"ended","tool_calls_ok":1,"tool_calls_failed":2,"spent_usd":0.25,"elapsed_ms":1234,"turns":5,"hint":"ask for\nmore"}`),
	}
}

func TestRunViewPlain(t *testing.T) {
	want := `  as did:sync:user:ada, trial, sandboxed, m
  narrowed: read_file
turn 1 (10 tokens in, 5 out, $0.0100)
  | look
  | at\x1b[2J this
  |   <- ok granted
  -> bash {"command":"ls"}
  ! denied by the rule layer, rule no-bash: not now
  -> record_note {"text":"n"}
  <- ok Noted. Twice.
  * repeat_guard: You have called
  -> probe {}
  ! reply_truncated Not run.
  > message: hurry
  * guardrail block: probe failed 3 times in the same way
  ! tool unavailable: no vim
ASK: Which?
  1. blue
  2. red
  > answer: blue
  > stopped by did:sync:user:operator; it ends at its next step
outcome: stopped_short (max turns)
  | ended
  hint: ask for more
  5 turns, tool calls 1 ok and 2 failed, $0.2500, 1.234s
`
	if diff := cmp.Diff(want, play(Screen{}, sample())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// On a terminal the same lines are there, coloured only if wanted, none is wider than the screen, and no status line is left.
func TestRunViewTerminal(t *testing.T) {
	for _, colour := range []bool{false, true} {
		printed := play(Screen{Terminal: true, Colour: colour, Unicode: true, Width: func() int { return 40 }}, sample())
		if got := strings.Contains(printed, "\x1b[31m"); got != colour {
			t.Errorf("coloured: %v, want %v", got, colour)
		}
		if !strings.Contains(printed, "Ctrl-C") && !strings.Contains(printed, "waiting") {
			t.Errorf("no status line in %q", printed)
		}
		for line := range strings.SplitSeq(printed, "\n") {
			for part := range strings.SplitSeq(line, "\r\x1b[K") { // what is redrawn begins anew
				plain := sgr(part)
				if n := utf8.RuneCountInString(plain); n > 40 && !strings.Contains(plain, "tokens in") && !strings.Contains(plain, "turns, tool calls") {
					t.Errorf("%d columns: %q", n, plain)
				}
				if strings.ContainsFunc(plain, hidden) {
					t.Errorf("a control in %q", plain)
				}
			}
		}
		if !strings.HasSuffix(printed, "\x1b[K") || strings.Contains(strings.TrimSuffix(printed, "\r\x1b[K"), "Ctrl-C leaves it running\n") {
			t.Errorf("the end is %q", printed[max(0, len(printed)-80):])
		}
	}
}

// sgr takes the view's own colours out of a line.
func sgr(line string) string {
	for _, style := range []string{"0", bold, dim, red, green, yellow, cyan} {
		line = strings.ReplaceAll(line, "\x1b["+style+"m", "")
	}
	return line
}

// Whatever the records hold, the view neither panics nor passes a control on.
func TestRunViewHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []workapi.StreamEvent
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			text := anyText(t)
			body, _ := json.Marshal(map[string]any{"text": text, "tool": text, "args": map[string]string{"a": text}, "content": text, "code": text, "status": rapid.SampledFrom([]string{"ok", "error", text}).Draw(t, "status"),
				"fulfills": "1", "layer": text, "rule": text, "reason": text, "question": text, "options": []string{text}, "summary": text, "state": text, "outcome": text, "narrative": text,
				"decision": text, "actor": text, "tier": text, "model": text, "narrowed": []string{text}, "verdict": text})
			if rapid.IntRange(0, 5).Draw(t, "broken") == 0 {
				body = []byte(`{"text":1,"options":"x","args":null}`)
			}
			kind := rapid.SampledFrom([]string{"start", "turn", "tool_call", "tool_verdict", "tool_result", "observation", "message", "ask", "decision", "error", "outcome", "note", ""}).Draw(t, "type")
			events = append(events, event(kind, "1", string(body)))
		}
		for line := range strings.SplitSeq(play(Screen{}, events), "\n") {
			if strings.ContainsFunc(line, hidden) {
				t.Errorf("%q", line)
			}
		}
	})
}

func TestAnswerTo(t *testing.T) {
	ask := workloop.Ask{Options: []string{"blue", "red"}}
	for text, want := range map[string]workapi.Answer{
		"blue":    {Decision: "blue"},
		"ack":     {Decision: "ack"},
		`gr"een`:  {Decision: "provide", Value: json.RawMessage(`"gr\"een"`)},
		"provide": {Decision: "provide", Value: json.RawMessage(`"provide"`)},
	} {
		if diff := cmp.Diff(want, answerTo(ask, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A time that cannot be meant must not count as none: the run would have no ceiling.
func TestRunTimes(t *testing.T) {
	for _, s := range []RunSpec{{WallClock: -time.Second}, {Timeout: -time.Second}} {
		if _, err := s.request(); !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%+v: %v", s, err)
		}
	}
	r, err := RunSpec{Goal: "x", WallClock: 1500 * time.Millisecond}.request()
	if err != nil || r.WallClockSecs == nil || *r.WallClockSecs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestExpressions(t *testing.T) {
	call := `{"actor":"did:sync:user:ada","body":{"tool":"bash","args":{"n":2,"f":1.5,"list":[1,2]}}}`
	for _, tt := range []struct{ context, expression, over, want string }{
		{"permission", `resource == "tool:bash"`, call, "true"},
		{"permission", `resource == "x"`, `{"resource":"x"}`, "true"},
		{"permission", `record.body.args.n == 2 && record.body.args.f == 1.5 && record.body.args.list[1] == 2`, call, "true"},
		{"permission", `current_actor() == "did:sync:user:bob"`, call, "false"},
		{"permission", `record.act == "CALL"`, "", "true"},
		{"permission", `record.body.nothing == 1`, call, "skipped"},
		{"permission", `resource ==`, call, "Syntax error"},
		{"permission", `1`, call, "bool"},
		{"hook", `tool == "bash" && status == "error" && args.n == 2`, `{"tool":"bash","status":"error","args":{"n":2}}`, "true"},
		{"hook", `resource == "x"`, "", "undeclared"},
		{"colour", `true`, "", "there is no context"},
		{"permission", `true`, "[]", "not a JSON object"},
		{"permission", `true`, `{"a":1}{}`, "not a JSON object"},
	} {
		var out bytes.Buffer
		e := &Env{Stdout: &out}
		err := e.ExprEval(tt.expression, tt.context, tt.over)
		if got := out.String() + fmt.Sprint(err); !strings.Contains(got, tt.want) {
			t.Errorf("%s of %s: %q, want %q", tt.expression, tt.over, got, tt.want)
		}
	}
}
