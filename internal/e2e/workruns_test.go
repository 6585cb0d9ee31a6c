package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// goalsOfRuns are what the scripted model does for TestRuns; marker is a folder of the host.
func goalsOfRuns(marker string) map[string][]map[string]any {
	var many []map[string]any
	for i := range 100 {
		many = append(many, later(calls("record_note", map[string]any{"text": fmt.Sprint("note ", i)}), 200*time.Millisecond))
	}
	return map[string][]map[string]any{
		"hold": hold(),
		"note": {calls("record_note", map[string]any{"text": "hello"}), says("done")},
		"many": many,
		"ask": {calls("request_decision", map[string]any{"reason": "taste", "question": "which colour?", "options": []string{"red", "blue"}}),
			calls("record_note", map[string]any{"text": "decided"}), says("done")},
		"computer": {calls("exec", map[string]any{"command": "echo user=$USER; test -d " + marker + " && echo host || echo boxed"}),
			calls("write", map[string]any{"path": "work.txt", "text": "kept"}), says("done")},
	}
}

// What an operator may see and do while runs go on.
func TestRuns(t *testing.T) {
	data := t.TempDir() // a folder of the host, which no tenant's command may see
	h := startWork(t, script(t, goalsOfRuns(data))+fmt.Sprintf("capacity = 2\ndata_dir = %q\n", data))
	tenants := map[string]string{"bob": h.tenant("bob"), "carol": h.tenant("carol")}
	for name := range tenants { // the trial's ceilings are for another test
		h.config(`{"kind":"core.engine.config.v1","topic":"actor_tier","actor":"did:sync:user:` + name + `","tier":"team"}`)
	}
	for _, test := range []struct {
		name string
		run  func(*workHost, *testing.T)
	}{
		{"rule", (*workHost).testRule}, {"stop", (*workHost).testStop}, {"admission", (*workHost).testAdmission},
		{"narrowed and switch", (*workHost).testSwitch}, {"decision", (*workHost).testDecision},
		{"computer", func(h *workHost, t *testing.T) { h.testComputer(t, tenants["bob"]) }}, {"restart", (*workHost).testRestart},
		{"destroy", (*workHost).testDestroy},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := *h.host
			own.t = t // a failure ends this test, not the one around it
			test.run(&workHost{&own, h.api}, t)
		})
	}
	if v, err := h.api.Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("the log: %+v, %v", v, err)
	}
}

// A rule that is written while a run goes on holds for the run's next call.
func (h *workHost) testRule(t *testing.T) {
	run := h.begin(bob, "many")
	h.until(run.Thread, "tool_result")
	rule := h.config(`{"topic":"permission_rule","name":"no-notes","expression":"resource == \"tool:record_note\"","action":"deny","priority":100,"enabled":true}`)
	h.until(run.Thread, "tool_verdict", func(e workapi.StreamEvent) bool { return field(e.Record, "decision") == "deny" })
	h.stopRun(run.Thread)
	allowed, denied := 0, 0
	for _, r := range h.bodies(run.Thread, "core.work.tool_verdict.v1") {
		if r.Actor != record.EngineDID {
			t.Errorf("verdict of %s", r.Actor)
		}
		switch decision := field(r, "decision"); {
		case r.Sequence < rule.Sequence && decision != "allow":
			t.Errorf("%s before there was a rule", decision)
		case r.Sequence > rule.Sequence && decision == "allow":
			allowed++ // the call that was being judged when the rule came
		case decision == "deny":
			denied++
			if field(r, "layer") != "rule" || field(r, "rule") != "no-notes" {
				t.Errorf("verdict %s", r.Body)
			}
		}
	}
	if denied == 0 || allowed > 1 {
		t.Errorf("after the rule: %d denied, %d allowed", denied, allowed)
	}
	h.config(`{"topic":"permission_rule","name":"no-notes","expression":"resource == \"tool:record_note\"","action":"deny","priority":100,"enabled":false}`)
	run = h.begin(bob, "note")
	if row := h.ended(run.Thread, workloop.Done); row.ToolCallsOK != 1 {
		t.Errorf("after the rule was disabled: %+v", row)
	}
}

// A run that is stopped while its model thinks ends as cancelled, and its process is gone.
func (h *workHost) testStop(t *testing.T) {
	run := h.begin(bob, "hold")
	worker := h.worker(run.Thread)
	row := h.stopRun(run.Thread)
	// A run without a budget of its own has its tier's.
	if row.Outcome == nil || *row.Outcome != "cancelled" || row.Transport != "sandboxed" || row.BudgetUSD == nil || *row.BudgetUSD != 2 {
		t.Errorf("%+v", row)
	}
	gone(t, []proc{worker}, 10*time.Second)
	_, err := h.api.Tell(t.Context(), run.Thread, workloop.Event{Type: workloop.EventStop})
	if e, ok := errors.AsType[*workapi.Error](err); !ok || e.Code != "RUN_ALREADY_ENDED" || e.Status != 409 {
		t.Errorf("a second stop: %v", err)
	}
}

