package workloop_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/inference"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// asks is a model that asks for a decision and then says what it was told.
func asks(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
	if turn == 0 {
		return calls(loop.ToolRecordNote, `{"text":"before"}`, "request_decision", `{"reason":"two ways","question":"left or right?","options":["left","right"]}`), nil
	}
	told := ""
	for _, m := range r.Messages {
		for _, b := range m.Content {
			told += b.Text
		}
	}
	if !strings.Contains(told, "The answer is: left") || !strings.Contains(told, "do it") {
		return says("I was told nothing: " + told), nil
	}
	return says("I went left"), nil
}

func TestDecision(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.model.set(asks)
		s := g.start(workloop.StartRequest{Principal: principal})
		row := g.outcome(s.Thread)
		if row.State != workloop.WaitingOnYou || *row.Outcome != loop.AwaitingActor || row.Ask == nil || row.Ask.Question != "left or right?" || len(row.Ask.Options) != 2 || row.EndedAt != nil {
			t.Fatalf("row is %+v\n%s", row, g.dump(s.Thread))
		}
		if h, _ := g.engine.Health(t.Context()); h.Available != h.Capacity {
			t.Errorf("a waiting run holds a slot: %+v", h)
		}
		if thread, _ := g.log.Thread(t.Context(), s.Thread); thread.State != "open" {
			t.Errorf("the thread of a waiting run is %s", thread.State)
		}
		open, err := g.engine.Decisions(t.Context())
		if err != nil || len(open) != 1 || open[0].Thread != s.Thread || open[0].RequestID != row.Ask.RequestID {
			t.Fatalf("decisions are %+v, %v", open, err)
		}
		id := open[0].RequestID
		_, err = g.engine.Decide(t.Context(), id, workloop.Event{Decision: "up"})
		refused(t, err, loop.CodeInvalidBody, 422)
		_, err = g.engine.Decide(t.Context(), id, workloop.Event{})
		refused(t, err, workloop.CodeMissingField, 400)
		_, err = g.engine.Decide(t.Context(), id, workloop.Event{Decision: "left", Policy: true})
		refused(t, err, workloop.CodePolicyMissing, 422)
		_, err = g.engine.Decide(t.Context(), zeros, workloop.Event{Decision: "left"})
		refused(t, err, loop.CodeNotFound, 404)
		refused(t, g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventMessage, Text: "x"}), workloop.CodeWaiting, 409)

		g.close()
		g.open() // a question outlives the daemon
		if row, err := g.engine.Run(t.Context(), s.Thread); err != nil || row.State != workloop.WaitingOnYou || row.Ask.RequestID != id {
			t.Fatalf("row is %+v, %v", row, err)
		}
		d, err := g.engine.Decide(t.Context(), id, workloop.Event{Decision: "left", Reason: "it is shorter"})
		if err != nil || d.RequestID != id || d.Thread != s.Thread || d.Fulfills != id || d.ID == "" {
			t.Fatalf("decision is %+v, %v", d, err)
		}
		row = g.nth(s.Thread, 2)
		if row.State != workloop.Done || *row.Summary != "I went left" || row.Turns != 2 || row.ToolCallsOK != 2 {
			t.Errorf("row is %+v, %s\n%s", row, *row.Summary, g.dump(s.Thread))
		}
		if row.SpentUSD < 0.0000299 || row.SpentUSD > 0.0000301 {
			t.Errorf("both stretches cost %v", row.SpentUSD)
		}
		_, err = g.engine.Decide(t.Context(), id, workloop.Event{Decision: "left"})
		refused(t, err, workloop.CodeNotWaiting, 409)
		if n := len(g.records(s.Thread, workloop.KindDecision)); n != 1 {
			t.Errorf("%d decisions", n)
		}
	}
}

// Of many answers at once one counts, and the run goes on once.
func TestDecideOnce(t *testing.T) {
	g := newRig(t)
	g.model.set(asks)
	s := g.start(workloop.StartRequest{Principal: alice})
	id := g.outcome(s.Thread).Ask.RequestID
	var wg sync.WaitGroup
	accepted := make(chan bool, 8)
	for range 8 {
		wg.Go(func() {
			_, err := g.engine.Decide(t.Context(), id, workloop.Event{Decision: "left"})
			accepted <- err == nil
		})
	}
	wg.Wait()
	n := 0
	for range 8 {
		if <-accepted {
			n++
		}
	}
	row := g.nth(s.Thread, 2)
	if started, _ := g.starter.counts(); n != 1 || started != 2 || row.State != workloop.Done || len(g.records(s.Thread, workloop.KindOutcome)) != 2 {
		t.Errorf("%d answers were taken, %d workers started, row %+v", n, started, row)
	}
}

// An answer that nothing can act on is not recorded, and can be given again.
func TestDecideWithoutRoom(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.Capacity = 1 })
	g.model.set(asks)
	s := g.start(workloop.StartRequest{Principal: alice})
	id := g.outcome(s.Thread).Ask.RequestID
	release := g.gate()
	other := g.start(workloop.StartRequest{Principal: bob})
	_, err := g.engine.Decide(t.Context(), id, workloop.Event{Decision: "left"})
	refused(t, err, workloop.CodeAdmission, 503)
	release()
	g.outcome(other.Thread)
	if n := len(g.records(s.Thread, workloop.KindDecision)); n != 0 {
		t.Errorf("%d decisions", n)
	}
	g.model.set(asks)
	if err := g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventDecision, Decision: "provide", Value: json.RawMessage(`{"way":"up"}`)}); err != nil {
		t.Fatal(err)
	}
	if row := g.nth(s.Thread, 2); row.State != workloop.Done || !strings.Contains(*row.Summary, `The value is: {"way":"up"}`) {
		t.Errorf("row is %+v %s", row, *row.Summary)
	}
}

