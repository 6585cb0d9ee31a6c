// Package breakout runs the escape suite on an instance that is up: real sandboxed runs of somebody who is not the operator, whose
// workers try to get out. What they try comes from the instance itself, never from whoever asks. Each row is a note on a run's
// thread, as package confine/escape has it; how a run ended is the kernel's outcome beside them.
package breakout

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"playground/confine"
	"playground/confine/escape"
	"playground/fault"
	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// An Engine starts runs and tells them to stop.
type Engine interface {
	Start(ctx context.Context, r workloop.StartRequest) (workloop.Started, error)
	Event(ctx context.Context, thread string, event workloop.Event) error
}

// A Suite is the escape suite of one instance. Set its fields before its use.
type Suite struct {
	Engine Engine
	Log    *record.Log
	// Plan says what there is to reach for now. It names nothing secret: what is planned is written down.
	Plan func(ctx context.Context) (escape.Plan, error)

	going sync.Mutex // held by the one suite that runs
}

const (
	// cpuTime and memory are what a worker may have that tries to use up more of it. They are narrow, so that a limit which does
	// not hold costs the host little: then useUpTime ends the run.
	cpuTime   = 2 * time.Second
	memory    = 160 << 20
	useUpTime = 60 // seconds
	// lastWord is how long a run that was told to stop is waited for. It ends without being waited for too.
	lastWord = 10 * time.Second
)

// Run runs the suite and says what came of each attempt. A run that cannot be started is an error: of a worker that is not isolated it
// names the layer. The end of ctx stops what goes on.
func (s *Suite) Run(ctx context.Context) (escape.Report, error) {
	if !s.going.TryLock() {
		return escape.Report{}, fault.New(fault.Busy, "the escape suite is running already").WithHint("wait for its end, then try again")
	}
	defer s.going.Unlock()
	plan, err := s.Plan(ctx)
	if err != nil {
		return escape.Report{}, err
	}
	report := escape.Report{Object: "escape_report", Shape: plan.Shape}
	var used []escape.Row
	for _, what := range escape.UseUps() {
		end, err := s.run(ctx, escape.Plan{Shape: plan.Shape, UseUp: what})
		if err != nil {
			return escape.Report{}, err
		}
		report.Threads = append(report.Threads, end.thread)
		used = append(used, end.used(plan.Shape, what))
	}
	if plan.Other == "" && len(report.Threads) > 0 {
		plan.Other = report.Threads[0]
	}
	end, err := s.run(ctx, plan)
	if err != nil {
		return escape.Report{}, err
	}
	report.Threads = append(report.Threads, end.thread)
	plan.Ended = "tried" // by every run; its text is known to the run's worker alone
	report.Missing = escape.Missing(plan, end.rows, end.outcome.Summary)
	report.Rows = end.rows
	for _, row := range used {
		row.Row = len(report.Rows) + 1
		report.Rows = append(report.Rows, row)
	}
	report.OK = len(report.Missing) == 0
	for _, row := range report.Rows {
		report.OK = report.OK && row.Pass
	}
	return report, nil
}

// An ending is what a run left.
type ending struct {
	thread  string
	rows    []escape.Row
	outcome outcome
}

// An outcome is what the kernel says of a run's end.
type outcome struct {
	Outcome string         `json:"outcome"`
	Summary string         `json:"summary"`
	Exit    *workloop.Exit `json:"exit"`
}

// run runs one worker through a plan and reads what it left.
func (s *Suite) run(ctx context.Context, plan escape.Plan) (ending, error) {
	order := &workloop.Escape{Plan: func(ended string) (json.RawMessage, error) {
		plan := plan
		plan.Ended = ended
		return json.Marshal(plan)
	}}
	request := workloop.StartRequest{Principal: workloop.EscapePrincipal, Goal: "The escape suite: try to get out.", Escape: order}
	if plan.UseUp != "" {
		seconds := int64(useUpTime)
		request.Goal, request.WallClockSecs = "The escape suite: use up: "+plan.UseUp+".", &seconds
	}
	switch plan.UseUp {
	case "cpu":
		order.CPU = cpuTime
	case "memory":
		order.Memory = memory
	}
	started, err := s.Engine.Start(ctx, request)
	if err != nil {
		return ending{}, err
	}
	end, err := s.read(ctx, started.Thread)
	if err == nil {
		return end, nil
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	if s.Engine.Event(late, started.Thread, workloop.Event{Type: workloop.EventStop}) == nil {
		_, _ = s.read(late, started.Thread) // what it says is of no use any more
	}
	return ending{}, err
}

// read reads a run's thread up to its outcome.
func (s *Suite) read(ctx context.Context, thread string) (ending, error) {
	end := ending{thread: thread}
	for r, err := range s.Log.Watch(ctx, record.WatchQuery{Thread: thread}) {
		if err != nil {
			return ending{}, err
		}
		switch kind := record.Kind(r); {
		case kind == loop.KindNote && r.Actor == workloop.EscapePrincipal:
			var note loop.NoteBody
			if r.Decode(&note) != nil {
				continue
			}
			if row, ok := escape.RowOf(note.Text); ok {
				end.rows = append(end.rows, row)
			}
		case kind == workloop.KindOutcome && r.Actor == record.EngineDID:
			if err := r.Decode(&end.outcome); err != nil {
				return ending{}, fmt.Errorf("cannot read the outcome of a run: %w", err)
			}
			return end, nil
		}
	}
	return ending{}, context.Cause(ctx)
}

// used is the row of a run whose worker used something up. One that had to be ended by us, by its wall clock or by a stop, was not
// ended by a limit.
func (e ending) used(shape, what string) escape.Row {
	exit := confine.Exit{Status: -1}
	if e.outcome.Exit != nil {
		exit.Status, exit.Signal = e.outcome.Exit.Code, e.outcome.Exit.Signal
		if json.Unmarshal(e.outcome.Exit.Cleanup, &exit.Cleanup) != nil {
			exit.Cleanup = confine.Cleanup{} // not proven
		}
	}
	row := escape.Used(shape, 0, what, exit)
	if e.outcome.Outcome != loop.Failed {
		row.Errno, row.Pass = e.outcome.Outcome, false
	}
	return row
}
