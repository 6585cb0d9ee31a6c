package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"playground/cli"
	"playground/localapi/userapi"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// operatorToken mints a token that speaks for the operator over HTTP.
func (d *demo) operatorToken(ctx context.Context) error {
	d.t.title("A token for the work loop's API")
	var minted userapi.NewOperatorToken
	began := time.Now()
	err := d.operator(ctx, "operator token create demonstration", func(e *cli.Env, ctx context.Context) error {
		return e.OperatorTokenCreate(ctx, "demonstration")
	}, &minted)
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("operator token %s", minted.Info.ID), time.Since(began))
	got, err := d.show(ctx, request{method: http.MethodGet, path: "/v1/engine/health"}, nil)
	if err != nil {
		return err
	}
	d.t.answered(got.refusal(), got.took)
	d.t.check(got.status == http.StatusUnauthorized, "without the token: %d", got.status)
	d.api.token, d.api.id = minted.Token, minted.Info.ID
	var health workapi.EngineHealth
	if got, err = d.show(ctx, request{method: http.MethodGet, path: "/v1/engine/health"}, &health); err != nil {
		return err
	}
	w := health.WorkLoop
	d.t.answered(fmt.Sprintf("the operator's runs: %s; members' runs: %s; %d of %d workers free", w.Transport, w.MemberTransport, w.Available, w.Capacity), got.took)
	d.t.check(got.status == http.StatusOK && w.MemberTransport == "sandboxed", "with it: members' runs are sandboxed by default")
	return nil
}

// The goal of the run that verifies an instance. The built-in model "echo" understands it without a network.
const verifyGoal = "Record a note whose text is exactly: transport-check . Use the record_note tool with only the text argument. Then stop."

// verifyRun takes the four steps that verify an instance: start a run, see it end, read what the log holds of it, see what was withheld.
func (d *demo) verifyRun(ctx context.Context) error {
	d.t.title("A work loop: a member's run, in a process that can touch nothing but five doors")
	if !d.isolated {
		d.t.notShown(noIsolation, "a member's run is confined and verified before it begins, or refused")
		return nil
	}
	d.t.note("the steps of examples/verify-work-loop.sh")
	var started workloop.Started
	got, err := d.show(ctx, request{http.MethodPost, "/v1/work/loop", first, map[string]any{"goal": verifyGoal, "max_turns": 3, "budget_usd": 0.05}}, &started)
	if err != nil {
		return err
	}
	if got.status != http.StatusCreated {
		return fmt.Errorf("cannot start a run: %s", got.refusal())
	}
	d.t.answered(fmt.Sprintf("run %.15s... of tier %s, %s, held to $%.2f", started.Thread, started.Tier, started.Transport, deref(started.BudgetUSD)), got.took)
	pid, layers, err := d.worker(ctx, started.Thread)
	if err != nil {
		return err
	}
	d.t.check(pid > 0 && len(layers) >= 5, "before it began, process %d was seen from outside to be confined: %s", pid, strings.Join(layers, ", "))
	row, err := d.ended(ctx, started.Thread)
	if err != nil {
		return err
	}
	d.t.check(row.State == workloop.Done, "it is %s", row.State)
	if err := d.verifyRecords(ctx, started.Thread); err != nil {
		return err
	}
	slices.Sort(row.Narrowed)
	d.t.check(slices.Equal(row.Narrowed, []string{"list_dir", "read_file", "search"}), // write_file is not its tier's at all
		"what its tier grants and a sandbox cannot serve was withheld, and is named: %s", strings.Join(row.Narrowed, ", "))
	return nil
}

// verifyRecords looks at what the log holds of a run.
func (d *demo) verifyRecords(ctx context.Context, thread string) error {
	all, err := d.records(ctx, thread, true)
	if err != nil {
		return err
	}
	var outcome struct {
		Transport string
		OK        int `json:"tool_calls_ok"`
	}
	author, note := "", ""
	for _, r := range all {
		switch record.Kind(r) {
		case "core.work.loop_outcome.v1":
			author = r.Actor
			_ = r.Decode(&outcome) // what is not there fails its check
		case "core.work.note.v1":
			note = text(r, "text")
		}
	}
	d.t.check(outcome.Transport == "sandboxed" && author == record.EngineDID, "the outcome was written by the kernel and says: %s", outcome.Transport)
	d.t.check(outcome.OK >= 1, "tool calls that succeeded: %d", outcome.OK)
	d.t.check(note == "transport-check", "the note is there: %q", note)
	return nil
}

// ended waits for the end of a run and shows its row.
func (d *demo) ended(ctx context.Context, thread string) (workloop.Row, error) {
	row, took, err := d.rowWhen(ctx, thread, "it has ended", func(row workloop.Row) bool { return row.State != workloop.Running })
	if err == nil {
		d.t.answered(fmt.Sprintf("%s (%s) after %d turns; tool calls: %d ok, %d failed", row.State, deref(row.Outcome), row.Turns, row.ToolCallsOK, row.ToolCallsFailed), took)
	}
	return row, err
}

// rowWhen asks for a run's row until it is as wanted.
func (d *demo) rowWhen(ctx context.Context, thread, what string, wanted func(workloop.Row) bool) (row workloop.Row, took time.Duration, err error) {
	r := request{method: http.MethodGet, path: "/v1/runs/" + thread}
	d.t.asked("http", shorter(r.String(), thread)+"  until "+what)
	began := time.Now()
	_, err = d.until(ctx, r, &row, func() bool { return wanted(row) })
	return row, time.Since(began), err
}

// records returns the records of a thread.
func (d *demo) records(ctx context.Context, thread string, shown bool) ([]record.Record, error) {
	r := request{method: http.MethodGet, path: "/v1/threads/" + thread + "/records"}
	var list workapi.List[record.Record]
	got, err := d.send(ctx, r, &list)
	if err != nil || !shown {
		return list.Data, err
	}
	d.t.asked("http", shorter(r.String(), thread))
	var kinds []string
	for _, one := range list.Data {
		kinds = append(kinds, strings.TrimSuffix(strings.TrimPrefix(record.Kind(one), "core.work."), ".v1"))
	}
	d.t.answered(fmt.Sprintf("%d records: %s", len(kinds), strings.Join(kinds, ", ")), got.took)
	return list.Data, nil
}

// worker finds a run's process and its verified layers in the daemon's log, as an operator does. The line may come a moment after the
// answer to the start.
func (d *demo) worker(ctx context.Context, thread string) (pid int, layers []string, err error) {
	_, err = eventually(ctx, func() (bool, error) {
		pid, layers, err = d.logged(thread)
		return pid > 0, err
	})
	return pid, layers, err
}

// logged looks for a run's process once.
func (d *demo) logged(thread string) (pid int, layers []string, err error) {
	file, err := os.Open(filepath.Join(d.suite.LogDir(), "playgroundd.log"))
	if err != nil {
		return 0, nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Message, Thread string
			PID             int
			Layers          []string
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "running sandboxed" && line.Thread == thread {
			pid, layers = line.PID, line.Layers
		}
	}
	return pid, layers, nil
}

// shorter cuts the id of a thread in a line that is shown.
func shorter(line, thread string) string {
	return strings.Replace(line, thread, thread[:min(15, len(thread))]+"...", 1)
}

// text returns a text of a record's body, or "".
func text(r record.Record, name string) string {
	var body map[string]any
	_ = r.Decode(&body) // what is not there fails its check
	s, _ := body[name].(string)
	return s
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
