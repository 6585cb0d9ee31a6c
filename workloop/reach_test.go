package workloop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/inference"
	"playground/record"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
	"playground/workloop"
	"playground/workloop/loop"
)

func TestNarrowed(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.DataDir = t.TempDir() })
	var told string
	g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
		if turn > 0 {
			return says("done"), nil
		}
		told = r.Messages[0].Content[0].Text
		return calls("read_file", `{"path":"x"}`, loop.ToolRecordNote, `{"text":"x"}`), nil
	})
	for _, c := range []struct {
		principal, transport string
		want                 []string
	}{
		{alice, "", []string{"read_file", "list_dir", "search"}}, // write_file was never granted to trial
		{operator, "sandboxed", []string{"read_file", "write_file", "list_dir", "search"}},
		{operator, "in_process", []string{}},
	} {
		if c.transport != "" {
			g.config(map[string]any{"kind": "core.engine.config.v1", "topic": "work_loop_transport", "transport": c.transport})
		}
		preview, err := g.engine.Preview(t.Context(), workloop.StartRequest{Principal: c.principal, Goal: "x"})
		if err != nil || !slices.Equal(preview.Narrowed, c.want) || preview.Narrowed == nil {
			t.Errorf("preview is %+v, %v", preview, err)
		}
		s := g.start(workloop.StartRequest{Principal: c.principal})
		row := g.outcome(s.Thread)
		if !slices.Equal(s.Narrowed, c.want) || !slices.Equal(row.Narrowed, c.want) {
			t.Errorf("%s: narrowed is %v, want %v", c.principal, row.Narrowed, c.want)
		}
		if strings.Contains(told, "narrowed") != (len(c.want) > 0) {
			t.Errorf("the model was told: %s", told)
		}
		if slices.Contains(row.Tools, "read_file") != (len(c.want) == 0) {
			t.Errorf("tools are %v", row.Tools)
		}
	}
}

// A member's run reaches its own computer and its own folder, and nobody else's.
func TestTenants(t *testing.T) {
	jails := &sandboxtest.Jails{Prefix: "pg"}
	jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
	t.Cleanup(jobs.Shutdown)
	g := newRig(t, func(o *workloop.Options) {
		o.DataDir, o.HostTools, o.Workspace = t.TempDir(), true, t.TempDir()
		o.Sandbox = sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg"})
	})
	g.model.set(steps(calls("exec", `{"command":"echo hi > f; cat f"}`, "read", `{"path":"f"}`, "bash", `{"command":"id"}`), says("done")))
	s := g.start(workloop.StartRequest{Principal: alice, Tools: []string{"exec", "read"}})
	row := g.outcome(s.Thread)
	if row.ToolCallsOK != 2 || row.ToolCallsFailed != 1 || !slices.Equal(row.Tools, []string{"exec", "read"}) {
		t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
	}
	for _, spec := range jobs.Specs() {
		if spec.Tenant != "alice" {
			t.Errorf("a command ran for %s", spec.Tenant)
		}
	}
	if jails.Handles("alice") != 0 {
		t.Error("the run left its session open")
	}
	// Not granted by default.
	s = g.start(workloop.StartRequest{Principal: alice})
	if row := g.outcome(s.Thread); row.ToolCallsOK != 0 || row.State != workloop.StoppedShort {
		t.Errorf("row is %+v", row)
	}
	preview, _ := g.engine.Preview(t.Context(), workloop.StartRequest{Principal: alice, Goal: "x"})
	if !slices.Equal(preview.Grants.Requestable, []string{"exec", "read", "write"}) || slices.Contains(preview.Grants.Default, "bash") {
		t.Errorf("grants are %+v", preview.Grants)
	}
	// The operator's read is of the workspace; a member in process has a data folder of its own.
	g.model.set(steps(calls("write", `{"path":"f","text":"host"}`, "read", `{"path":"f"}`, "write_file", `{"path":"shared","text":"x"}`), says("done")))
	if row := g.outcome(g.start(workloop.StartRequest{}).Thread); row.ToolCallsOK != 3 {
		t.Errorf("row is %+v\n%s", row, g.dump(row.Thread))
	}
	g.config(map[string]any{"kind": "core.engine.config.v1", "topic": "work_loop_transport_members", "transport": "in_process"})
	g.model.set(steps(calls("read_file", `{"path":"shared"}`, "list_dir", `{}`), says("done")))
	if row := g.outcome(g.start(workloop.StartRequest{Principal: bob}).Thread); row.ToolCallsOK != 1 || row.ToolCallsFailed != 1 {
		t.Errorf("row is %+v\n%s", row, g.dump(row.Thread))
	}
}

