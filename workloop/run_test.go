package workloop_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"playground/inference"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "8") // each has a database and workers of its own; the command line has the last word
	goleak.VerifyTestMain(m)
}

// exactGoal is the verification goal of the documentation.
const exactGoal = "Record a note whose text is exactly: transport-check . Use the record_note tool with only the text argument. Then stop."

func TestVerification(t *testing.T) {
	for _, c := range []struct{ principal, transport string }{{operator, "in_process"}, {alice, "sandboxed"}} {
		t.Run(c.transport, func(t *testing.T) {
			g := newRig(t)
			turns, budget := 3, 0.05
			s := g.start(workloop.StartRequest{Principal: c.principal, Goal: exactGoal, MaxTurns: &turns, BudgetUSD: &budget})
			if s.Object != "work_loop" || s.Status != "started" || s.Transport != c.transport || *s.Config.MaxTurns != 3 || *s.BudgetUSD != 0.05 || s.Narrowed == nil {
				t.Errorf("started is %+v", s)
			}
			row := g.outcome(s.Thread)
			if row.State != workloop.Done || row.ToolCallsOK != 1 || row.ToolCallsFailed != 0 || row.Turns != 2 || row.Transport != c.transport || !*row.Success {
				t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
			}
			notes := g.records(s.Thread, loop.KindNote)
			if len(notes) != 1 || body(t, notes[0])["text"] != "transport-check" {
				t.Errorf("notes are %v", notes)
			}
			outcome := body(t, g.records(s.Thread, workloop.KindOutcome)[0])
			if outcome["transport"] != c.transport || outcome["tool_calls_ok"] != 1.0 || outcome["state"] != "done" || outcome["success"] != true {
				t.Errorf("outcome is %v", outcome)
			}
			// The verdict is written before the result, by the kernel, and names the call.
			call, verdict := g.records(s.Thread, loop.KindToolCall)[0], g.records(s.Thread, workloop.KindToolVerdict)[0]
			result := g.records(s.Thread, loop.KindToolResult)[0]
			if body(t, verdict)["fulfills"] != call.ID || body(t, result)["fulfills"] != call.ID || verdict.Sequence >= result.Sequence ||
				body(t, verdict)["layer"] != "allow" || body(t, verdict)["rule"] != nil {
				t.Errorf("verdict is %s", verdict.Body)
			}
			if thread, err := g.log.Thread(t.Context(), s.Thread); err != nil || thread.State != "closed" {
				t.Errorf("the thread is %+v, %v", thread, err)
			}
		})
	}
}

