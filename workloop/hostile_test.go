package workloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"playground/inference"
	"playground/record"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// ask makes one model call as a worker does.
func ask(ctx context.Context, k loop.Kernel) error {
	_, err := k.Complete(ctx, inference.Request{Messages: []inference.Message{{Role: "user", Content: []inference.Block{{Type: "text", Text: "x"}}}}, MaxTokens: 100})
	return err
}

func propose(ctx context.Context, k loop.Kernel, tool, args string) (loop.Verdict, error) {
	return k.Propose(ctx, loop.Proposal{CallID: "c", Tool: tool, Args: json.RawMessage(args)})
}

// attack runs one hostile worker and returns its row and thread. What must not come through is checked by the worker itself.
func attack(t *testing.T, g *rig, q workloop.StartRequest, do func(ctx context.Context, h doors.Handoff, k loop.Kernel)) workloop.Row {
	t.Helper()
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		do(ctx, h, doors.NewClient(conn, h.Credential))
		return claimText(loop.Claim{Outcome: loop.Completed, Summary: "all is well"}), workloop.Exit{}
	})
	if q.Principal == "" {
		q.Principal = alice
	}
	q.Caller = operator
	return g.outcome(g.start(q).Thread)
}

func TestForgedRecords(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(says("done")))
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		for _, kind := range []string{workloop.KindOutcome, workloop.KindToolVerdict, loop.KindToolCall, workloop.KindLoop, workloop.KindRequest,
			workloop.KindCancel, workloop.KindUsage, workloop.KindDecision, workloop.KindMessage, "core.engine.config.v1", "core.hook.v1", ""} {
			if id, err := k.Append(ctx, loop.Entry{Kind: kind, Act: record.ActKnow, Body: map[string]any{"kind": kind, "outcome": "completed"}}); err == nil {
				t.Errorf("a worker wrote %s %s", kind, id)
			}
		}
		// A kind hidden in the body does not win over the entry's.
		if _, err := k.Append(ctx, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: map[string]any{"kind": workloop.KindOutcome, "text": "x", "turn_index": 0}}); err == nil {
			t.Log("the note was written as a note")
		}
		if _, err := k.Append(ctx, loop.Entry{Kind: loop.KindObservation, Act: record.ActKnow, Body: map[string]any{"rule": " ", "text": "x"}}); err == nil {
			t.Error("an observation without a rule was written")
		}
	})
	if row.State != workloop.StoppedShort || *row.Outcome != loop.Failed {
		t.Errorf("row is %+v", row)
	}
	if n := len(g.records(row.Thread, workloop.KindOutcome)); n != 1 {
		t.Errorf("%d outcomes", n)
	}
}

func TestForgedResults(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("explain_run", `{}`)))
	result := func(id, status string) loop.Entry {
		return loop.Entry{Kind: loop.KindToolResult, Act: record.ActKnow, Body: loop.ToolResultBody{Fulfills: id, Status: status, Content: "x", Tool: "bash"}}
	}
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		if _, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`); err == nil {
			t.Error("a call was judged before the model said anything")
		}
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		note, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`)
		if err != nil || note.Decision != loop.Allow {
			t.Errorf("verdict is %+v, %v", note, err)
		}
		explain, _ := propose(ctx, k, "explain_run", `{"thread":"`+h.Thread+`"}`)
		denied, _ := propose(ctx, k, "bash", `{"command":"id"}`)
		for what, e := range map[string]loop.Entry{
			"of a denied call": result(denied.Call, loop.StatusOK), "of no call": result(zeros, loop.StatusOK), "of a verdict": result(note.Verdict, loop.StatusOK), "of a note that is not there": result(note.Call, loop.StatusOK),
			"ok of a kernel's call": result(explain.Call, loop.StatusOK), "with a status of the kernel": result(note.Call, loop.StatusDenied),
		} {
			if _, err := k.Append(ctx, e); err == nil {
				t.Errorf("a worker wrote a result %s", what)
			}
		}
		if _, err := k.Call(ctx, note.Call); err == nil {
			t.Error("the kernel carried out a local tool")
		}
		if _, err := k.Call(ctx, denied.Call); err == nil {
			t.Error("the kernel carried out a denied call")
		}
		if res, err := k.Call(ctx, explain.Call); err != nil || res.Status != loop.StatusOK {
			t.Errorf("result is %+v, %v", res, err)
		}
		if _, err := k.Call(ctx, explain.Call); err == nil {
			t.Error("a call was carried out twice")
		}
		if _, err := k.Append(ctx, result(explain.Call, loop.StatusError)); err == nil {
			t.Error("a second result was written")
		}
		// The worker owes the note's result, and does not write it: it has failed.
	})
	if row.ToolCallsOK != 1 || row.ToolCallsFailed != 2 {
		t.Errorf("row is %+v\n%s", row, g.dump(row.Thread))
	}
	if row.State != workloop.StoppedShort { // the last reply asked for a tool: this was no end
		t.Errorf("row is %+v", row)
	}
}