// A worker that asks and then goes on is not heard, and one that hangs is ended; the question stands.
func TestParkedWorker(t *testing.T) {
	g := newRig(t, hasty)
	g.model.set(steps(calls("request_decision", `{}`)))
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		k := doors.NewClient(conn, h.Credential)
		_ = ask(ctx, k)
		v, _ := propose(ctx, k, "request_decision", `{"reason":"r","question":"q"}`)
		if res, err := k.Call(ctx, v.Call); err != nil || !res.Park {
			t.Errorf("result is %+v, %v", res, err)
		}
		if err := ask(ctx, k); err == nil {
			t.Error("a parked run asked the model")
		}
		if _, err := propose(ctx, k, loop.ToolRecordNote, `{}`); err == nil {
			t.Error("a parked run proposed a call")
		}
		<-ctx.Done()
		return nil, workloop.Exit{}
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	if row := g.outcome(s.Thread); row.State != workloop.WaitingOnYou || row.Ask.Question != "q" {
		t.Errorf("row is %+v", row)
	}
	// A run that waits is stopped at once.
	if err := g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventStop}); err != nil {
		t.Fatal(err)
	}
	if row := g.nth(s.Thread, 2); row.State != workloop.Stopped || *row.Outcome != loop.Cancelled {
		t.Errorf("row is %+v", row)
	}
	if thread, _ := g.log.Thread(t.Context(), s.Thread); thread.State == "open" {
		t.Error("the thread is open")
	}
}

func TestStop(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
			if turn == 1 { // while the model is asked; its answer's call is the next step
				if err := g.engine.Event(t.Context(), g.onlyRun(), workloop.Event{Type: workloop.EventStop}); err != nil {
					t.Error(err)
				}
			}
			return calls(loop.ToolRecordNote, `{"text":"x"}`), nil
		})
		s := g.start(workloop.StartRequest{Principal: principal})
		row := g.outcome(s.Thread)
		if row.State != workloop.Stopped || *row.Outcome != loop.Cancelled || row.Turns != 2 || row.ToolCallsOK != 1 || row.ToolCallsFailed != 1 {
			t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
		}
		verdicts := g.records(s.Thread, workloop.KindToolVerdict)
		last := body(t, verdicts[len(verdicts)-1])
		if last["decision"] != "stop" || last["layer"] != "stop" {
			t.Errorf("verdict is %v", last)
		}
		if n := len(g.records(s.Thread, workloop.KindCancel)); n != 1 {
			t.Errorf("%d cancels", n)
		}
		if o := body(t, g.records(s.Thread, workloop.KindOutcome)[0]); o["stopped_by"] != operator {
			t.Errorf("outcome is %v", o)
		}
	}
}

// onlyRun is the thread of the one run there is.
func (g *rig) onlyRun() string {
	page, err := g.engine.Runs(context.Background(), workloop.Filter{})
	if err != nil || len(page.Rows) != 1 {
		g.t.Errorf("runs are %+v, %v", page, err)
		return ""
	}
	return page.Rows[0].Thread
}

// A run that does not heed a stop is killed after the grace, and is cancelled all the same.
func TestStopGrace(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t, hasty)
		in := make(chan struct{}, 1)
		g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
			in <- struct{}{}
			<-ctx.Done()
			return inference.Response{}, ctx.Err()
		})
		s := g.start(workloop.StartRequest{Principal: principal})
		<-in
		for range 2 { // twice is once
			if err := g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventStop}); err != nil {
				t.Fatal(err)
			}
		}
		if row := g.outcome(s.Thread); row.State != workloop.Stopped || *row.Outcome != loop.Cancelled {
			t.Errorf("row is %+v", row)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
			if turn == 0 {
				if err := g.engine.Event(t.Context(), g.onlyRun(), workloop.Event{Type: workloop.EventMessage, Text: "also water the plants"}); err != nil {
					t.Error(err)
				}
				return says("done"), nil // the message keeps the run from ending here
			}
			for _, m := range r.Messages {
				for _, b := range m.Content {
					if strings.Contains(b.Text, "also water the plants") {
						return says("watered"), nil
					}
				}
			}
			return says("nobody spoke"), nil
		})
		s := g.start(workloop.StartRequest{Principal: principal})
		if row := g.outcome(s.Thread); *row.Summary != "watered" || len(g.records(s.Thread, loop.KindMessage)) != 1 {
			t.Errorf("row is %+v %s", row, *row.Summary)
		}
	}
	g := newRig(t)
	refused(t, g.engine.Event(t.Context(), "th_"+zeros, workloop.Event{Type: workloop.EventStop}), loop.CodeNotFound, 404)
	s := g.start(workloop.StartRequest{})
	refused(t, g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: "dance"}), loop.CodeInvalidBody, 422)
	refused(t, g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventMessage}), loop.CodeInvalidBody, 422)
}

// Close ends every run with an outcome.
func TestClose(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.StopGrace = time.Hour })
	defer g.gate()()
	threads := []string{g.start(workloop.StartRequest{}).Thread, g.start(workloop.StartRequest{Principal: alice}).Thread, g.start(workloop.StartRequest{Principal: bob}).Thread}
	if err := g.engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		outcomes := g.records(thread, workloop.KindOutcome)
		if len(outcomes) != 1 || !strings.Contains(body(t, outcomes[0])["summary"].(string), "daemon stopped") {
			t.Errorf("thread is\n%s", g.dump(thread))
		}
	}
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	refused(t, err, workloop.CodeShuttingDown, 503)
}
