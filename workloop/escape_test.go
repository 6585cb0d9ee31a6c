package workloop_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"playground/inference"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// planned is an order whose plan tells the ended credential.
func planned() *workloop.Escape {
	return &workloop.Escape{Plan: func(ended string) (json.RawMessage, error) { return json.Marshal(map[string]string{"ended": ended}) }}
}

// What the escape suite's runs are: sandboxed, of nobody's principal, without a model and without the day's caps; with a credential
// to try that opens nothing.
func TestEscapeRun(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.Broker = nil })
	g.config(map[string]any{"kind": "core.engine.config.v1", "topic": "work_loop_transport_members", "transport": "in_process"})
	g.config(map[string]any{"kind": "core.engine.tier.v1", "topic": "tier", "tier": "trial", "daily_loop_cap": 1, "wall_clock_secs": 1})
	type seen struct{ live, ended, model error }
	found := make(chan seen, 1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		var plan struct{ Ended string }
		_ = json.Unmarshal(h.Escape, &plan)
		note := loop.Entry{Kind: loop.KindNote, Act: loop.ActOf(loop.KindNote), Body: loop.NoteBody{Text: "row"}}
		var s seen
		_, s.ended = doors.NewClient(conn, plan.Ended).Append(ctx, note)
		client := doors.NewClient(conn, h.Credential)
		_, s.live = client.Append(ctx, note)
		_, s.model = client.Complete(ctx, inference.Request{Messages: []inference.Message{{Role: inference.User, Content: []inference.Block{{Type: inference.Text, Text: "x"}}}}})
		if plan.Ended == h.Credential || plan.Ended == "" {
			s.ended = nil
		}
		found <- s
		return claimText(loop.Claim{Outcome: loop.Completed, Summary: "tried"}), workloop.Exit{}
	})
	for range 3 { // more than the cap of the day
		s := g.start(workloop.StartRequest{Principal: alice, Actor: alice, Escape: planned()})
		row := g.outcome(s.Thread)
		if row.Principal != workloop.EscapePrincipal || row.Actor != workloop.EscapePrincipal || row.Transport != "sandboxed" || row.Tier != "trial" || row.State != workloop.Done {
			t.Errorf("row is %+v", row)
		}
		got := <-found
		if got.live != nil || got.model == nil {
			t.Errorf("the run's own credential: %v; a model: %v", got.live, got.model)
		}
		refused(t, got.ended, loop.CodeAuthRequired, 401)
		if text := g.dump(s.Thread); strings.Contains(text, "pgw_") {
			t.Errorf("the thread holds a credential:\n%s", text)
		}
	}
	if usage, err := g.engine.Usage(t.Context(), alice, ""); err != nil || usage.LoopCount != 0 {
		t.Errorf("alice's usage is %+v, %v", usage, err)
	}
}

// Nobody else gets to be the suite's principal, and more records than a run may write are for it alone.
func TestEscapeRefused(t *testing.T) {
	g := newRig(t)
	for _, q := range []workloop.StartRequest{
		{Goal: "x", Principal: workloop.EscapePrincipal},
		{Goal: "x", Principal: alice, Actor: workloop.EscapePrincipal},
	} {
		_, err := g.engine.Start(t.Context(), q)
		refused(t, err, loop.CodeInvalidBody, 422)
	}
	var wrote int
	done := make(chan error, 1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		client := doors.NewClient(conn, h.Credential)
		var err error
		for wrote = 0; wrote < 600 && err == nil; wrote++ {
			_, err = client.Append(ctx, remark(h.Thread, "row"))
		}
		done <- err
		return claimText(loop.Claim{Outcome: loop.Failed}), workloop.Exit{}
	})
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	refused(t, <-done, workloop.CodeFlood, 429)
	g.outcome(g.start(workloop.StartRequest{Escape: planned()}).Thread)
	if err := <-done; err != nil || wrote != 600 {
		t.Errorf("after %d rows: %v", wrote, err)
	}
}