// remark is a record that no call has to ask for.
func remark(thread, text string) loop.Entry {
	return loop.Entry{Kind: loop.KindObservation, Act: record.ActKnow, Body: loop.ObservationBody{Rule: "r", Text: text, LoopThread: thread}}
}

func TestReads(t *testing.T) {
	g := newRig(t)
	other := g.start(workloop.StartRequest{Principal: bob})
	g.outcome(other.Thread)
	shared := g.start(workloop.StartRequest{Principal: bob})
	g.outcome(shared.Thread)
	g.model.set(steps(calls("x", `{}`)))
	attack(t, g, workloop.StartRequest{Reads: []string{shared.Thread}}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		if _, err := propose(ctx, k, loop.ToolQueryThread, `{}`); err != nil {
			t.Error(err)
		}
		for thread, readable := range map[string]bool{h.Thread: true, shared.Thread: true, other.Thread: false, record.ConfigThread: false, "": false} {
			page, err := k.Query(ctx, record.Query{Thread: thread})
			if (err == nil) != readable || readable && len(page.Data) == 0 {
				t.Errorf("thread %q: %v, %v", thread, page, err)
			}
		}
		if page, err := k.Query(ctx, record.Query{Thread: h.Thread, Filter: json.RawMessage(`{"$or":[{"thread":"` + other.Thread + `"},{"thread":{"$exists":true}}]}`)}); err == nil {
			for _, r := range page.Data {
				if r.Thread != h.Thread {
					t.Errorf("a filter reached %s", r.Thread)
				}
			}
		}
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		for tool, args := range map[string]string{"explain_run": `{"thread":"` + other.Thread + `"}`, "search_records": `{"text":"x","thread":"` + other.Thread + `"}`} {
			v, err := propose(ctx, k, tool, args)
			if err != nil {
				t.Fatal(err)
			}
			if res, err := k.Call(ctx, v.Call); err != nil || res.Status == loop.StatusOK {
				t.Errorf("%s answers %+v, %v", tool, res, err)
			}
		}
		v, _ := propose(ctx, k, "search_records", `{"kind":"core.work.loop.v1"}`)
		res, err := k.Call(ctx, v.Call)
		if err != nil || res.Status != loop.StatusOK || !json.Valid(res.Data) {
			t.Errorf("search answers %+v, %v", res, err)
		}
		var found struct{ Records []struct{ Thread string } }
		_ = json.Unmarshal(res.Data, &found)
		for _, r := range found.Records {
			if r.Thread == other.Thread {
				t.Error("a search reached another tenant")
			}
		}
	})
}

func TestFlood(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("x", `{}`)))
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		calls, remarks := 0, 0
		for i := range 520 {
			if i < 140 {
				if _, err := propose(ctx, k, "nonsense", `{}`); err == nil {
					calls++
				}
			}
			if _, err := k.Append(ctx, remark(h.Thread, "x")); err == nil {
				remarks++
			}
		}
		if calls != 128 || remarks != 512 {
			t.Errorf("%d calls and %d remarks came through", calls, remarks)
		}
		for range 10 {
			_ = ask(ctx, k)
		}
	})
	if row.Turns != 5 || row.ToolCallsFailed != 128 { // trial has five turns, whatever a worker counts
		t.Errorf("row is %+v", row)
	}
}