// Each outcome, as the kernel judges it from what it saw.
func TestOutcomes(t *testing.T) {
	two := 2
	claims := func(c loop.Claim, exit workloop.Exit) worker {
		return func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
			loop.Run(ctx, h.Spec, doors.NewClient(conn, h.Credential))
			return claimText(c), exit
		}
	}
	done := steps(calls(loop.ToolRecordNote, `{"text":"x"}`), says("done"))
	for name, c := range map[string]struct {
		answer           func(context.Context, inference.Request, int) (inference.Response, error)
		work             worker
		request          workloop.StartRequest
		outcome, state   string
		success          bool
		ok, failed       int
		claimed, summary string
	}{
		"completed":               {answer: done, outcome: loop.Completed, state: workloop.Done, success: true, ok: 1},
		"completed without calls": {answer: steps(says("hello")), outcome: loop.Completed, state: workloop.Done, success: true},
		"all calls failed":        {answer: steps(calls("nonsense", `{}`), says("I did it")), outcome: loop.Completed, state: workloop.StoppedShort, failed: 1},
		"max turns": {answer: steps(calls(loop.ToolRecordNote, `{"text":"x"}`)), request: workloop.StartRequest{MaxTurns: &two},
			outcome: loop.MaxTurns, state: workloop.StoppedShort, ok: 2},
		"blocked": {answer: func(_ context.Context, _ inference.Request, turn int) (inference.Response, error) {
			return calls("nonsense", fmt.Sprintf(`{"n":%d}`, turn)), nil
		}, outcome: loop.Blocked, state: workloop.StoppedShort, failed: 3},
		"model refuses": {answer: steps(inference.Response{Model: "test", StopReason: inference.Refusal}), outcome: loop.Failed, state: workloop.StoppedShort},
		"guardrail": {answer: func(_ context.Context, _ inference.Request, turn int) (inference.Response, error) {
			return calls("explain_run", `{"thread":"th_`+zeros+`"}`, loop.ToolRecordNote, `{"text":"x"}`), nil
		}, request: workloop.StartRequest{Principal: operator}, outcome: loop.GuardrailHalt, state: workloop.StoppedShort, ok: 4, failed: 5},
		"lies about the word":   {answer: done, work: claims(loop.Claim{Outcome: loop.MaxTurns}, workloop.Exit{}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1, claimed: loop.MaxTurns},
		"lies about the budget": {answer: done, work: claims(loop.Claim{Outcome: loop.BudgetExhausted, BudgetKind: "usd"}, workloop.Exit{}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1},
		"lies about a stop":     {answer: done, work: claims(loop.Claim{Outcome: loop.Cancelled}, workloop.Exit{}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1},
		"lies about a question": {answer: done, work: claims(loop.Claim{Outcome: loop.AwaitingActor}, workloop.Exit{}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1},
		"unknown word":          {answer: done, work: claims(loop.Claim{Outcome: "triumph"}, workloop.Exit{}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1, claimed: "triumph"},
		"unclean exit":          {answer: done, work: claims(loop.Claim{Outcome: loop.Completed}, workloop.Exit{Code: 3}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1, claimed: loop.Completed},
		"killed by a signal":    {answer: done, work: claims(loop.Claim{Outcome: loop.Completed}, workloop.Exit{Code: -1, Signal: "SIGSEGV"}), outcome: loop.Failed, state: workloop.StoppedShort, ok: 1},
		"claims what it did not": {work: func(context.Context, doors.Handoff, net.Conn) ([]byte, workloop.Exit) {
			return claimText(loop.Claim{Outcome: loop.Completed}), workloop.Exit{}
		}, outcome: loop.Failed, state: workloop.StoppedShort},
		"says nothing": {work: func(context.Context, doors.Handoff, net.Conn) ([]byte, workloop.Exit) { return nil, workloop.Exit{} }, outcome: loop.Failed, state: workloop.StoppedShort},
		"says nonsense": {work: func(context.Context, doors.Handoff, net.Conn) ([]byte, workloop.Exit) {
			return []byte("{{{"), workloop.Exit{}
		}, outcome: loop.Failed, state: workloop.StoppedShort},
		"floods its output": {work: func(context.Context, doors.Handoff, net.Conn) ([]byte, workloop.Exit) {
			return make([]byte, 1<<20), workloop.Exit{}
		}, outcome: loop.Failed, state: workloop.StoppedShort},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.model.set(c.answer)
			g.starter.set(c.work)
			if c.request.Principal == "" {
				c.request.Principal = alice
			}
			s := g.start(c.request)
			row := g.outcome(s.Thread)
			if *row.Outcome != c.outcome || row.State != c.state || *row.Success != c.success || row.ToolCallsOK != c.ok || row.ToolCallsFailed != c.failed {
				t.Errorf("row is %+v, outcome %s\n%s", row, *row.Outcome, g.dump(s.Thread))
			}
			outcomes := g.records(s.Thread, workloop.KindOutcome)
			if len(outcomes) != 1 {
				t.Fatalf("%d outcomes", len(outcomes))
			}
			if c.claimed != "" && body(t, outcomes[0])["claimed"] != c.claimed {
				t.Errorf("outcome is %s", outcomes[0].Body)
			}
			if last := g.records(s.Thread, ""); last[len(last)-1].ID != outcomes[0].ID {
				t.Errorf("something follows the outcome:\n%s", g.dump(s.Thread))
			}
			if h, _ := g.engine.Health(t.Context()); h.Available != h.Capacity {
				t.Errorf("health is %+v", h)
			}
		})
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestBudgets(t *testing.T) {
	g := newRig(t)
	big := calls(loop.ToolRecordNote, `{"text":"x"}`)
	big.InputTokens, big.OutputTokens = 10_000, 2_000 // for $0.012
	g.model.set(steps(big))
	budget, tokens := 0.015, int64(13_000)
	s := g.start(workloop.StartRequest{Principal: alice, BudgetUSD: &budget})
	row := g.outcome(s.Thread)
	if *row.Outcome != loop.BudgetExhausted || body(t, g.records(s.Thread, workloop.KindOutcome)[0])["budget_kind"] != "usd" || row.SpentUSD > budget || *row.CeilingUSD != budget {
		t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
	}
	s = g.start(workloop.StartRequest{Principal: operator, TokenBudget: &tokens})
	row = g.outcome(s.Thread)
	if *row.Outcome != loop.BudgetExhausted || body(t, g.records(s.Thread, workloop.KindOutcome)[0])["budget_kind"] != "tokens" {
		t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
	}
	if row.BudgetUSD != nil {
		t.Errorf("a run in process without a budget has the ceiling %v", *row.BudgetUSD)
	}
}

// A run in process is not cut off by a broken worker's pipe, and a model that fails is an outcome.
func TestProviderFails(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.model.set(func(context.Context, inference.Request, int) (inference.Response, error) {
			return inference.Response{}, context.DeadlineExceeded
		})
		s := g.start(workloop.StartRequest{Principal: principal})
		if row := g.outcome(s.Thread); *row.Outcome != loop.Failed || row.State != workloop.StoppedShort || *row.Summary == "" {
			t.Errorf("row is %+v", row)
		}
		if len(g.noticed(workloop.NoticeError)) == 0 {
			t.Error("the log was not told")
		}
	}
}

func TestLayers(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.rule("no-notes", "deny", `resource == "tool:record_note" && record.body.args.text == "bad"`)
		g.model.set(steps(calls(loop.ToolRecordNote, `{"text":"good"}`, loop.ToolRecordNote, `{"text":"bad"}`, "nonsense", `{}`, "remember", `{"text":"x"}`), says("done")))
		s := g.start(workloop.StartRequest{Principal: principal, Forbidden: []string{"remember"}})
		row := g.outcome(s.Thread)
		var layers []any
		for _, v := range g.records(s.Thread, workloop.KindToolVerdict) {
			b := body(t, v)
			layers = append(layers, b["layer"])
			if b["layer"] == "rule" {
				rule := g.records("th_engine_config", "")[0]
				if b["rule"] != "no-notes" || b["rule_version"] != rule.ID || b["reason"] == "" || b["change"] == "" {
					t.Errorf("verdict is %s", v.Body)
				}
			}
		}
		if !slices.Equal(layers, []any{"allow", "rule", "grant", "clamp"}) {
			t.Errorf("layers are %v\n%s", layers, g.dump(s.Thread))
		}
		if row.ToolCallsOK != 1 || row.ToolCallsFailed != 3 || row.State != workloop.Done {
			t.Errorf("row is %+v", row)
		}
		if slices.Contains(row.Tools, "remember") {
			t.Error("a tool that the request forbids is offered")
		}
		if len(g.noticed(workloop.NoticeDenied)) != 3 {
			t.Errorf("notices are %v", g.noticed(workloop.NoticeDenied))
		}
	}
}

// A rule that is written while a run goes holds for its next call, and one that is disabled no longer.
func TestLiveRules(t *testing.T) {
	g := newRig(t)
	g.model.set(func(_ context.Context, _ inference.Request, turn int) (inference.Response, error) {
		switch turn {
		case 1:
			g.rule("stop-that", "deny", `resource == "tool:record_note"`)
		case 2:
			g.config(map[string]any{"topic": "permission_rule", "name": "stop-that", "namespace": "default", "expression": "true", "action": "deny", "priority": 100, "enabled": false})
		case 3:
			return says("done"), nil
		}
		return calls(loop.ToolRecordNote, `{"text":"x"}`), nil
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	if row := g.outcome(s.Thread); row.ToolCallsOK != 2 || row.ToolCallsFailed != 1 {
		t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
	}
}

func TestTruncated(t *testing.T) {
	g := newRig(t)
	cut := calls(loop.ToolRecordNote, `{"text":"x"}`)
	cut.StopReason = inference.MaxTokens
	g.model.set(steps(cut, says("done")))
	s := g.start(workloop.StartRequest{Principal: alice})
	row := g.outcome(s.Thread)
	results := g.records(s.Thread, loop.KindToolResult)
	if len(results) != 1 || body(t, results[0])["status"] != "truncated" || len(g.records(s.Thread, workloop.KindToolVerdict)) != 0 ||
		len(g.records(s.Thread, loop.KindNote)) != 0 || len(g.records(s.Thread, loop.KindObservation)) != 1 {
		t.Errorf("thread is\n%s", g.dump(s.Thread))
	}
	if row.ToolCallsFailed != 1 {
		t.Errorf("row is %+v", row)
	}
}
