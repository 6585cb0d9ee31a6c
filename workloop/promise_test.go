package workloop_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"playground/fault"
	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// What reads the log by kind takes no other version for the kernel's word: a client writes none.
func TestMayWriteNoVersion(t *testing.T) {
	for _, kind := range []string{
		"core.work.tool_verdict.v2", "core.work.tool_verdict", "core.work.loop_outcome.v10", "core.work.loop", "core.actor.usage.v2", "core.work.tool_result.v0",
		loop.KindObservation, // it says what a run's actor was shown
	} {
		r := record.Record{Thread: "th_" + zeros, Body: []byte(`{"kind":"` + kind + `"}`)}
		refused(t, workloop.MayWrite(r, true), loop.CodeKindNotAdmitted, 403)
	}
	for _, kind := range []string{"", loop.KindNote, "core.work.plan.v1", "my.work.loop.v1", "core.work.loopy.v1", "core.work.loop.version"} {
		r := record.Record{Thread: "th_" + zeros, Body: []byte(`{"kind":"` + kind + `"}`)}
		if err := workloop.MayWrite(r, false); err != nil {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// A clamp that names no tool would clamp nothing: whoever mistyped it must hear so before the run.
func TestForbiddenIsATool(t *testing.T) {
	g := newRig(t)
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice, Forbidden: []string{"recrod_note"}})
	r := refused(t, err, loop.CodeInvalidBody, 422)
	if !strings.Contains(r.Message, `"recrod_note"`) || !strings.Contains(fmt.Sprint(r.Extra["hint"]), loop.ToolRecordNote) {
		t.Errorf("refusal is %v %v", r, r.Extra)
	}
	for _, name := range []string{"bash", "exec", "write_file", "spawn", "run_code", "propose_definition"} { // of tools that this run would not have had anyway
		g.model.set(steps(says("done")))
		g.outcome(g.start(workloop.StartRequest{Forbidden: []string{name}}).Thread)
	}
}

// The kernel knows which reply was cut. A worker that keeps quiet about it has nothing run.
func TestCutReplyOfALyingWorker(t *testing.T) {
	g := newRig(t)
	cut := calls(loop.ToolRecordNote, `{"text":"half a"}`)
	cut.StopReason = inference.MaxTokens
	replies := []inference.Response{cut, calls(loop.ToolRecordNote, `{"text":"whole"}`)}
	g.model.set(func(context.Context, inference.Request, int) (inference.Response, error) {
		next := replies[0]
		replies = replies[1:]
		return next, nil
	})
	row := attack(t, g, workloop.StartRequest{}, func(ctx context.Context, _ doors.Handoff, k loop.Kernel) {
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		v, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"half a"}`)
		if err != nil || v.Decision != loop.Deny || v.Verdict != "" {
			t.Errorf("verdict is %+v, %v", v, err)
		}
		if _, err := k.Append(ctx, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "half a"}}); err == nil {
			t.Error("the call of a cut reply was carried out")
		}
		if err := ask(ctx, k); err != nil {
			t.Error(err)
		}
		if v, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"whole"}`); err != nil || v.Decision != loop.Allow {
			t.Errorf("the next reply was whole: %+v, %v", v, err)
		}
	})
	results := g.records(row.Thread, loop.KindToolResult)
	if len(results) != 1 || body(t, results[0])["status"] != loop.StatusTruncated {
		t.Errorf("thread is\n%s", g.dump(row.Thread))
	}
}

// What a person can do about a failed model call is in the run's outcome. Paths of the host are for the operator alone.
func TestProviderHint(t *testing.T) {
	for principal, want := range map[string]string{operator: "write a valid key to /secret/key", alice: "the log of playgroundd says what can be done"} {
		g := newRig(t)
		g.model.set(func(context.Context, inference.Request, int) (inference.Response, error) {
			return inference.Response{}, inference.NewError(inference.Authentication, "the service does not accept the key").WithHint("write a valid key to /secret/key")
		})
		row := g.outcome(g.start(workloop.StartRequest{Principal: principal}).Thread)
		outcome := body(t, g.records(row.Thread, workloop.KindOutcome)[0])
		if row.Hint != want || outcome["hint"] != want || !strings.Contains(*row.Summary, "does not accept the key") {
			t.Errorf("%s: row is %+v, outcome %v", principal, row, outcome)
		}
		if principal == alice && strings.Contains(g.dump(row.Thread), "/secret") {
			t.Errorf("a member's run names a path of the host:\n%s", g.dump(row.Thread))
		}
	}
}