func TestRecordTools(t *testing.T) {
	g := newRig(t)
	foreign := g.start(workloop.StartRequest{Principal: bob, Goal: "bob's own"})
	g.outcome(foreign.Thread)
	g.model.set(steps(calls("remember", `{"text":"the key is under the mat"}`, "list_threads", `{}`, "list_actors", `{}`,
		"search_records", `{"kind":"core.work.loop.v1"}`, "explain_run", `{"thread":"`+foreign.Thread+`"}`), says("done")))
	s := g.start(workloop.StartRequest{Principal: alice, Goal: "alice's own"})
	row := g.outcome(s.Thread)
	if row.ToolCallsOK != 4 || row.ToolCallsFailed != 1 {
		t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
	}
	for _, r := range g.records(s.Thread, loop.KindToolResult) {
		if b := body(t, r); b["tool"] != "explain_run" && (strings.Contains(string(r.Body), foreign.Thread) || strings.Contains(string(r.Body), "bob")) {
			t.Errorf("a tool told of another tenant: %s", r.Body)
		}
	}
	// What was remembered is told to the next run of the same actor, and to no other.
	told := ""
	g.model.set(func(_ context.Context, r inference.Request, _ int) (inference.Response, error) {
		for _, b := range r.Messages[0].Content {
			told += b.Text
		}
		return says("done"), nil
	})
	g.outcome(g.start(workloop.StartRequest{Principal: bob}).Thread)
	if strings.Contains(told, "mat") {
		t.Error("another actor was told")
	}
	agent := "did:sync:agent:helper" // of two principals: not the same
	g.outcome(g.start(workloop.StartRequest{Principal: alice, Actor: agent}).Thread)
	if strings.Contains(told, "mat") {
		t.Error("an agent was told what its principal remembers")
	}
	g.outcome(g.start(workloop.StartRequest{Principal: alice}).Thread)
	if !strings.Contains(told, "the key is under the mat") {
		t.Errorf("the actor was told %q", told)
	}
}

func TestRuns(t *testing.T) {
	g := newRig(t)
	var threads []string
	for _, principal := range []string{operator, alice, bob, alice} {
		s := g.start(workloop.StartRequest{Principal: principal})
		g.outcome(s.Thread)
		threads = append(threads, s.Thread)
	}
	list := func(f workloop.Filter) (got []int, page workloop.RunPage) {
		t.Helper()
		page, err := g.engine.Runs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			got = append(got, slices.Index(threads, row.Thread))
		}
		return got, page
	}
	for _, c := range []struct {
		f         workloop.Filter
		want      []int
		truncated bool
	}{
		{workloop.Filter{}, []int{3, 2, 1, 0}, false},
		{workloop.Filter{Actor: alice}, []int{3, 1}, false},
		{workloop.Filter{Limit: 2}, []int{3, 2}, true},
		{workloop.Filter{Scan: 2}, []int{3, 2}, true},
		{workloop.Filter{State: workloop.Running}, nil, false},
		{workloop.Filter{State: workloop.Done, Actor: bob}, []int{2}, false},
		{workloop.Filter{Since: time.Now().Add(time.Hour)}, nil, false},
	} {
		if got, page := list(c.f); !slices.Equal(got, c.want) || page.Truncated != c.truncated || page.Rows == nil {
			t.Errorf("%+v gives %v, %v", c.f, got, page.Truncated)
		}
	}
	_, err := g.engine.Runs(t.Context(), workloop.Filter{State: "asleep"})
	refused(t, err, loop.CodeInvalidBody, 422)
	_, err = g.engine.Run(t.Context(), "th_"+zeros)
	refused(t, err, loop.CodeNotFound, 404)
	before, _ := list(workloop.Filter{})
	g.close()
	g.open()
	if after, _ := list(workloop.Filter{}); !slices.Equal(before, after) {
		t.Errorf("after a restart the runs are %v", after)
	}
}

