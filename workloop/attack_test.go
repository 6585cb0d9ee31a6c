package workloop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/fault"
	"playground/inference"
	"playground/record"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// Whoever has seen a record of a run is not told of the state before it.
func TestRowAgreesWithRecord(t *testing.T) {
	g := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	watched := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		ended := 0
		for rec, err := range g.log.Watch(ctx, record.WatchQuery{Kinds: []string{workloop.KindLoop, workloop.KindOutcome, workloop.KindDecision}}) {
			if err != nil {
				return
			}
			row, err := g.engine.Run(ctx, rec.Thread)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("after %s: %v", record.Kind(rec), err)
			}
			switch record.Kind(rec) {
			case workloop.KindDecision:
				if row.State == workloop.WaitingOnYou {
					t.Error("after the answer the row says that the run waits")
				}
			case workloop.KindOutcome:
				if row.State == workloop.Running && body(t, rec)["outcome"] != loop.AwaitingActor {
					t.Error("after the outcome the row says running")
				}
				page, err := g.engine.Runs(ctx, workloop.Filter{State: workloop.Running})
				for _, r := range page.Rows {
					if err == nil && r.Thread == rec.Thread && body(t, rec)["outcome"] != loop.AwaitingActor {
						t.Error("after the outcome the run is listed as running")
					}
				}
				if body(t, rec)["outcome"] == loop.AwaitingActor {
					if _, err := g.engine.Decide(ctx, body(t, rec)["decision_request"].(string), workloop.Event{Decision: "ack"}); err != nil {
						t.Errorf("the question that the outcome names cannot be answered: %v", err)
					}
				} else if ended++; ended == 20 {
					close(watched)
					return
				}
			}
		}
	})
	g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
		if turn == 0 && strings.Contains(r.Messages[0].Content[0].Text, "ask") {
			return calls("request_decision", `{"reason":"r","question":"q"}`), nil
		}
		return says("done"), nil
	})
	for i := range 20 {
		g.start(workloop.StartRequest{Goal: []string{"ask", "say"}[i%2]})
	}
	select {
	case <-watched:
	case <-ctx.Done():
		t.Error("not all outcomes were seen")
	}
}

// computers returns an engine with sandboxes, and what runs in them.
func computers(t *testing.T, change ...func(*workloop.Options)) (*rig, *sandboxtest.Jobs, *sandboxtest.Jails) {
	jails := &sandboxtest.Jails{Prefix: "pg"}
	jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
	t.Cleanup(jobs.Shutdown)
	return newRig(t, append(change, func(o *workloop.Options) { o.Sandbox = sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg"}) })...), jobs, jails
}

// Retire returns when nothing of the principal goes on: a hostile worker must not reach into the sandbox of the next bearer of the
// name with calls that it was allowed before.
func TestRetireEndsRuns(t *testing.T) {
	g, jobs, jails := computers(t) // the grace of a stop is a minute
	g.model.set(steps(calls("exec", `{}`)))
	ready, late := make(chan struct{}), make(chan error, 1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		k := doors.NewClient(conn, h.Credential)
		_ = ask(ctx, k)
		v, err := propose(ctx, k, "exec", `{"command":"echo mine"}`)
		if err != nil || v.Decision != loop.Allow {
			t.Errorf("verdict is %+v, %v", v, err)
		}
		close(ready)
		<-ctx.Done() // it heeds nothing
		_, err = k.Call(context.Background(), v.Call)
		late <- err
		return nil, workloop.Exit{}
	})
	s := g.start(workloop.StartRequest{Principal: alice, Tools: []string{"exec"}})
	<-ready
	if err := g.engine.Retire(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	if row, err := g.engine.Run(t.Context(), s.Thread); err != nil || row.State != workloop.Stopped {
		t.Errorf("after Retire the row is %+v, %v", row, err)
	}
	if err := <-late; err == nil {
		t.Error("a call was carried out after the end")
	}
	if n := len(jobs.Specs()); n != 0 || jails.Handles("alice") != 0 {
		t.Errorf("%d commands ran, %d handles are open", n, jails.Handles("alice"))
	}
}

// A start that is under way while its principal is retired belongs to the old bearer of the name, and ends with him.
func TestStartWhileRetired(t *testing.T) {
	g := newRig(t)
	g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
		<-ctx.Done()
		return inference.Response{}, ctx.Err()
	})
	held, goOn := make(chan struct{}), make(chan struct{})
	real := g.starter
	g.options.Starter = starting(func(ctx context.Context, r workloop.WorkerRequest) (workloop.Worker, error) {
		close(held)
		<-goOn
		return real.Start(ctx, r)
	})
	g.close()
	g.open()
	started := make(chan workloop.Started, 1)
	go func() { started <- g.start(workloop.StartRequest{Principal: alice}) }()
	<-held
	retired := make(chan error, 1)
	go func() { retired <- g.engine.Retire(t.Context(), alice) }()
	close(goOn)
	s := <-started
	if err := <-retired; err != nil {
		t.Fatal(err)
	}
	// Whichever came first: either the run ended with the old bearer, or it was started for the new one, and goes on.
	row, err := g.engine.Run(t.Context(), s.Thread)
	_, see := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice, Reads: []string{s.Thread}})
	if err != nil || (row.State == workloop.Running) != (see == nil) {
		t.Errorf("row is %+v, %v; the new bearer's look at it: %v", row, err, see)
	}
}

