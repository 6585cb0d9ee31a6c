package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
)

func TestOutcomes(t *testing.T) {
	stop := func(p loop.Proposal) loop.Verdict { return loop.Verdict{Decision: loop.Stop, Layer: loop.LayerStop} }
	failing := map[string]func(json.RawMessage) loop.Result{
		"probe": func(json.RawMessage) loop.Result {
			return loop.Result{Status: loop.StatusError, Code: "x", Content: "no"}
		},
		"ask": func(json.RawMessage) loop.Result {
			return loop.Result{Status: loop.StatusOK, Content: "which one?", Park: true}
		},
	}
	empty := says("")
	cut := says("half a")
	cut.StopReason = inference.MaxTokens
	refusing := says("I will not")
	refusing.StopReason = inference.Refusal
	probe := callsTools(toolCall{"probe", `{"a":1}`})
	fails := func(op string, err error) func(string) error {
		return func(got string) error {
			if strings.HasPrefix(got, op) {
				return err
			}
			return nil
		}
	}
	for _, tt := range []struct {
		name  string
		model []loop.Completion
		judge func(loop.Proposal) loop.Verdict
		fail  func(string) error
		want  loop.Claim
	}{
		{name: "completed", model: []loop.Completion{probe, says(" done ")}, want: loop.Claim{Outcome: loop.Completed, Summary: "done", Turns: 2}},
		{name: "completed at once", model: []loop.Completion{says("done")}, want: loop.Claim{Outcome: loop.Completed, Summary: "done", Turns: 1}},
		{name: "max turns", model: []loop.Completion{callsTools(toolCall{"record_note", `{"text":"n"}`})}, want: loop.Claim{Outcome: loop.MaxTurns, Summary: "ended at the ceiling of 4 turns", Turns: 4}},
		{name: "stopped", model: []loop.Completion{probe}, judge: stop, want: loop.Claim{Outcome: loop.Cancelled, Summary: "the run was stopped", Turns: 1}},
		{name: "stopped at the model", model: []loop.Completion{probe}, fail: fails("complete", loop.ErrStopped), want: loop.Claim{Outcome: loop.Cancelled, Summary: "the run was stopped"}},
		{name: "usd", model: []loop.Completion{probe}, fail: fails("complete", loop.ErrBudget(loop.BudgetUSD)), want: loop.Claim{Outcome: loop.BudgetExhausted, BudgetKind: "usd", Summary: "the usd budget is exhausted"}},
		{name: "tokens", model: []loop.Completion{probe}, fail: fails("complete", loop.ErrBudget(loop.BudgetTokens)), want: loop.Claim{Outcome: loop.BudgetExhausted, BudgetKind: "tokens", Summary: "the tokens budget is exhausted"}},
		{name: "budget of the broker", model: []loop.Completion{probe}, fail: fails("complete", fmt.Errorf("x: %w", &inference.BudgetError{Kind: "tokens"})), want: loop.Claim{Outcome: loop.BudgetExhausted, BudgetKind: "tokens", Summary: "the tokens budget is exhausted"}},
		{name: "kernel's turns", model: []loop.Completion{probe}, fail: fails("complete", &loop.Refusal{Code: loop.CodeMaxTurns, Status: 403}), want: loop.Claim{Outcome: loop.MaxTurns, Summary: "ended at the ceiling of turns"}},
		{name: "provider", model: []loop.Completion{probe}, fail: fails("complete", errors.New("overloaded")), want: loop.Claim{Outcome: loop.Failed, Error: "overloaded"}},
		{name: "kernel gone", model: []loop.Completion{probe}, fail: fails("propose", errors.New("gone")), want: loop.Claim{Outcome: loop.Failed, Error: "gone", Turns: 1}},
		{name: "credential gone", model: []loop.Completion{probe}, fail: fails("call", &loop.Refusal{Code: loop.CodeAuthRequired, Status: 401, Message: "no"}), want: loop.Claim{Outcome: loop.Failed, Error: "no (AUTH_REQUIRED)", Turns: 1}},
		{name: "log full", model: []loop.Completion{probe}, fail: fails("append "+loop.KindTurn, errors.New("full")), want: loop.Claim{Outcome: loop.Failed, Error: "full", Turns: 1}},
		{name: "no such decision", model: []loop.Completion{probe}, judge: func(loop.Proposal) loop.Verdict { return loop.Verdict{Decision: "maybe"} }, want: loop.Claim{Outcome: loop.Failed, Error: `the kernel's decision "maybe" is none`, Turns: 1}},
		{name: "refusal", model: []loop.Completion{refusing}, want: loop.Claim{Outcome: loop.Failed, Summary: "I will not", Error: "the model refused to go on", Turns: 1}},
		{name: "empty", model: []loop.Completion{empty}, want: loop.Claim{Outcome: loop.Failed, Error: "3 replies of the model in a row were empty", Turns: 3}},
		{name: "empty once", model: []loop.Completion{empty, empty, says("ok")}, want: loop.Claim{Outcome: loop.Completed, Summary: "ok", Turns: 3}},
		{name: "cut", model: []loop.Completion{cut}, want: loop.Claim{Outcome: loop.Failed, Summary: "half a", Error: "3 replies of the model in a row were cut at the output limit", Turns: 3}},
		{name: "asks", model: []loop.Completion{callsTools(toolCall{"ask", `{}`}, toolCall{"probe", `{}`})}, want: loop.Claim{Outcome: loop.AwaitingActor, Summary: "which one?", Turns: 1}},
		{name: "halt", model: []loop.Completion{callsTools(toolCall{"probe", `{"a":1}`}, toolCall{"probe", `{ "a": 1 }`}, toolCall{"probe", `{"a":1}`}), probe, probe},
			want: loop.Claim{Outcome: loop.GuardrailHalt, Tool: "probe", ArgsHash: loop.ArgsHash(json.RawMessage(`{"a":1}`)), Count: 5, Turns: 3,
				Summary: "probe failed 5 times in the same way with the same arguments"}},
		{name: "blocked", model: []loop.Completion{callsTools(toolCall{"bash", `{"n":1}`}), callsTools(toolCall{"bash", `{"n":2}`}, toolCall{"vim", `{}`}), callsTools(toolCall{"vim", `{"n":3}`})},
			want: loop.Claim{Outcome: loop.Blocked, Tool: "vim", Summary: "all tool calls of 3 turns in a row failed: tool unavailable: vim", Turns: 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{model: script(tt.model...), judge: tt.judge, fail: tt.fail, tools: failing}
			s := spec()
			s.MaxTurns = 4
			if diff := cmp.Diff(tt.want, run(t, s, k)); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
		})
	}
}