// Each refusal that a person can do something about says what.
func TestRefusalsSayWhatToDo(t *testing.T) {
	g := newRig(t)
	hint := func(err error, code string, status int) string {
		t.Helper()
		return fmt.Sprint(refused(t, err, code, status).Extra["hint"])
	}
	g.config(map[string]any{"kind": "core.engine.tier.v1", "tier": "trial", "daily_loop_cap": 1})
	release := g.gate()
	s := g.start(workloop.StartRequest{Principal: alice})
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice})
	if got := hint(err, workloop.CodeConcurrency, 429); !strings.Contains(got, "runs stop") {
		t.Errorf("concurrency: %s", got)
	}
	release()
	g.outcome(s.Thread)
	_, err = g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice})
	if got := hint(err, workloop.CodeDailyCount, 429); !strings.Contains(got, "UTC") || !strings.Contains(got, "actor_tier") {
		t.Errorf("daily count: %s", got)
	}
	p, err := g.engine.Preview(t.Context(), workloop.StartRequest{Goal: "x", Principal: alice})
	if err != nil || !p.WouldBeDenied || !strings.Contains(p.DenialHint, "UTC") {
		t.Errorf("preview is %+v, %v", p, err)
	}
	err = g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventStop})
	if got := hint(err, workloop.CodeEnded, 409); !strings.Contains(got, "runs show") {
		t.Errorf("ended: %s", got)
	}
	err = g.engine.Event(t.Context(), "th_"+zeros, workloop.Event{Type: workloop.EventStop})
	if got := hint(err, loop.CodeNotFound, 404); !strings.Contains(got, "runs list") {
		t.Errorf("not found: %s", got)
	}
	_, err = g.engine.Decide(t.Context(), zeros, workloop.Event{Decision: "yes"})
	if got := hint(err, loop.CodeNotFound, 404); !strings.Contains(got, "decisions list") {
		t.Errorf("no question: %s", got)
	}
	full := newRig(t, func(o *workloop.Options) { o.Capacity = 1 })
	release = full.gate()
	defer release()
	full.start(workloop.StartRequest{Principal: alice})
	_, err = full.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Principal: bob})
	if got := hint(err, workloop.CodeAdmission, 503); !strings.Contains(got, "work.capacity") {
		t.Errorf("ceiling: %s", got)
	}
}

// A search in one thread is a read of it: the second that finds nothing is told so.
func TestEmptySearches(t *testing.T) {
	g := newRig(t)
	id := record.NewThread("empty")
	search := func(kind string) string { return `{"thread":"` + id + `","kind":"` + kind + `"}` }
	g.model.set(steps(calls("search_records", search("a.b.c"), "search_records", search("a.b.d"), "search_records", `{"kind":"a.b.c"}`), says("done")))
	s := g.start(workloop.StartRequest{Principal: alice, Reads: []string{id}, Caller: operator})
	g.outcome(s.Thread)
	seen := g.records(s.Thread, loop.KindObservation)
	if len(seen) != 1 || body(t, seen[0])["rule"] != loop.RuleAbsence || !strings.Contains(fmt.Sprint(body(t, seen[0])["text"]), id) {
		t.Errorf("observations are %v\n%s", seen, g.dump(s.Thread))
	}
}

// The bound of one answer holds on both transports, and for a worker that asks for more.
func TestMaxTokens(t *testing.T) {
	asked := []int{}
	g := newRig(t, func(o *workloop.Options) { o.MaxTokens = 77 })
	g.model.set(func(_ context.Context, r inference.Request, _ int) (inference.Response, error) {
		asked = append(asked, r.MaxTokens)
		return says("done"), nil
	})
	for _, principal := range []string{operator, alice} {
		g.outcome(g.start(workloop.StartRequest{Principal: principal}).Thread)
	}
	attack(t, g, workloop.StartRequest{}, func(ctx context.Context, _ doors.Handoff, k loop.Kernel) {
		if err := ask(ctx, k); err != nil { // for 100
			t.Error(err)
		}
	})
	if !slices.Equal(asked, []int{77, 77, 77}) {
		t.Errorf("the model was asked for answers of %v tokens", asked)
	}
}