// starting is a Starter.
type starting func(context.Context, workloop.WorkerRequest) (workloop.Worker, error)

func (s starting) Start(ctx context.Context, r workloop.WorkerRequest) (workloop.Worker, error) {
	return s(ctx, r)
}

// A question of an earlier bearer of a name is not answered for the later one.
func TestRetiredQuestion(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("request_decision", `{"reason":"r","question":"q"}`), says("done")))
	s := g.start(workloop.StartRequest{Principal: alice})
	row := g.outcome(s.Thread)
	// As a daemon leaves it that was killed between the two steps of Retire.
	if _, err := g.log.Append(t.Context(), record.Draft{Thread: record.ActorRegistryThread, Actor: record.EngineDID, Act: record.ActLearn,
		Body: map[string]string{"kind": workloop.KindRetired, "actor": alice}}); err != nil {
		t.Fatal(err)
	}
	g.close()
	g.open()
	_, err := g.engine.Decide(t.Context(), row.Ask.RequestID, workloop.Event{Decision: "ack"})
	if err == nil {
		t.Error("the question was answered")
	}
	if row, err := g.engine.Run(t.Context(), s.Thread); err != nil || row.State == workloop.WaitingOnYou {
		t.Errorf("row is %+v, %v", row, err)
	}
}

// A worker whose model calls fail cannot repeat them without end: each reaches the provider, and each is a line in the daemon's log.
func TestFailedModelCalls(t *testing.T) {
	g := newRig(t)
	asked := 0
	g.model.set(func(context.Context, inference.Request, int) (inference.Response, error) {
		asked++
		return inference.Response{}, inference.NewError(inference.InvalidRequest, "no")
	})
	attack(t, g, workloop.StartRequest{}, func(ctx context.Context, _ doors.Handoff, k loop.Kernel) {
		for range 50 {
			if err := ask(ctx, k); err == nil {
				t.Error("a failed call was answered")
			}
		}
	})
	if n := len(g.noticed(workloop.NoticeError)); asked > 3 || n > 3 {
		t.Errorf("the provider was asked %d times, the log has %d lines", asked, n)
	}
}

