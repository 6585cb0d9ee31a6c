package loop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop/loop"
)

// rules returns the rules of the observations, in order.
func rules(t *testing.T, k *kernel) []string {
	t.Helper()
	var all []string
	for _, o := range bodies[loop.ObservationBody](t, k, loop.KindObservation) {
		all = append(all, o.Rule)
	}
	return all
}

// The third identical call in a row is told of, and each one after it; a denied call counts, another call between does not.
func TestRepeatGuard(t *testing.T) {
	a, b := callsTools(toolCall{"probe", `{"a":1}`}), callsTools(toolCall{"probe", `{"a":2}`})
	for _, tt := range []struct {
		name    string
		replies []loop.Completion
		deny    bool
		want    int
	}{
		{name: "three", replies: []loop.Completion{a, a, a, says("x")}, want: 1},
		{name: "told again", replies: []loop.Completion{a, a, a, a, a, a, says("x")}, want: 4},
		{name: "two", replies: []loop.Completion{a, a, says("x")}},
		{name: "not in a row", replies: []loop.Completion{a, a, b, a, a, says("x")}},
		{name: "in one turn", replies: []loop.Completion{callsTools(toolCall{"probe", `{"a":1}`}, toolCall{"probe", `{"a":1.0}`}, toolCall{"probe", "{\"a\" : 1}"}), says("x")}, want: 1},
		{name: "denied", replies: []loop.Completion{a, a, a, a, says("x")}, deny: true, want: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{model: script(tt.replies...)}
			if tt.deny {
				k.judge = func(loop.Proposal) loop.Verdict {
					return loop.Verdict{Decision: loop.Deny, Layer: loop.LayerRule}
				}
			}
			run(t, spec(), k)
			if got := rules(t, k); len(got) != tt.want || slices.ContainsFunc(got, func(rule string) bool { return rule != loop.RuleRepeat }) {
				t.Errorf("observations %v, want %d", got, tt.want)
			}
		})
	}
}

// What is recorded is word for word what the model is shown, beside the tool's own result and after it.
func TestObservationText(t *testing.T) {
	a := callsTools(toolCall{"probe", `{}`})
	k := &kernel{model: script(a, a, a, says("x"))}
	run(t, spec(), k)
	observations := bodies[loop.ObservationBody](t, k, loop.KindObservation)
	want := []loop.ObservationBody{{Rule: loop.RuleRepeat, LoopThread: thread, Tool: "probe", TurnIndex: 2, Source: loop.SourceBuiltin, Call: observations[0].Call,
		Text: "You have called probe with the same arguments 3 times in a row. Calling it again like this will not bring anything new. Change something, or stop and say what you found."}}
	if diff := cmp.Diff(want, observations); diff != "" {
		t.Errorf("observations (-want +got):\n%s", diff)
	}
	last := k.requests[3].Messages[6].Content
	if len(last) != 2 || last[0].Type != inference.ToolResult || last[0].Text != "ok" || last[1].Text != observations[0].Text {
		t.Errorf("the model is shown %+v", last)
	}
}

func TestAbsenceGuard(t *testing.T) {
	read := func(thread string, more string) loop.Completion {
		return callsTools(toolCall{"query_thread", fmt.Sprintf(`{"thread":%q%s}`, thread, more)})
	}
	for _, tt := range []struct {
		name    string
		replies []loop.Completion
		want    []string
	}{
		{"once", []loop.Completion{read(other, "")}, nil},
		{"two threads", []loop.Completion{read(other, ""), read(thread, "")}, nil},
		{"twice", []loop.Completion{read(other, ""), read(other, `,"count_only":true`)}, []string{loop.RuleAbsence}},
		{"one record", []loop.Completion{read(other, ""), callsTools(toolCall{"read_record", fmt.Sprintf(`{"thread":%q,"clock":9}`, other)})}, []string{loop.RuleAbsence}},
		{"again and again", []loop.Completion{read(other, ""), read(other, ""), read(other, "")}, []string{loop.RuleAbsence, loop.RuleRepeat, loop.RuleAbsence}},
		{"found between", []loop.Completion{read(other, ""), read(other, `,"filter":{"clock":1}`), read(other, "")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{model: script(append(slices.Clone(tt.replies), says("x"))...)}
			k.query = func(q record.Query) (record.Page, error) {
				if strings.Contains(string(q.Filter), `"clock":1`) {
					return record.Page{Data: []record.Record{{ID: "1", Thread: other, Body: json.RawMessage(`{}`)}}, MatchedTotal: 1}, nil
				}
				return record.Page{}, nil
			}
			run(t, spec(), k)
			if diff := cmp.Diff(tt.want, rules(t, k)); diff != "" {
				t.Errorf("observations (-want +got):\n%s", diff)
			}
		})
	}
}

// A call on a reply that was cut is never run, even where its arguments parse; the model is told once a reply.
func TestTruncatedCall(t *testing.T) {
	cut := callsTools(toolCall{"probe", `{"a":1}`}, toolCall{"record_note", `{"text":"half a`}, toolCall{"record_note", `{"text":"n"}`})
	cut.StopReason = inference.MaxTokens
	k := &kernel{model: script(cut, says("x"))}
	if got := run(t, spec(), k); got.Outcome != loop.Completed {
		t.Errorf("claim %+v", got)
	}
	if len(k.ran) > 0 || len(bodies[loop.NoteBody](t, k, loop.KindNote)) > 0 {
		t.Errorf("ran %v", k.ran)
	}
	for _, r := range bodies[loop.ToolResultBody](t, k, loop.KindToolResult) {
		if r.Status != loop.StatusTruncated {
			t.Errorf("result %+v", r)
		}
	}
	if got := rules(t, k); !slices.Equal(got, []string{loop.RuleTruncated}) || !strings.Contains(k.told(1), "its tool calls (3) may be incomplete") {
		t.Errorf("observations %v, told %q", got, k.told(1))
	}
	if calls := bodies[loop.ToolCallBody](t, k, loop.KindToolCall); len(calls) != 3 || string(calls[1].Args) != `{"malformed":"{\"text\":\"half a"}` {
		t.Errorf("calls %+v", calls)
	}
}