// A worker that dies in the middle of a call leaves a failed call and an outcome.
func TestDiesMidCall(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("x", `{}`)))
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		k := doors.NewClient(conn, h.Credential)
		_ = ask(ctx, k)
		_, _ = propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`)
		conn.Close()
		return nil, workloop.Exit{Code: -1, Signal: "SIGKILL"}
	})
	row := g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	if row.State != workloop.StoppedShort || row.ToolCallsFailed != 1 || *row.Reason != "the worker was ended by SIGKILL" {
		t.Errorf("row is %+v", row)
	}
}

// A worker that hangs is ended by its wall clock.
func TestHangs(t *testing.T) {
	g := newRig(t, hasty)
	second := int64(1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		<-ctx.Done()
		return nil, workloop.Exit{}
	})
	row := g.outcome(g.start(workloop.StartRequest{Principal: alice, WallClockSecs: &second}).Thread)
	if *row.Outcome != loop.BudgetExhausted || body(t, g.records(row.Thread, workloop.KindOutcome)[0])["budget_kind"] != "wall_clock" {
		t.Errorf("row is %+v", row)
	}
	// So is a model that does not answer, in process.
	g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
		<-ctx.Done()
		return inference.Response{}, ctx.Err()
	})
	row = g.outcome(g.start(workloop.StartRequest{Principal: operator, WallClockSecs: &second}).Thread)
	if *row.Outcome != loop.BudgetExhausted {
		t.Errorf("row is %+v\n%s", row, g.dump(row.Thread))
	}
}

// After its outcome a run's kernel takes nothing, whoever still holds it.
func TestAfterTheEnd(t *testing.T) {
	g := newRig(t)
	kernel := make(chan *doors.Client, 1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		kernel <- doors.NewClient(conn, h.Credential)
		return claimText(loop.Claim{Outcome: loop.Failed, Error: "x"}), workloop.Exit{}
	})
	row := g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	before := len(g.records(row.Thread, ""))
	if _, err := (<-kernel).Append(t.Context(), loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "x"}}); err == nil {
		t.Error("a note came after the end")
	}
	refused(t, g.engine.Event(t.Context(), row.Thread, workloop.Event{Type: workloop.EventStop}), workloop.CodeEnded, 409)
	refused(t, g.engine.Event(t.Context(), row.Thread, workloop.Event{Type: workloop.EventMessage, Text: "x"}), workloop.CodeEnded, 409)
	if after := len(g.records(row.Thread, "")); after != before {
		t.Errorf("%d records became %d", before, after)
	}
}

// A record that cannot be written refuses the act.
func TestUnwritableLog(t *testing.T) {
	g := newRig(t)
	answers := make(chan error, 1)
	g.model.set(steps(calls("x", `{}`)))
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		k := doors.NewClient(conn, h.Credential)
		_ = ask(ctx, k)
		_ = g.log.Close()
		_, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`)
		answers <- err
		return nil, workloop.Exit{}
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	err := <-answers
	if closeErr := g.engine.Close(context.Background()); closeErr != nil {
		t.Error(closeErr)
	}
	if refusal, ok := errors.AsType[*loop.Refusal](err); !ok || refusal.Status != 503 {
		t.Errorf("a proposal that cannot be recorded gives %v", err)
	}
	g.open() // the run without an outcome gets one
	if row, err := g.engine.Run(t.Context(), s.Thread); err != nil || row.State != workloop.StoppedShort || row.Turns != 0 {
		t.Errorf("row is %+v, %v", row, err)
	}
}

// A worker that never answers for its calls cannot make the kernel keep them without end, nor fill the disk on one reply.
func TestBounds(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("x", `{}`)))
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		_ = ask(ctx, k)
		allowed := 0
		for range 40 {
			if v, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`); err == nil && v.Decision == loop.Allow {
				allowed++
			}
		}
		if allowed != 16 {
			t.Errorf("%d calls are open", allowed)
		}
		_ = ask(ctx, k)
		written := 0
		text := strings.Repeat("x", 60_000)
		for range 200 {
			if _, err := k.Append(ctx, remark(h.Thread, text)); err == nil {
				written += len(text)
			}
		}
		if written > 8<<20 || written == 0 {
			t.Errorf("%d bytes were written", written)
		}
	})
	if row.ToolCallsFailed != 16 {
		t.Errorf("row is %+v", row)
	}
}

func TestReadsNotCovered(t *testing.T) {
	g := newRig(t)
	theirs, mine := g.start(workloop.StartRequest{Principal: bob}), g.start(workloop.StartRequest{Principal: alice})
	g.outcome(theirs.Thread)
	g.outcome(mine.Thread)
	for _, c := range []struct {
		caller, thread string
		covered        bool
	}{{"", theirs.Thread, false}, {alice, theirs.Thread, false}, {alice, mine.Thread, true}, {alice, record.ConfigThread, false}, {operator, theirs.Thread, true}} {
		_, err := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice, Caller: c.caller, Reads: []string{c.thread}})
		if c.covered != (err == nil) {
			t.Errorf("%+v gives %v", c, err)
		}
		if err != nil {
			refused(t, err, loop.CodeReadsNotCovered, 403)
		}
	}
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice, Model: "nobody-knows"})
	refused(t, err, loop.CodeInvalidBody, 422)
}