// After a stop nothing more begins, also what was allowed before it.
func TestAllowedBeforeStop(t *testing.T) {
	g, jobs, _ := computers(t)
	g.model.set(steps(calls("exec", `{}`)))
	thread := make(chan string, 1)
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		k := doors.NewClient(conn, h.Credential)
		_ = ask(ctx, k)
		v, _ := propose(ctx, k, "exec", `{"command":"echo mine"}`)
		if err := g.engine.Event(ctx, <-thread, workloop.Event{Type: workloop.EventStop}); err != nil {
			t.Error(err)
		}
		if res, err := k.Call(ctx, v.Call); err == nil && res.Status != loop.StatusStopped {
			t.Errorf("result is %+v", res)
		}
		return claimText(loop.Claim{Outcome: loop.Completed}), workloop.Exit{}
	})
	s := g.start(workloop.StartRequest{Principal: alice, Tools: []string{"exec"}})
	thread <- s.Thread
	if row := g.outcome(s.Thread); row.State != workloop.Stopped || row.ToolCallsOK != 0 || row.ToolCallsFailed != 1 {
		t.Errorf("row is %+v", row)
	}
	if n := len(jobs.Specs()); n != 0 {
		t.Errorf("%d commands ran", n)
	}
}

// A run whose outcome cannot be written is not done, whatever its loop says.
func TestUnwrittenOutcome(t *testing.T) {
	g := newRig(t)
	g.model.set(func(context.Context, inference.Request, int) (inference.Response, error) { return says("done"), nil })
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		_ = ask(ctx, doors.NewClient(conn, h.Credential))
		_ = g.log.Close()
		return claimText(loop.Claim{Outcome: loop.Completed, Summary: "all is well"}), workloop.Exit{}
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	for len(g.noticed(workloop.NoticeEnded)) == 0 { // there is no record to wait for
		time.Sleep(time.Millisecond)
	}
	if page, err := g.engine.Runs(t.Context(), workloop.Filter{State: workloop.Done}); err != nil || len(page.Rows) != 0 {
		t.Errorf("run %s is done: %v", s.Thread, err)
	}
	if err := g.engine.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, n := range g.noticed(workloop.NoticeEnded) {
		if n.Err == nil || n.Outcome == loop.Completed {
			t.Errorf("the log was told %+v", n)
		}
	}
	g.open()
}

// What is written to the configuration is in force, or refused: a rule that denies must not be lost on the way.
func TestConfigIsInForceOrRefused(t *testing.T) {
	g := newRig(t)
	rule := map[string]any{"kind": "core.permission_rule.v1", "name": "r", "expression": "true", "action": "deny"}
	hook := map[string]any{"kind": "core.hook.v1", "name": "h", "when": "true", "text": "x"}
	for name, d := range map[string]record.Draft{
		"a rule without a topic":        {Act: record.ActLearn, Body: rule},
		"a hook without a topic":        {Act: record.ActLearn, Body: hook},
		"a rule that is not LEARN":      {Act: record.ActKnow, Body: map[string]any{"topic": "permission_rule", "name": "r", "expression": "true", "action": "deny"}},
		"a transport that is not LEARN": {Act: record.ActDo, Body: map[string]any{"topic": "work_loop_transport", "transport": "sandboxed"}},
	} {
		d.Thread, d.Actor = record.ConfigThread, operator
		_, err := g.log.Append(t.Context(), d)
		if !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := g.log.Append(t.Context(), record.Draft{Thread: record.ConfigThread, Actor: operator, Act: record.ActKnow, Body: map[string]any{"text": "why we did it"}}); err != nil {
		t.Errorf("a remark: %v", err)
	}
}

// The hints of a refusal name what is there.
func TestNoProviderHint(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.Broker = nil })
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	if r := refused(t, err, workloop.CodeNoProvider, 503); !strings.Contains(fmt.Sprint(r.Extra["hint"]), "work.provider") {
		t.Errorf("the refusal is %v %v", r, r.Extra)
	}
	p, err := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x"})
	if err != nil || strings.Contains(p.DenialReason, "set-key") {
		t.Errorf("preview is %+v, %v", p, err)
	}
}