// A call that fails three times in one way is no longer run. A success or another failure begins the count anew.
func TestGuardrail(t *testing.T) {
	same := callsTools(toolCall{"probe", `{"a":1}`})
	codes := func(list ...string) map[string]func(json.RawMessage) loop.Result {
		i := -1
		return map[string]func(json.RawMessage) loop.Result{"probe": func(json.RawMessage) loop.Result {
			if i++; list[min(i, len(list)-1)] == "" {
				return loop.Result{Status: loop.StatusOK, Content: "fine"}
			}
			return loop.Result{Status: loop.StatusError, Code: list[min(i, len(list)-1)], Content: "no"}
		}}
	}
	for _, tt := range []struct {
		name     string
		codes    []string
		turns    int
		ran      int
		verdicts []string
		outcome  string
	}{
		{"halt", []string{"x"}, 9, 3, []string{"block", "halt"}, loop.GuardrailHalt},
		{"block", []string{"x"}, 4, 3, []string{"block"}, loop.MaxTurns},
		{"two", []string{"x", "x", ""}, 4, 4, nil, loop.MaxTurns},
		{"shapes", []string{"x", "x", "y", "y", "x", "x"}, 6, 6, nil, loop.MaxTurns},
		{"success between", []string{"x", "x", "", "x", "x", ""}, 6, 6, nil, loop.MaxTurns},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{model: script(same), tools: codes(tt.codes...)}
			s := spec()
			s.MaxTurns = tt.turns
			claim := run(t, s, k)
			var verdicts []string
			for _, g := range bodies[loop.GuardrailBody](t, k, loop.KindGuardrail) {
				verdicts = append(verdicts, g.Verdict)
				if g.Count != g.Threshold || g.ArgsHash != loop.ArgsHash(json.RawMessage(`{"a":1}`)) {
					t.Errorf("guardrail %+v", g)
				}
			}
			if claim.Outcome != tt.outcome || len(k.ran) != tt.ran || !slices.Equal(verdicts, tt.verdicts) {
				t.Errorf("claim %+v, ran %d times, guardrail %v", claim, len(k.ran), verdicts)
			}
			if tt.name != "block" {
				return
			}
			results := bodies[loop.ToolResultBody](t, k, loop.KindToolResult)
			if last := results[len(results)-1]; last.Code != "guardrail_blocked" || last.Status != loop.StatusError {
				t.Errorf("the blocked call's result %+v", last)
			}
		})
	}
}

// Failures of calls that the kernel denies count too.
func TestGuardrailDenied(t *testing.T) {
	k := &kernel{model: script(callsTools(toolCall{"probe", `{}`})), judge: func(loop.Proposal) loop.Verdict {
		return loop.Verdict{Decision: loop.Deny, Layer: loop.LayerRule}
	}}
	if got := run(t, spec(), k); got.Outcome != loop.GuardrailHalt || got.Turns != 5 {
		t.Errorf("claim %+v", got)
	}
}

func TestHooks(t *testing.T) {
	hook := func(name, when string) policy.Hook {
		return policy.Hook{Name: name, When: when, Text: name + " saw ${tool} end as ${status}", MaxFires: 2, Enabled: true}
	}
	s := spec()
	off := hook("off", "true")
	off.Enabled = false
	s.Hooks = []policy.Hook{hook("all", "true"), hook("bad", "args.nothing == 1"), off, hook("probes", `tool == "probe" && args.n == 2`)}
	var replies []loop.Completion
	for i := range 4 {
		replies = append(replies, callsTools(toolCall{"probe", fmt.Sprintf(`{"n":%d}`, i+1)}))
	}
	k := &kernel{model: script(append(replies, says("x"))...)}
	if got := run(t, s, k); got.Outcome != loop.Completed {
		t.Errorf("claim %+v", got)
	}
	if got := rules(t, k); !slices.Equal(got, []string{"all", "all", "probes"}) {
		t.Errorf("observations %v", got)
	}
	if told := k.told(2); told != "ok\nall saw probe end as ok\nprobes saw probe end as ok\n" {
		t.Errorf("told %q", told)
	}
	turns := bodies[loop.TurnBody](t, k, loop.KindTurn)
	if len(turns[0].HookErrors) > 0 || !slices.Equal(turns[1].HookErrors, []string{"bad"}) {
		t.Errorf("turns %+v", turns[:2])
	}
}

// In process, a hook that is written while a run is going speaks from its next turn on.
func TestLiveHooks(t *testing.T) {
	k := &kernel{model: script(callsTools(toolCall{"probe", `{"n":1}`}), callsTools(toolCall{"probe", `{"n":2}`}), says("x"))}
	s := spec()
	s.LiveHooks = func() []policy.Hook {
		if len(k.ran) == 0 {
			return nil
		}
		return []policy.Hook{{Name: "late", When: "true", Text: "late", MaxFires: 3, Enabled: true}}
	}
	run(t, s, k)
	if got := rules(t, k); !slices.Equal(got, []string{"late"}) {
		t.Errorf("observations %v", got)
	}
}