// Past the ceiling nothing is started, and what ends makes room.
func (h *workHost) testAdmission(t *testing.T) {
	first, second := h.begin(bob, "hold"), h.begin(carol, "hold")
	_, err := h.api.As(bob).Start(t.Context(), workloop.StartRequest{Goal: "note"})
	e, ok := errors.AsType[*workapi.Error](err)
	if !ok || e.Code != "ADMISSION_CEILING" || e.Status != 503 || e.Body["admission_capacity"] != float64(2) || e.Body["admission_available"] != float64(0) {
		t.Fatalf("past the ceiling: %v", err)
	}
	if health, err := h.api.EngineHealth(t.Context(), false); err != nil || health.WorkLoop.Available != 0 {
		t.Errorf("%+v, %v", health, err)
	}
	h.stopRun(first.Thread)
	third := h.begin(bob, "note")
	h.ended(third.Thread, workloop.Done)
	h.stopRun(second.Thread)
	h.eventually("all slots are free", func() bool {
		health, err := h.api.EngineHealth(t.Context(), false)
		return err == nil && health.WorkLoop.Available == 2
	})
	log, err := os.ReadFile(filepath.Join(h.state, "log", "playgroundd.log"))
	if err != nil || !strings.Contains(string(log), `"message":"admission refused"`) {
		t.Errorf("the log does not tell of the refusal (%v)", err)
	}
}

// The operator's runs move to the sandbox by one record; the one that is going stays where it is. A sandboxed run is not given
// the file tools, and says so.
func (h *workHost) testSwitch(t *testing.T) {
	going := h.begin("", "hold")
	h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":"sandboxed"}`)
	defer h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":"in_process"}`)
	if health, err := h.api.EngineHealth(t.Context(), false); err != nil || health.WorkLoop.Transport != "sandboxed" {
		t.Errorf("%+v, %v", health, err)
	}
	if preview, err := h.api.Preview(t.Context(), workloop.StartRequest{Goal: "note"}); err != nil || preview.Transport != "sandboxed" || len(preview.Narrowed) != 4 {
		t.Errorf("%+v, %v", preview, err)
	}
	fresh := h.begin("", "note")
	row := h.ended(fresh.Thread, workloop.Done)
	four := []string{"list_dir", "read_file", "search", "write_file"}
	slices.Sort(row.Narrowed)
	if row.Transport != "sandboxed" || !slices.Equal(row.Narrowed, four) || row.BudgetUSD == nil || slices.Contains(row.Tools, "read_file") {
		t.Errorf("%+v", row)
	}
	anchors := h.bodies(fresh.Thread, "core.work.loop.v1")
	var anchor struct{ Narrowed []string }
	if len(anchors) != 1 || anchors[0].Decode(&anchor) != nil || len(anchor.Narrowed) != 4 {
		t.Errorf("anchors %v", anchors)
	}
	if row, err := h.api.Run(t.Context(), going.Thread); err != nil || row.Transport != "in_process" || row.State != workloop.Running || len(row.Narrowed) != 0 {
		t.Errorf("the run that was going: %+v, %v", row, err)
	}
	if row := h.stopRun(going.Thread); row.Transport != "in_process" || row.BudgetUSD != nil {
		t.Errorf("%+v", row)
	}
	// A typing error moves nobody.
	h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":"sandboxd"}`)
	h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport_members","transport":"inprocess"}`)
	if health, err := h.api.EngineHealth(t.Context(), false); err != nil || health.WorkLoop.Transport != "in_process" || health.WorkLoop.MemberTransport != "sandboxed" {
		t.Errorf("%+v, %v", health, err)
	}
}