// An assignment to what is no DID would never be anybody's.
func TestAssignmentNamesADID(t *testing.T) {
	check := workloop.Check(policy.New(4))
	write := func(actor string) error {
		return check(t.Context(), record.Record{Thread: record.ConfigThread, Act: record.ActLearn, Actor: record.EngineDID,
			Body: []byte(`{"topic":"actor_tier","actor":"` + actor + `","tier":"paid"}`)})
	}
	if err := write("alice"); !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "did:sync:user:NAME") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	if err := write(alice); err != nil {
		t.Error(err)
	}
}

// A folder of the host that is not there is told before the run, not by each of its tools.
func TestWorkspaceIsThere(t *testing.T) {
	g := newRig(t, func(o *workloop.Options) { o.HostTools, o.Workspace = true, "/nonexistent of the daemon" })
	_, err := g.engine.Start(t.Context(), workloop.StartRequest{Goal: "x", Workspace: "/nonexistent"})
	if r := refused(t, err, loop.CodeInvalidBody, 422); !strings.Contains(r.Message, `"/nonexistent" is not a folder that the daemon can see`) {
		t.Errorf("refusal is %v", r)
	}
	g.model.set(steps(says("done")))
	g.outcome(g.start(workloop.StartRequest{Workspace: t.TempDir()}).Thread)
	g.outcome(g.start(workloop.StartRequest{}).Thread) // the configured one is the daemon's care
	g.outcome(g.start(workloop.StartRequest{Principal: alice, Workspace: "/nonexistent"}).Thread)
}

// A rule that failed on a call decided nothing. Whoever reads the verdict must see that it was not asked in vain.
func TestVerdictNamesSkippedRules(t *testing.T) {
	g := newRig(t)
	g.rule("no-rm", "deny", `record.body.args.command.contains("rm")`)
	g.rule("fine", "allow", `resource == "tool:record_note"`)
	g.model.set(steps(calls(loop.ToolRecordNote, `{"text":"x"}`), says("done")))
	s := g.start(workloop.StartRequest{Principal: alice})
	g.outcome(s.Thread)
	verdicts := g.records(s.Thread, workloop.KindToolVerdict)
	if len(verdicts) != 1 || fmt.Sprint(body(t, verdicts[0])["skipped_rules"]) != "[no-rm]" || body(t, verdicts[0])["rule"] != "fine" {
		t.Errorf("thread is\n%s", g.dump(s.Thread))
	}
	if n := len(g.noticed(workloop.NoticeRule)); n != 1 {
		t.Errorf("the log was told %d times", n)
	}
}

// A log that was tampered with takes no records. The engine still comes up, so that somebody can ask what is wrong; nothing that
// needs a record happens, and the refusal says why.
func TestDamagedLog(t *testing.T) {
	g := newRig(t)
	release := g.gate()
	defer release()
	s := g.start(workloop.StartRequest{Principal: alice})
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	damaged, err := record.Open(g.path, record.Options{Key: key}) // as if its head were not the engine's
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	options := g.options
	options.Log = damaged
	next, err := workloop.New(t.Context(), options)
	if err != nil {
		t.Fatalf("the engine does not come up: %v", err)
	}
	defer next.Close(context.Background())
	if row, err := next.Run(t.Context(), s.Thread); err != nil || row.State != workloop.StoppedShort || row.Outcome != nil {
		t.Errorf("row is %+v, %v", row, err)
	}
	_, err = next.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	r := refused(t, err, loop.CodeUnavailable, 503)
	if !strings.Contains(r.Message, "damaged at sequence") || !strings.Contains(fmt.Sprint(r.Extra["hint"]), "playground records verify") {
		t.Errorf("refusal is %v %v", r, r.Extra)
	}
}
