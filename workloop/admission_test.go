package workloop_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/inference"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// gate is a model whose answers wait until the test lets them through.
func (g *rig) gate() (release func()) {
	open := make(chan struct{})
	g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
		select {
		case <-open:
			return says("done"), nil
		case <-ctx.Done():
			return inference.Response{}, ctx.Err()
		}
	})
	return func() { close(open) }
}

func TestAdmission(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.Capacity = 1 })
	release := g.gate()
	s := g.start(workloop.StartRequest{Principal: alice})
	preview, err := g.engine.Preview(t.Context(), workloop.StartRequest{Principal: bob, Goal: "x"})
	if err != nil || !preview.WouldBeDenied || preview.DenialCode != workloop.CodeAdmission {
		t.Errorf("preview is %+v, %v", preview, err)
	}
	_, err = g.engine.Start(t.Context(), workloop.StartRequest{Principal: bob, Goal: "x"})
	refusal := refused(t, err, "ADMISSION_CEILING", 503)
	if refusal.Extra["admission_capacity"] != 1 || refusal.Extra["admission_available"] != 0 || !strings.Contains(refusal.Message, "ceiling is 1, 0 are free") {
		t.Errorf("refusal is %+v", refusal)
	}
	if started, _ := g.starter.counts(); started != 1 {
		t.Errorf("%d workers were started: a slot comes before a worker", started)
	}
	// A run in process needs no slot.
	own := g.start(workloop.StartRequest{Principal: operator})
	release()
	g.outcome(s.Thread)
	g.outcome(own.Thread)
	g.outcome(g.start(workloop.StartRequest{Principal: bob}).Thread)
}

func TestConcurrency(t *testing.T) {
	g := newRig(t)
	release := g.gate()
	s := g.start(workloop.StartRequest{Principal: alice})
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	refused(t, err, "WORK_CONCURRENCY_EXCEEDED", 429)
	other := g.start(workloop.StartRequest{Principal: bob}) // another principal is not concerned
	release()
	g.outcome(s.Thread)
	g.outcome(other.Thread)
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
}

func TestDailyCaps(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	g := newRig(t, func(o *workloop.Options) { o.Now = func() time.Time { return now } })
	g.config(map[string]any{"kind": "core.engine.tier.v1", "tier": "trial", "daily_loop_cap": 2})
	for range 2 {
		g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	}
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	refused(t, err, "WORK_DAILY_COUNT_EXCEEDED", 429)
	g.close()
	g.open() // the count is in the log
	_, err = g.engine.Start(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	refused(t, err, "WORK_DAILY_COUNT_EXCEEDED", 429)
	now = now.Add(24 * time.Hour)
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)

	// Money: the ceiling of a run is clamped to what the day leaves, and a spent day refuses.
	g.config(map[string]any{"kind": "core.engine.tier.v1", "tier": "trial", "daily_cost_cap_usd": 0.02, "daily_loop_cap": 50})
	dear := says("done")
	dear.InputTokens, dear.OutputTokens = 10_000, 2_000 // for $0.012
	g.model.set(steps(dear))
	s := g.start(workloop.StartRequest{Principal: bob})
	if *s.BudgetUSD != 0.02 {
		t.Errorf("the budget is %v", *s.BudgetUSD)
	}
	if row := g.outcome(s.Thread); row.SpentUSD != 0.012 {
		t.Errorf("row is %+v", row)
	}
	usage, err := g.engine.Usage(t.Context(), bob, "")
	if err != nil || usage.CostUSD != 0.012 || usage.LoopCount != 1 || usage.InputTokens != 10_000 || usage.Day != "2026-05-02" {
		t.Errorf("usage is %+v, %v", usage, err)
	}
	preview, err := g.engine.Preview(t.Context(), workloop.StartRequest{Principal: bob, Goal: "x"})
	if err != nil || preview.WouldBeDenied || *preview.BudgetUSD >= 0.0081 || preview.LoopCount != 1 || *preview.DailyCostCap != 0.02 {
		t.Errorf("preview is %+v, %v", preview, err)
	}
	g.config(map[string]any{"kind": "core.engine.tier.v1", "tier": "trial", "daily_cost_cap_usd": 0.012})
	_, err = g.engine.Start(t.Context(), workloop.StartRequest{Principal: bob, Goal: "x"})
	refused(t, err, "WORK_DAILY_CAP_EXCEEDED", 429)
}

