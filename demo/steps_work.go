package demo

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"playground/cli"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// notesGoal is the goal of a run that takes notes, slowly, until somebody stops it: see script.
const notesGoal = "Take notes until somebody stops you."

// ceiling starts the run and one too many.
func (d *demo) ceiling(ctx context.Context) error {
	d.t.title("One run too many")
	tier := map[string]any{"kind": "core.engine.config.v1", "topic": "actor_tier", "actor": didOf(first), "tier": "team"}
	got, err := d.show(ctx, request{method: http.MethodPost, path: "/v1/records",
		body: map[string]any{"act": record.ActLearn, "actor": record.EngineDID, "thread": record.ConfigThread, "body": tier}}, nil)
	if err != nil {
		return err
	}
	d.t.answered(strconv.Itoa(got.status), got.took)
	d.t.check(got.status == http.StatusCreated, "one record moves %s to a tier that may have many runs", first)
	start := request{http.MethodPost, "/v1/work/loop", first, map[string]any{"goal": notesGoal}}
	var started workloop.Started
	if got, err = d.show(ctx, start, &started); err != nil {
		return err
	}
	if got.status != http.StatusCreated {
		return fmt.Errorf("cannot start a run: %s", got.refusal())
	}
	d.run = started.Thread
	d.t.answered(fmt.Sprintf("run %.15s... of tier %s, %s, held to %d turns", started.Thread, started.Tier, started.Transport, deref(started.Config.MaxTurns)), got.took)
	if got, err = d.show(ctx, start, nil); err != nil {
		return err
	}
	d.t.answered(got.refusal(), got.took)
	var refused struct {
		Code string
		Free int `json:"admission_available"`
	}
	got.into(&refused)
	d.t.check(got.status == http.StatusServiceUnavailable && refused.Code == "ADMISSION_CEILING" && refused.Free == 0, "the second one was refused before a process was started for it")
	return nil
}

// midRun writes a rule while the run goes on.
func (d *demo) midRun(ctx context.Context) error {
	d.t.title("A rule that is written while a run goes on")
	row, took, err := d.rowWhen(ctx, d.run, "it has taken a note", func(row workloop.Row) bool { return row.ToolCallsOK > 0 })
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("%s; tool calls: %d ok, %d failed", row.State, row.ToolCallsOK, row.ToolCallsFailed), took)
	d.t.check(row.ToolCallsOK > 0 && row.ToolCallsFailed == 0, "so far its calls were allowed")
	const expression = `resource == "tool:record_note"`
	var rule record.Record
	began := time.Now()
	err = d.operator(ctx, "config add-permission-rule --name no-notes --action deny --priority 100 --expression '"+expression+"'",
		func(e *cli.Env, ctx context.Context) error {
			return e.AddPermissionRule(ctx, cli.PermissionRule{Name: "no-notes", Expression: expression, Action: "deny", Priority: 100})
		}, &rule)
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("record %d of the log", rule.Sequence), time.Since(began))
	var denied record.Record
	later := 0 // calls that were allowed after the rule was there
	found, err := eventually(ctx, func() (bool, error) {
		all, err := d.records(ctx, d.run, false)
		later = 0
		for _, r := range all {
			if record.Kind(r) != "core.work.tool_verdict.v1" {
				continue
			}
			switch decision := text(r, "decision"); {
			case decision == "deny":
				denied = r
				return true, nil
			case decision == "allow" && r.Sequence > rule.Sequence:
				later++
			}
		}
		return false, err
	})
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("verdict: %s by %s %q: %s", text(denied, "decision"), text(denied, "layer"), text(denied, "rule"), text(denied, "reason")), time.Since(began))
	d.t.check(found && text(denied, "rule") == "no-notes", "the running loop's next call was denied; nothing was restarted")
	// The call that was being judged when the rule came may have been the last one.
	d.t.check(later <= 1, "calls that were allowed after the rule was there: %d", later)
	return nil
}

// stopRun stops the run and sees its process gone.
func (d *demo) stopRun(ctx context.Context) error {
	d.t.title("A run is stopped")
	pid, _, err := d.worker(ctx, d.run)
	if err != nil {
		return err
	}
	before, known := alive(pid)
	stop := request{method: http.MethodPost, path: "/v1/runs/" + d.run + "/events", body: map[string]string{"type": "stop"}}
	d.t.asked("http", shorter(stop.String(), d.run))
	got, err := d.send(ctx, stop, nil)
	if err != nil {
		return err
	}
	d.t.answered(strconv.Itoa(got.status), got.took)
	row, err := d.ended(ctx, d.run)
	if err != nil {
		return err
	}
	d.t.check(row.State == workloop.Stopped && deref(row.Outcome) == "cancelled" && row.ToolCallsOK > 0 && row.ToolCallsFailed > 0,
		"it is %s, and its row still says what it did", row.State)
	var health workapi.EngineHealth
	free, err := d.until(ctx, request{method: http.MethodGet, path: "/v1/engine/health"}, &health, func() bool { return health.WorkLoop.Available == 1 })
	if err != nil {
		return err
	}
	d.t.check(free, "its place is free again: %d of %d", health.WorkLoop.Available, health.WorkLoop.Capacity)
	if known {
		after, _ := alive(pid)
		d.t.check(before && !after, "its process %d is gone", pid)
	}
	return nil
}

// alive reports whether a process is there. It knows only where /proc is as on Linux.
func alive(pid int) (there, known bool) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return false, false
	}
	_, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil, true
}

// proveLog checks the whole log, and takes the operator's token away.
func (d *demo) proveLog(ctx context.Context) error {
	d.t.title("The log, checked from its first record; and the token is revoked")
	var v workapi.Verification
	got, err := d.show(ctx, request{method: http.MethodGet, path: "/v1/engine/verify"}, &v)
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("%d records, %d of them written and signed by the kernel", v.Records, v.Signed), got.took)
	d.t.check(v.OK && v.Records > 0 && v.First == nil, "every record is as it was written, over the restart too")
	var revoked map[string]any
	err = d.operator(ctx, "operator token revoke "+d.api.id, func(e *cli.Env, ctx context.Context) error { return e.OperatorTokenRevoke(ctx, d.api.id) }, &revoked)
	if err != nil {
		return err
	}
	got, err = d.show(ctx, request{method: http.MethodGet, path: "/v1/runs"}, nil)
	if err != nil {
		return err
	}
	d.t.answered(got.refusal(), got.took)
	d.t.check(got.status == http.StatusUnauthorized, "refused at the very next request")
	return nil
}