// A run that asks waits without a process, and goes on with the answer.
func (h *workHost) testDecision(t *testing.T) {
	run := h.begin(bob, "ask")
	h.until(run.Thread, "ask")
	var open []workloop.OpenDecision
	h.eventually("the question is open", func() bool {
		list, err := h.api.Decisions(t.Context())
		open = list.Data
		row, rowErr := h.api.Run(t.Context(), run.Thread)
		return err == nil && rowErr == nil && len(open) == 1 && row.State == workloop.WaitingOnYou
	})
	if open[0].Question != "which colour?" || open[0].Principal != bob || !slices.Equal(open[0].Options, []string{"red", "blue"}) {
		t.Errorf("%+v", open)
	}
	gone(t, []proc{h.worker(run.Thread)}, 10*time.Second)
	decided, err := h.api.Decide(t.Context(), open[0].RequestID, workapi.Answer{Decision: "red", Reason: "it is warm"})
	if err != nil || decided.Thread != run.Thread || decided.Decision != "red" {
		t.Fatalf("%+v, %v", decided, err)
	}
	if row := h.ended(run.Thread, workloop.Done); row.Transport != "sandboxed" {
		t.Errorf("%+v", row)
	}
	if notes := h.bodies(run.Thread, "core.work.note.v1"); len(notes) != 1 {
		t.Errorf("notes after the decision: %v", notes)
	}
}

// A member's run works in the member's own computer, the one that its agent reaches over MCP, and nowhere else.
func (h *workHost) testComputer(t *testing.T, token string) {
	run := h.begin(bob, "computer", func(r *workloop.StartRequest) { r.Tools = []string{"exec", "write", "record_note"} })
	if row := h.ended(run.Thread, workloop.Done); row.ToolCallsOK != 2 || row.Transport != "sandboxed" {
		t.Errorf("%+v", row)
	}
	results := h.bodies(run.Thread, "core.work.tool_result.v1")
	if len(results) != 2 || !strings.Contains(field(results[0], "content"), "user=bob") || !strings.Contains(field(results[0], "content"), "boxed") {
		t.Errorf("results %v", results)
	}
	c := h.connect(token)
	if text := c.ok(nil, "exec", map[string]any{"session": c.open(), "command": "cat work.txt"}); !strings.Contains(text, "kept") {
		t.Errorf("over MCP the file reads %q", text)
	}
	// Who did not name the tool was not given it.
	run = h.begin(carol, "computer", func(r *workloop.StartRequest) { r.Tools = []string{"record_note"} })
	h.until(run.Thread, "tool_verdict", func(e workapi.StreamEvent) bool { return field(e.Record, "layer") == "grant" })
	h.until(run.Thread, "outcome")
}

// A daemon that dies takes its workers along; the next one says how their runs ended.
func (h *workHost) testRestart(t *testing.T) {
	member, own := h.begin(bob, "hold"), h.begin("", "hold")
	worker := h.worker(member.Thread)
	daemon := h.daemonPid("playgroundd")
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, []proc{worker}, 15*time.Second)
	h.eventually("the daemon is back", func() bool {
		_, err := h.api.EngineHealth(t.Context(), false)
		return err == nil && h.daemonPid("playgroundd") != daemon
	})
	for _, thread := range []string{member.Thread, own.Thread} {
		row := h.ended(thread, workloop.StoppedShort)
		outcomes := h.bodies(thread, "core.work.loop_outcome.v1")
		if row.Success == nil || *row.Success || len(outcomes) != 1 || outcomes[0].Actor != record.EngineDID {
			t.Errorf("%+v, outcomes %v", row, outcomes)
		}
	}
	if health, err := h.api.EngineHealth(t.Context(), false); err != nil || health.WorkLoop.Available != 2 {
		t.Errorf("%+v, %v", health, err)
	}
	run := h.begin(bob, "note")
	h.ended(run.Thread, workloop.Done)
}

// A tenant that is destroyed takes its runs and its tier along: the next one of the name begins as everybody does.
func (h *workHost) testDestroy(t *testing.T) {
	if preview, err := h.api.As(carol).Preview(t.Context(), workloop.StartRequest{Goal: "note"}); err != nil || preview.Tier != "team" {
		t.Fatalf("%+v, %v", preview, err)
	}
	run := h.begin(carol, "hold")
	worker := h.worker(run.Thread)
	h.must(nil, "user", "destroy", "carol", "--force")
	h.ended(run.Thread, workloop.Stopped)
	gone(t, []proc{worker}, 10*time.Second)
	_, err := h.api.As(carol).Start(t.Context(), workloop.StartRequest{Goal: "note"})
	if e, ok := errors.AsType[*workapi.Error](err); !ok || e.Code != "RUN_ACTOR_NOT_COVERED" {
		t.Errorf("a run for nobody: %v", err)
	}
	h.tenant("carol")
	if preview, err := h.api.As(carol).Preview(t.Context(), workloop.StartRequest{Goal: "note"}); err != nil || preview.Tier != "trial" {
		t.Errorf("%+v, %v", preview, err)
	}
	h.refused(t, "is the operator", "user", "create", "operator")
}