func TestTiers(t *testing.T) {
	g := newRig(t)
	preview := func(principal string) workloop.Preview {
		t.Helper()
		v, err := g.engine.Preview(t.Context(), workloop.StartRequest{Principal: principal, Goal: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := preview(alice); v.Tier != "trial" || *v.MaxTurns != 5 || *v.WallClockSecs != 120 || *v.TokenBudget != 20_000 || *v.BudgetUSD != 0.25 || v.Transport != "sandboxed" {
		t.Errorf("trial is %+v", v)
	}
	g.config(map[string]any{"topic": "actor_tier", "actor": alice, "tier": "operator"}) // clamps
	if v := preview(alice); v.Tier != "team" || *v.MaxTurns != 50 || *v.DailyLoopCap != 2000 {
		t.Errorf("team is %+v", v)
	}
	g.config(map[string]any{"topic": "actor_tier", "actor": alice, "tier": "paid"})
	g.config(map[string]any{"kind": "core.engine.tier.v1", "tier": "paid", "max_turns": 3})
	if v := preview(alice); v.Tier != "paid" || *v.MaxTurns != 3 || *v.WallClockSecs != 600 {
		t.Errorf("paid is %+v", v)
	}
	g.config(map[string]any{"topic": "actor_tier", "actor": alice, "tier": ""})
	if v := preview(alice); v.Tier != "trial" {
		t.Errorf("cleared is %+v", v)
	}
	if v := preview(operator); v.Tier != "operator" || v.MaxTurns != nil || v.BudgetUSD != nil || v.DailyCostCap != nil || v.Transport != "in_process" || v.EstimatedCost != 5 {
		t.Errorf("operator is %+v", v)
	}
	g.config(map[string]any{"topic": "actor_tier", "actor": operator, "tier": "trial"}) // says nothing of the owner
	if v := preview(""); v.Tier != "operator" {
		t.Errorf("operator is %+v", v)
	}
	if h, err := g.engine.Health(t.Context()); err != nil || h.Available != 4 {
		t.Errorf("a preview took a slot: %+v, %v", h, err)
	}
}

func TestTransports(t *testing.T) {
	g := newRig(t)
	set := func(topic, value string) {
		g.config(map[string]any{"kind": "core.engine.config.v1", "topic": topic, "transport": value})
	}
	for _, c := range []struct{ topic, value, own, members string }{
		{"", "", "in_process", "sandboxed"},
		{"work_loop_transport", "sandboxed", "sandboxed", "sandboxed"},
		{"work_loop_transport_members", "in_process", "sandboxed", "in_process"},
		{"work_loop_transport", "sandboxd", "in_process", "in_process"},
		{"work_loop_transport_members", "in-process", "in_process", "sandboxed"},
	} {
		if c.topic != "" {
			set(c.topic, c.value)
		}
		h, err := g.engine.Health(t.Context())
		if err != nil || h.Transport != c.own || h.MemberTransport != c.members {
			t.Errorf("%+v gives %+v, %v", c, h, err)
		}
	}
	// A run keeps the transport that it started under.
	release := g.gate()
	s := g.start(workloop.StartRequest{Principal: alice})
	set("work_loop_transport_members", "in_process")
	release()
	if row := g.outcome(s.Thread); row.Transport != "sandboxed" {
		t.Errorf("row is %+v", row)
	}
}

func TestIsolationFails(t *testing.T) {
	g := newRig(t)
	g.starter.fail(fault.New(fault.Denied, "the worker is not isolated: network (an interface is up)"))
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	if refusal := refused(t, err, "WORK_ISOLATION_FAILED", 503); !strings.Contains(refusal.Message, "network (an interface is up)") {
		t.Errorf("refusal is %v", refusal)
	}
	if all, err := g.log.Threads(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("threads are %v, %v", all, err)
	}
	if h, _ := g.engine.Health(t.Context()); h.Available != h.Capacity {
		t.Errorf("health is %+v", h)
	}
	if len(g.noticed(workloop.NoticeIsolation)) != 1 {
		t.Error("the log was not told")
	}
	g.starter.fail(errors.New("open /secret/path: no such file"))
	_, err = g.engine.Start(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	if refusal := refused(t, err, "WORK_ISOLATION_FAILED", 503); strings.Contains(refusal.Message, "secret") {
		t.Errorf("refusal is %v", refusal)
	}
	g.starter.fail(nil) // and nobody's place was lost
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
}

func TestNoProvider(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.Broker = nil })
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	refused(t, err, "WORK_NO_PROVIDER", 503)
	if v, err := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x"}); err != nil || v.DenialCode != "WORK_NO_PROVIDER" {
		t.Errorf("preview is %+v, %v", v, err)
	}
}

func TestBadStarts(t *testing.T) {
	g := newRig(t)
	zero, minus, none := 0, -1.0, int64(0)
	for name, c := range map[string]struct {
		q      workloop.StartRequest
		code   string
		status int
	}{
		"no goal":        {workloop.StartRequest{}, workloop.CodeMissingField, 400},
		"blank goal":     {workloop.StartRequest{Goal: " \n"}, workloop.CodeMissingField, 400},
		"long goal":      {workloop.StartRequest{Goal: strings.Repeat("x", 1<<17)}, loop.CodeInvalidBody, 422},
		"no turns":       {workloop.StartRequest{Goal: "x", MaxTurns: &zero}, loop.CodeInvalidBody, 422},
		"no budget":      {workloop.StartRequest{Goal: "x", BudgetUSD: &minus}, loop.CodeInvalidBody, 422},
		"no tokens":      {workloop.StartRequest{Goal: "x", TokenBudget: &none}, loop.CodeInvalidBody, 422},
		"no time":        {workloop.StartRequest{Goal: "x", WallClockSecs: &none}, loop.CodeInvalidBody, 422},
		"not a DID":      {workloop.StartRequest{Goal: "x", Principal: "alice"}, loop.CodeInvalidBody, 422},
		"the engine":     {workloop.StartRequest{Goal: "x", Actor: "did:sync:system:engine"}, loop.CodeInvalidBody, 422},
		"not a thread":   {workloop.StartRequest{Goal: "x", Reads: []string{"../etc"}}, loop.CodeInvalidBody, 422},
		"relative":       {workloop.StartRequest{Goal: "x", Workspace: "home"}, loop.CodeInvalidBody, 422},
		"a host tool":    {workloop.StartRequest{Goal: "x", Principal: alice, Tools: []string{"bash"}}, loop.CodeToolNotInReach, 403},
		"no such tool":   {workloop.StartRequest{Goal: "x", Tools: []string{"nonsense"}}, loop.CodeToolNotInReach, 403},
		"no such tenant": {workloop.StartRequest{Goal: "x", Principal: "did:sync:agent:x", Tools: []string{"exec"}}, loop.CodeToolNotInReach, 403},
	} {
		_, err := g.engine.Start(t.Context(), c.q)
		t.Run(name, func(t *testing.T) { refused(t, err, c.code, c.status) })
	}
	if all, err := g.log.Threads(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("threads are %v, %v", all, err)
	}
}

// A worker that shows another run's credential, an old one or none is not let in, and its own run is not harmed by it.
func TestCredentials(t *testing.T) {
	g := newRig(t)
	var old string
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		old = h.Credential
		return honest(ctx, h, conn)
	})
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	if !strings.HasPrefix(old, "pgw_") || len(old) != 4+64 {
		t.Errorf("credential is %q", old)
	}
	var errs []error
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		for _, bearer := range []string{old, "", h.Credential[:len(h.Credential)-1] + "x", strings.ToUpper(h.Credential)} {
			_, err := doors.NewClient(conn, bearer).Complete(ctx, inference.Request{Messages: []inference.Message{{Role: "user"}}, MaxTokens: 10})
			errs = append(errs, err)
		}
		return honest(ctx, h, conn)
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	if row := g.outcome(s.Thread); row.State != workloop.Done {
		t.Errorf("row is %+v", row)
	}
	for i, err := range errs {
		if refusal, ok := errors.AsType[*loop.Refusal](err); !ok || refusal.Status != http.StatusUnauthorized {
			t.Errorf("credential %d gives %v", i, err)
		}
	}
	for _, r := range g.records(s.Thread, "") {
		if strings.Contains(string(r.Body), "pgw_") {
			t.Errorf("a credential is in a record: %s", r.Body)
		}
	}
}

func TestExpiredCredential(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := make(chan time.Time, 1)
	clock <- now
	g := newRig(t, func(o *workloop.Options) {
		o.Now = func() time.Time { v := <-clock; clock <- v; return v }
	})
	var late error
	g.starter.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
		<-clock
		clock <- now.Add(121*time.Second + 60*time.Second)
		_, late = doors.NewClient(conn, h.Credential).Complete(ctx, inference.Request{Messages: []inference.Message{{Role: "user"}}, MaxTokens: 10})
		return nil, workloop.Exit{}
	})
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	if refusal, ok := errors.AsType[*loop.Refusal](late); !ok || refusal.Status != http.StatusUnauthorized {
		t.Errorf("after its time a credential gives %v", late)
	}
}

func TestNotices(t *testing.T) {
	g := newRig(t)
	s := g.start(workloop.StartRequest{Principal: alice})
	g.outcome(s.Thread)
	n := g.noticed(workloop.NoticeSandboxed)
	if len(n) != 1 || n[0].PID == 0 || n[0].Thread != s.Thread || !slices.Equal(n[0].Layers, []string{"user", "network"}) {
		t.Errorf("notices are %+v", n)
	}
}