// What a crash kept Retire from is seen.
func TestRemains(t *testing.T) {
	g := newRig(t)
	if g.engine.Remains(alice) {
		t.Error("somebody new has runs")
	}
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	if !g.engine.Remains(alice) || g.engine.Remains(bob) {
		t.Error("the runs are not seen, or are another's")
	}
	if err := g.engine.Retire(t.Context(), alice); err != nil || g.engine.Remains(alice) {
		t.Errorf("after Retire runs remain: %v", err)
	}
}

// A rule that denies a tool of the loop's own holds for a worker that does what the tool does without asking.
func TestUnasked(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls("x", `{}`)))
	g.rule("no-notes", "deny", `resource == "tool:record_note" || resource == "tool:query_thread"`)
	note := loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "x"}}
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		_ = ask(ctx, k)
		for _, tool := range []string{loop.ToolRecordNote, loop.ToolQueryThread} {
			if v, err := propose(ctx, k, tool, `{}`); err != nil || v.Decision != loop.Deny {
				t.Errorf("verdict is %+v, %v", v, err)
			}
		}
		if _, err := k.Append(ctx, note); err == nil {
			t.Error("a note was written that no call asked for")
		}
		if _, err := k.Query(ctx, record.Query{Thread: h.Thread}); err == nil {
			t.Error("a thread was read that no call asked for")
		}
		read, err := propose(ctx, k, loop.ToolReadRecord, `{}`)
		if err != nil || read.Decision != loop.Allow {
			t.Errorf("verdict is %+v, %v", read, err)
		}
		if _, err := k.Query(ctx, record.Query{Thread: h.Thread}); err != nil {
			t.Errorf("an allowed read: %v", err)
		}
	})
	if n := len(g.records(row.Thread, loop.KindNote)); n != 0 {
		t.Errorf("%d notes", n)
	}
	g.rule("no-notes", "allow", "false")
	row = attack(t, g, workloop.StartRequest{}, func(ctx context.Context, h doors.Handoff, k loop.Kernel) {
		_ = ask(ctx, k)
		for range 2 {
			_, _ = propose(ctx, k, loop.ToolRecordNote, `{}`)
		}
		for range 5 {
			_, _ = k.Append(ctx, note)
		}
	})
	if n := len(g.records(row.Thread, loop.KindNote)); n != 2 {
		t.Errorf("%d notes for two calls", n)
	}
}

// A rule about a member holds for its runs that act as an agent.
func TestRuleAboutPrincipal(t *testing.T) {
	g := newRig(t)
	g.model.set(steps(calls(loop.ToolRecordNote, `{"text":"x"}`), says("done")))
	g.rule("not-alice", "deny", `system.principal == "did:sync:user:alice" && system.tier == "trial" && system.transport == "sandboxed"`)
	for principal, failed := range map[string]int{alice: 1, bob: 0} {
		s := g.start(workloop.StartRequest{Principal: principal, Actor: "did:sync:agent:helper"})
		if row := g.outcome(s.Thread); row.ToolCallsFailed != failed {
			t.Errorf("%s: row is %+v", principal, row)
		}
	}
}

// On a full disk a run can be stopped: it may be what fills it.
func TestStopWithoutRoom(t *testing.T) {
	full := errors.New("no space left on device")
	var room sync.Map
	g := newRig(t, hasty)
	g.close()
	log, err := record.Open(g.path, record.Options{Check: func(context.Context, record.Record) error {
		if _, none := room.Load("none"); none {
			return full
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	g.log, g.options.Log = log, log
	if g.engine, err = workloop.New(t.Context(), g.options); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
		close(asked)
		<-ctx.Done()
		return inference.Response{}, ctx.Err()
	})
	s := g.start(workloop.StartRequest{})
	<-asked
	room.Store("none", true)
	if err := g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventStop}); err != nil {
		t.Error(err)
	}
	room.Delete("none")
	if row := g.outcome(s.Thread); row.State != workloop.Stopped {
		t.Errorf("row is %+v", row)
	}
}