// A daemon that died left runs without an outcome; the next one gives them theirs, from what the log holds.
func TestRestart(t *testing.T) {
	g := newRig(t)
	in := make(chan struct{})
	g.model.set(func(ctx context.Context, _ inference.Request, turn int) (inference.Response, error) {
		if turn == 0 {
			return calls(loop.ToolRecordNote, `{"text":"x"}`, "nonsense", `{}`), nil
		}
		close(in)
		<-ctx.Done()
		return inference.Response{}, ctx.Err()
	})
	s := g.start(workloop.StartRequest{Principal: alice})
	<-in
	next, err := workloop.New(t.Context(), g.options) // as if the first one were dead
	if err != nil {
		t.Fatal(err)
	}
	row, err := next.Run(t.Context(), s.Thread)
	if err != nil || row.State != workloop.StoppedShort || *row.Outcome != loop.Failed || row.ToolCallsOK != 1 || row.ToolCallsFailed != 1 || row.Turns != 1 ||
		row.SpentUSD == 0 || !strings.Contains(*row.Reason, "restarted") {
		t.Errorf("row is %+v, %v", row, err)
	}
	if usage, err := next.Usage(t.Context(), alice, ""); err != nil || usage.LoopCount != 1 || usage.InputTokens != 10 {
		t.Errorf("usage is %+v, %v", usage, err)
	}
	again, err := workloop.New(t.Context(), g.options)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(g.records(s.Thread, workloop.KindOutcome)); n != 1 {
		t.Errorf("%d outcomes", n)
	}
	for _, e := range []*workloop.Engine{next, again} {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	g := newRig(t)
	write := func(body map[string]any) error {
		_, err := g.log.Append(t.Context(), record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn, Body: body})
		return err
	}
	rule := func(expression, action string) map[string]any {
		return map[string]any{"topic": "permission_rule", "name": "r", "namespace": "default", "expression": expression, "action": action, "priority": 1, "enabled": true}
	}
	for name, bad := range map[string]map[string]any{
		"a rule that does not compile": rule("resource ==", "deny"),
		"a rule that asks":             rule("true", "ask"),
		"a hook with a priority":       {"kind": "core.hook.v1", "topic": "hook", "name": "h", "when": "true", "text": "x", "priority": 1},
		"a hook that does not compile": {"kind": "core.hook.v1", "topic": "hook", "name": "h", "when": "tool =", "text": "x"},
		"a tier that is none":          {"kind": "core.engine.tier.v1", "tier": "gold"},
		"an axis that is none":         {"kind": "core.engine.tier.v1", "tier": "paid", "speed": 1},
		"an assignment to none":        {"topic": "actor_tier", "tier": "paid"},
	} {
		if err := write(bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := write(rule("resource ==", "deny")); err == nil || !strings.Contains(err.Error(), "1:") {
		t.Errorf("the place is missing: %v", err)
	}
	for _, good := range []map[string]any{rule("resource == 'tool:bash'", "deny"), {"topic": "work_loop_transport", "transport": "sandboxd"},
		{"kind": "core.hook.v1", "topic": "hook", "name": "h", "when": "status == 'error'", "text": "look at ${tool}"}} {
		if err := write(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	if h, err := g.engine.Health(t.Context()); err != nil || h.HooksLoaded != 1 {
		t.Errorf("health is %+v, %v", h, err)
	}
}

func TestMayWrite(t *testing.T) {
	r := func(thread, kind string) record.Record {
		return record.Record{Thread: thread, Body: []byte(`{"kind":"` + kind + `"}`)}
	}
	refused(t, workloop.MayWrite(r(record.ConfigThread, "core.hook.v1"), false), workloop.CodeConfigDenied, 403)
	if err := workloop.MayWrite(r(record.ConfigThread, "core.hook.v1"), true); err != nil {
		t.Error(err)
	}
	for _, kind := range []string{workloop.KindOutcome, workloop.KindToolVerdict, workloop.KindUsage, loop.KindToolCall} {
		refused(t, workloop.MayWrite(r("th_"+zeros, kind), true), loop.CodeKindNotAdmitted, 403)
	}
	if err := workloop.MayWrite(r("th_"+zeros, loop.KindNote), false); err != nil {
		t.Error(err)
	}
}

// A hook speaks beside the result, on both transports.
func TestHooks(t *testing.T) {
	for _, principal := range []string{operator, alice} {
		g := newRig(t)
		g.config(map[string]any{"kind": "core.hook.v1", "topic": "hook", "name": "noted", "when": "tool == 'record_note'", "text": "you noted with ${tool}"})
		heard := false
		g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
			if turn == 0 {
				return calls(loop.ToolRecordNote, `{"text":"x"}`), nil
			}
			for _, m := range r.Messages {
				for _, b := range m.Content {
					heard = heard || strings.Contains(b.Text, "you noted with record_note")
				}
			}
			return says("done"), nil
		})
		s := g.start(workloop.StartRequest{Principal: principal})
		g.outcome(s.Thread)
		if o := g.records(s.Thread, loop.KindObservation); len(o) != 1 || body(t, o[0])["rule"] != "noted" || !heard {
			t.Errorf("heard %v\n%s", heard, g.dump(s.Thread))
		}
	}
}

func TestTools(t *testing.T) {
	g := newRig(t)
	runnable := map[string]bool{}
	for _, info := range g.engine.Tools() {
		runnable[info.ID] = info.Runnable
		if info.Runnable == (info.Reason != "") {
			t.Errorf("tool is %+v", info)
		}
	}
	if !runnable["record_note"] || runnable["host:bash"] || runnable["sandbox:exec"] || runnable["read_file"] {
		t.Errorf("runnable are %v", runnable)
	}
}

// A new tenant of an old name inherits nothing.
func TestRetire(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.DataDir = t.TempDir() })
	g.config(map[string]any{"topic": "actor_tier", "actor": alice, "tier": "paid"})
	g.config(map[string]any{"topic": "work_loop_transport_members", "transport": "in_process"})
	g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
		if turn == 0 && strings.Contains(r.Messages[0].Content[0].Text, "ask") {
			return calls("remember", `{"text":"the first one's secret"}`, "request_decision", `{"reason":"r","question":"q"}`), nil
		}
		return says("done"), nil
	})
	old := g.start(workloop.StartRequest{Principal: alice, Goal: "ask"})
	g.outcome(old.Thread)
	if err := g.engine.Retire(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	if row := g.nth(old.Thread, 2); row.State != workloop.Stopped {
		t.Errorf("row is %+v", row)
	}
	check := func() {
		t.Helper()
		told := ""
		g.model.set(func(_ context.Context, r inference.Request, turn int) (inference.Response, error) {
			for _, m := range r.Messages {
				for _, b := range m.Content {
					told += b.Text + "\n"
				}
			}
			if turn == 0 {
				return calls("list_threads", `{}`, "search_records", `{"text":"secret"}`), nil
			}
			return says("done"), nil
		})
		s := g.start(workloop.StartRequest{Principal: alice})
		if s.Tier != "trial" {
			t.Errorf("the tier is %s", s.Tier)
		}
		if row := g.outcome(s.Thread); row.ToolCallsOK != 2 {
			t.Errorf("row is %+v\n%s", row, g.dump(s.Thread))
		}
		if strings.Contains(told, "first one") || strings.Contains(told, old.Thread) {
			t.Errorf("the new one was told %s", told)
		}
		_, err := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice, Reads: []string{old.Thread}})
		refused(t, err, loop.CodeReadsNotCovered, 403)
	}
	check()
	g.close()
	g.open()
	check()
	if err := g.engine.Retire(t.Context(), operator); err == nil {
		t.Error("the operator was retired")
	}
}