// A run without a ceiling of turns still ends with its clock, also in the middle of a model's reply.
func TestWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		k.model = func(int, inference.Request) (loop.Completion, error) {
			time.Sleep(40 * time.Second)
			return callsTools(toolCall{"probe", fmt.Sprintf(`{"n":%d}`, len(k.requests))}), nil
		}
		s := spec()
		s.MaxTurns, s.WallClock = 0, time.Minute
		want := loop.Claim{Outcome: loop.BudgetExhausted, BudgetKind: loop.BudgetWallClock, Summary: "the wall clock ceiling of the run is reached", Turns: 2}
		if diff := cmp.Diff(want, run(t, s, k)); diff != "" {
			t.Errorf("claim (-want +got):\n%s", diff)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := loop.Run(ctx, spec(), &kernel{model: script(says("x"))}); got.Outcome != loop.Cancelled {
		t.Errorf("ended from outside: %+v", got)
	}
}

// The five records of the documented verification run, in order.
func TestRecords(t *testing.T) {
	k := &kernel{model: script(callsTools(toolCall{"record_note", `{"text":"transport-check"}`}), says("Recorded."))}
	run(t, spec(), k)
	var kinds []string
	for _, rec := range k.log {
		kinds = append(kinds, strings.TrimPrefix(record.Kind(rec), "core.work."))
	}
	want := []string{"turn.v1", "tool_call.v1", "tool_verdict.v1", "note.v1", "tool_result.v1", "turn.v1"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	turns := bodies[loop.TurnBody](t, k, loop.KindTurn)
	if diff := cmp.Diff(loop.TurnBody{TurnIndex: 0, Model: "m", InputTokens: 10, OutputTokens: 5, CostUSD: 0.01, StopReason: "tool_use", Text: "looking", ToolCalls: 1}, turns[0]); diff != "" {
		t.Errorf("turn (-want +got):\n%s", diff)
	}
	if notes := bodies[loop.NoteBody](t, k, loop.KindNote); notes[0].Text != "transport-check" {
		t.Errorf("note %+v", notes)
	}
	results := bodies[loop.ToolResultBody](t, k, loop.KindToolResult)
	if len(results) != 1 || results[0].Fulfills != k.log[1].ID || results[0].Status != loop.StatusOK {
		t.Errorf("results %+v", results)
	}
}

// Calls of one reply run in order, and a stop in the middle leaves the rest unasked.
func TestParallelCalls(t *testing.T) {
	reply := callsTools(toolCall{"probe", `{"n":1}`}, toolCall{"ask", `{}`}, toolCall{"probe", `{"n":2}`})
	k := &kernel{model: script(reply, says("done"))}
	if got := run(t, spec(), k); got.Outcome != loop.Completed || !slices.Equal(k.ran, []string{"probe", "ask", "probe"}) {
		t.Errorf("%+v ran %v", got, k.ran)
	}
	k = &kernel{model: script(reply, says("done"))}
	k.judge = func(p loop.Proposal) loop.Verdict {
		if len(k.ran) > 0 {
			return loop.Verdict{Decision: loop.Stop, Layer: loop.LayerStop}
		}
		return loop.Verdict{Decision: loop.Allow}
	}
	if got := run(t, spec(), k); got.Outcome != loop.Cancelled || !slices.Equal(k.ran, []string{"probe"}) || len(bodies[loop.ToolCallBody](t, k, loop.KindToolCall)) != 2 {
		t.Errorf("%+v ran %v", got, k.ran)
	}
}

// What a person says reaches the model in the next turn, also when the model was about to end.
func TestMessages(t *testing.T) {
	ending := says("done")
	ending.Messages = []string{"one more thing"}
	k := &kernel{model: script(callsTools(toolCall{"probe", `{}`}), ending, says("done too"))}
	k.judge = func(loop.Proposal) loop.Verdict {
		return loop.Verdict{Decision: loop.Allow, Messages: []string{"hurry", "  "}}
	}
	if got := run(t, spec(), k); got.Summary != "done too" || got.Turns != 3 {
		t.Errorf("claim %+v", got)
	}
	if told := k.told(1); told != "ok\nA message from the person you work for:\nhurry\n" {
		t.Errorf("after the call the model is told %q", told)
	}
	if told := k.told(2); told != "A message from the person you work for:\none more thing\n" {
		t.Errorf("at the end the model is told %q", told)
	}
}

func TestDenied(t *testing.T) {
	s := spec()
	s.Narrowed = []string{"read_file"}
	judge := func(p loop.Proposal) loop.Verdict {
		switch p.Tool {
		case "probe":
			return loop.Verdict{Decision: loop.Deny, Layer: loop.LayerRule, Rule: "stop-that", Reason: "not now.", Change: "ask Ada"}
		case "bash":
			return loop.Verdict{Decision: loop.Deny, Layer: loop.LayerClamp, Reason: "forbidden"}
		}
		return loop.Verdict{Decision: loop.Deny, Layer: loop.LayerGrant}
	}
	k := &kernel{judge: judge, model: script(callsTools(toolCall{"probe", `{}`}, toolCall{"bash", `{}`}, toolCall{"read_file", `{}`}, toolCall{"vi\x00m", `{}`}), says("ok"))}
	run(t, s, k)
	want := "Denied by the rule layer, rule stop-that. Reason: not now. What would change it: ask Ada\n" +
		"Denied by the clamp layer. Reason: forbidden\n" +
		"The tool read_file is withheld from this run: the place where it runs cannot serve it.\n" +
		"There is no tool vi_m in this run. Its tools are: record_note, query_thread, read_record, probe, ask.\n"
	if diff := cmp.Diff(want, k.told(1)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if len(k.ran) > 0 {
		t.Errorf("ran %v", k.ran)
	}
}

// A fault of the request is the model's to mend; it ends nothing.
func TestSoftErrors(t *testing.T) {
	for _, err := range []error{
		&loop.Refusal{Code: loop.CodeReadsNotCovered, Status: 403, Message: "the thread is not covered", Extra: map[string]any{"hint": "ask for what is"}},
		fault.New(fault.Invalid, "unknown field path: x").WithHint("ask for what is"),
	} {
		k := &kernel{model: script(callsTools(toolCall{"query_thread", `{"thread":"` + other + `","filter":{"x":1}}`}, toolCall{"probe", `{}`}), says("ok")),
			fail: func(op string) error {
				if op == "query" || op == "call" {
					return err
				}
				return nil
			}}
		if got := run(t, spec(), k); got.Outcome != loop.Completed {
			t.Errorf("%v: %+v", err, got)
		}
		results := bodies[loop.ToolResultBody](t, k, loop.KindToolResult)
		if len(results) != 1 || results[0].Status != loop.StatusError || results[0].Code == "" || !strings.HasSuffix(results[0].Content, "\nhint: ask for what is") {
			t.Errorf("%v: results %+v", err, results)
		}
	}
}

func TestOpening(t *testing.T) {
	s := spec()
	budget := 0.25
	s.Narrowed, s.Reads, s.BudgetUSD, s.WallClock, s.Opening, s.System = []string{"read_file", "search"}, []string{other}, &budget, 2*time.Minute, "Be brief.", "House rules."
	k := &kernel{model: script(says("ok"))}
	run(t, s, k)
	want := "Goal:\nfind out\n\nThis run's thread is " + thread + " and you act as did:sync:user:ada. You may also read: " + other + ".\n" +
		"The run ends at the latest after 20 turns, or 2m0s of time, or 0.25 US dollars.\n" +
		"This run is narrowed: read_file, search would be yours to use, but the place where you run cannot serve them, so they are withheld. " +
		"Do not call them; where the goal needs them, say so at the end.\nBe brief.\n"
	if diff := cmp.Diff(want, k.told(0)); diff != "" {
		t.Errorf("opening (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(k.requests[0].System, "\n\nHouse rules.") || len(k.requests[0].Tools) != 5 {
		t.Errorf("request %+v", k.requests[0])
	}
}

// A run that waited goes on from its records: the same conversation, and then the answer.
func TestResume(t *testing.T) {
	k := &kernel{model: script(callsTools(toolCall{"record_note", `{"text":"n"}`}), callsTools(toolCall{"ask", `{"q":"?"}`}, toolCall{"probe", `{}`}))}
	k.tools = map[string]func(json.RawMessage) loop.Result{"ask": func(json.RawMessage) loop.Result {
		return loop.Result{Status: loop.StatusOK, Content: "asked", Park: true}
	}}
	if got := run(t, spec(), k); got.Outcome != loop.AwaitingActor {
		t.Fatalf("claim %+v", got)
	}
	s := spec()
	s.History, s.FirstTurn = loop.History(k.log)
	s.Opening = `The decision you asked for: "blue".`
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var travelled loop.Spec
	if err := json.Unmarshal(encoded, &travelled); err != nil {
		t.Fatal(err)
	}
	again := &kernel{model: script(says("blue it is"))}
	if diff := cmp.Diff(loop.Claim{Outcome: loop.Completed, Summary: "blue it is", Turns: 1}, run(t, travelled, again)); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	sent := again.requests[0].Messages
	if diff := cmp.Diff(k.requests[1].Messages, sent[:3]); diff != "" {
		t.Errorf("conversation (-before +resumed):\n%s", diff)
	}
	if told := again.told(0); told != "asked\nThe run goes on after a pause. The decision you asked for: \"blue\".\n" {
		t.Errorf("told %q", told)
	}
	if turns := bodies[loop.TurnBody](t, again, loop.KindTurn); turns[0].TurnIndex != 2 {
		t.Errorf("turns %+v", turns)
	}
}

// What a model keeps for itself goes back to it in its place. What was cut, or is none, would make the service refuse the rest.
func TestThinkingGoesBack(t *testing.T) {
	thinking := func(raw string) inference.Block {
		return inference.Block{Type: inference.Thinking, Input: json.RawMessage(raw)}
	}
	whole := thinking(`{"type":"thinking","thinking":"hm","signature":"c2ln"}`)
	first, second, third := callsTools(toolCall{"probe", `{}`}), callsTools(toolCall{"probe", `{"n":1}`}), says("")
	first.Content = append([]inference.Block{whole, thinking(`"none"`), thinking(`{`)}, first.Content...)
	second.Content = []inference.Block{second.Content[0], whole, second.Content[1], thinking(`{"type":"thinking","thinking":"cut o"}`)}
	third.Content = []inference.Block{whole}
	k := &kernel{model: script(first, second, third, says("done"))}
	if got := run(t, spec(), k); got.Outcome != loop.Completed {
		t.Fatalf("%+v", got)
	}
	var types [][]string
	for _, m := range k.requests[3].Messages {
		if m.Role != inference.Assistant {
			continue
		}
		var of []string
		for _, b := range m.Content {
			of = append(of, b.Type)
			if b.Type == inference.Thinking && string(b.Input) != string(whole.Input) {
				t.Errorf("thinking %s", b.Input)
			}
		}
		types = append(types, of)
	}
	want := [][]string{{"thinking", "text", "tool_use"}, {"text", "thinking", "tool_use"}}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A long conversation is shortened where it is oldest, by results first and by turns then, and stays well-formed.
func TestLongConversation(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 2<<10)
	for _, tt := range []struct {
		name, content, args string
		left                bool
	}{
		{"results", long, "{}", false},
		{"arguments", "ok", `{"text":"` + long + `"}`, true},
	} {
		k := &kernel{tools: map[string]func(json.RawMessage) loop.Result{"probe": func(json.RawMessage) loop.Result {
			return loop.Result{Status: loop.StatusOK, Content: tt.content}
		}}}
		k.model = func(turn int, _ inference.Request) (loop.Completion, error) {
			return callsTools(toolCall{"probe", strings.Replace(tt.args, "{", fmt.Sprintf(`{"n":%d,`, turn), 1)}), nil
		}
		if tt.args == "{}" {
			k.model = func(turn int, _ inference.Request) (loop.Completion, error) {
				return callsTools(toolCall{"probe", fmt.Sprintf(`{"n":%d}`, turn)}), nil
			}
		}
		s := spec()
		s.MaxTurns = 60
		run(t, s, k)
		size, left := 0, false
		for _, m := range k.requests[59].Messages {
			for _, b := range m.Content {
				size += len(b.Text) + len(b.Input)
				left = left || strings.Contains(b.Text, "turns are left out here")
			}
		}
		opening := k.requests[59].Messages[0].Content
		if size > 450<<10 || left != tt.left || !strings.HasPrefix(opening[0].Text, "Goal:\nfind out") || len(opening) > 2 {
			t.Errorf("%s: the last request holds %d bytes, turns left out: %v, opening %+v", tt.name, size, left, opening)
		}
		if first := k.requests[1].Messages[2].Content[0].Text; first != tt.content {
			t.Errorf("%s: an earlier request was changed: %d bytes", tt.name, len(first))
		}
	}
}
