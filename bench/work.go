package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"playground/jail"
	"playground/localapi/userapi"
	"playground/localapi/workerapi"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// Work is what records and runs of agents cost.
type Work struct {
	Append   []WorkRow    `json:"append"`
	Verdicts []WorkRow    `json:"verdicts"`
	Runs     []WorkRow    `json:"runs"`
	Capacity int          `json:"admission_capacity"` // confined workers at once
	Worker   WorkerMemory `json:"worker_memory"`
}

// A WorkRow is one way under one load, beside the one that it is compared with.
type WorkRow struct {
	Row
	ToBase *Ratio `json:"p50_to_base,omitempty"`
}

// A WorkerMemory is what one worker takes while its model thinks, in MB.
type WorkerMemory struct {
	Workers  int     `json:"workers"`
	Resident float64 `json:"rss_mb"`   // of its process
	Part     float64 `json:"pss_mb"`   // of its process, shared pages divided by their users
	Added    float64 `json:"added_mb"` // to the sum over all processes, the daemons too
}

// The figures to reach.
const (
	wantAppends  = 2000.0 // records a second, durable, with appendCallers at once
	wantVerdict  = 1.0    // ms
	wantReady    = 100.0  // ms
	wantResident = 25.0   // MB

	appendCallers = 32
)

// aims compares what the work loop took with what it should take.
func (w Work) aims() []Aim {
	var aims []Aim
	for _, row := range slices.Concat(w.Append, w.Verdicts, w.Runs) {
		switch {
		case row.Way == wayAppend && row.AtOnce == appendCallers:
			aims = append(aims, Aim{Name: fmt.Sprintf("records, durable, %d callers", row.AtOnce), Want: fmt.Sprintf("at least %.0f a second", wantAppends),
				Value: row.Rate, Unit: "/s", Met: row.Rate >= wantAppends})
		case row.Way == wayVerdict || row.Way == wayRules:
			aims = append(aims, Aim{Name: row.Words, Want: fmt.Sprintf("p50 under %.0f ms", wantVerdict), Value: row.P50, Unit: "ms", Met: row.P50 < wantVerdict})
		case row.Way == wayReady:
			aims = append(aims, Aim{Name: row.Words, Want: fmt.Sprintf("p50 under %.0f ms", wantReady), Value: row.P50, Unit: "ms", Met: row.P50 < wantReady})
		}
	}
	if w.Worker.Workers > 0 {
		aims = append(aims, Aim{Name: "a worker's resident memory", Want: fmt.Sprintf("under %.0f MB", wantResident),
			Value: w.Worker.Resident, Unit: "MB", Met: w.Worker.Resident < wantResident})
	}
	return aims
}

// The ways of a run.
const (
	wayReady     = "worker-ready"
	wayInProcess = "in-process"
	waySandboxed = "sandboxed"
	wayWhole     = "whole-run"
)

// measureWork measures the log and the judge in this process, then runs on a suite of its own.
func measureWork(ctx context.Context, o Options) (w Work, err error) {
	if o.State != "" {
		o.State += "-work"
	}
	s, err := startStage(ctx, o, workConfig)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	runs, err := s.runs(ctx)
	if err != nil {
		return w, err
	}
	defer runs.close()
	o.Say("memory, workers")
	w.Capacity = runs.capacity
	if w.Worker, err = runs.memory(ctx); err != nil {
		return w, err
	}
	if w.Runs, err = runs.measure(ctx, o); err != nil {
		return w, err
	}
	if w.Append, err = measureAppend(ctx, s.suite.Dir, o); err != nil {
		return w, err
	}
	w.Verdicts, err = measureVerdicts(ctx, s.suite.Dir, o)
	return w, err
}

// The goals of the runs: the model of workConfig knows what to do.
const (
	goalNote = "take a note"
	goalHold = "think for long"
)

// workConfig gives the work loop a model that answers at once, or not for long.
func workConfig(dir, text string) (string, error) {
	steps, err := json.Marshal([]map[string]any{
		{"match": "(?m)^" + goalNote + "$", "tool_calls": []any{map[string]any{"name": "record_note", "args": map[string]string{"text": noteText}}}},
		{"match": "(?m)^" + goalNote + "$", "text": "done"},
		{"match": "(?m)^" + goalHold + "$", "text": "too late", "delay_ms": (10 * time.Minute).Milliseconds()},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "script.json")
	if err := os.WriteFile(path, steps, 0o600); err != nil {
		return "", fmt.Errorf("cannot write the script: %w", err)
	}
	return strings.Replace(text, "[work]\n", fmt.Sprintf("[work]\nprovider = \"scripted\"\nscript = %q\nstop_grace = \"2s\"\n", path), 1), nil
}

// runs starts runs, of the operator in process and of a member in confined workers.
type runs struct {
	operator, member *workapi.Client
	workers          *workerapi.Client
	capacity         int
	threads          []string          // of each caller's last run
	worker           *workerapi.Worker // the last one that was only started
}

// runs makes a member that may have as many runs as the host.
func (s *stage) runs(ctx context.Context) (r *runs, err error) {
	users := userapi.NewClient(s.suite.Config.OperatorSocket())
	defer users.Disconnect()
	const tenant, did = "tenant-1", "did:sync:user:tenant-1"
	if _, err := users.Create(ctx, jail.ProvisionSpec{Tenant: tenant}); err != nil {
		return nil, err
	}
	api := workapi.NewClient(s.suite.Config.OperatorSocket())
	r = &runs{operator: api, member: api.As(did), workers: workerapi.NewClient(s.suite.Config.ReaperSocket())}
	for _, body := range []string{
		`{"kind":"core.engine.config.v1","topic":"actor_tier","actor":"` + did + `","tier":"team"}`,
		`{"kind":"core.engine.tier.v1","tier":"team","daily_loop_cap":1000000,"concurrency":64}`,
	} {
		if _, err := api.WriteRecord(ctx, workapi.NewRecord{Act: record.ActLearn, Actor: record.EngineDID, Thread: record.ConfigThread, Body: json.RawMessage(body)}); err != nil {
			r.close()
			return nil, err
		}
	}
	health, err := api.EngineHealth(ctx, false)
	if err != nil {
		r.close()
		return nil, err
	}
	r.capacity = health.WorkLoop.Capacity
	r.threads = make([]string, r.capacity)
	return r, nil
}

func (r *runs) close() { r.operator.Disconnect() }

// measure times runs in turns: their beginnings one at a time, then whole ones, as many at once as the host takes.
func (r *runs) measure(ctx context.Context, o Options) ([]WorkRow, error) {
	first := func(client *workapi.Client) func(context.Context, int) error {
		return func(ctx context.Context, caller int) error {
			if err := r.start(ctx, client, goalNote, caller); err != nil {
				return err
			}
			return r.await(ctx, r.threads[caller], "turn")
		}
	}
	over := func(ctx context.Context, caller int) error { return r.await(ctx, r.threads[caller], "outcome") }
	cells := []*cell{
		{load: 1, way: way{name: wayReady, words: "a worker confined and verified", call: r.ready, after: r.discard}},
		{load: 1, way: way{name: wayInProcess, words: "start to first turn, in process", call: first(r.operator), after: over}},
		{load: 1, way: way{name: waySandboxed, words: "start to first turn, sandboxed", call: first(r.member), after: over}},
		{load: r.capacity, way: way{name: wayWhole, words: "start to outcome, sandboxed, at the ceiling", call: func(ctx context.Context, caller int) error {
			if err := r.start(ctx, r.member, goalNote, caller); err != nil {
				return err
			}
			return over(ctx, caller)
		}}},
	}
	if err := takeTurns(ctx, cells, o, "runs", o.Time/4); err != nil {
		return nil, err
	}
	rows := workRows(cells, wayInProcess)
	rows[0].ToBase = nil // a worker alone is no run
	return rows, nil
}

// start starts a run. A place is free again a moment after its run's outcome, so a refusal for want of one is no answer here.
func (r *runs) start(ctx context.Context, client *workapi.Client, goal string, caller int) error {
	for {
		started, err := client.Start(ctx, workloop.StartRequest{Goal: goal})
		if refused, ok := errors.AsType[*workapi.Error](err); ok && refused.Code == workloop.CodeAdmission {
			select {
			case <-time.After(time.Millisecond):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r.threads[caller] = started.Thread
		return err
	}
}

// await reads a run's records until one is of a type.
func (r *runs) await(ctx context.Context, thread, kind string) error {
	for event, err := range r.operator.RunEvents(ctx, thread, true, 0) {
		if err != nil || event.Type == kind {
			return err
		}
	}
	return fmt.Errorf("run %s ended without %q", thread, kind)
}

// ready has a worker started, confined and verified.
func (r *runs) ready(ctx context.Context, _ int) (err error) {
	r.worker, err = r.workers.Start(ctx, workerapi.Request{Run: "measurement"})
	return err
}

// discard ends it.
func (r *runs) discard(ctx context.Context, _ int) error {
	r.worker.Kill()
	_, err := r.worker.Wait(ctx)
	return errors.Join(err, r.worker.Doors.Close(), r.worker.Stdin.Close(), r.worker.Stdout.Close())
}

// memory compares the suite with and without workers whose model thinks.
func (r *runs) memory(ctx context.Context) (m WorkerMemory, err error) {
	before, _, err := sized(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	m.Workers = min(r.capacity, 8)
	for caller := range m.Workers {
		if err := r.start(ctx, r.member, goalHold, caller); err != nil {
			return m, err
		}
	}
	after, workers, err := sized(ctx)
	if err != nil {
		return m, err
	}
	if len(workers) != m.Workers {
		return m, fmt.Errorf("there are %d workers, not %d", len(workers), m.Workers)
	}
	for _, p := range workers {
		m.Resident += p.resident / float64(len(workers))
		m.Part += p.part / float64(len(workers))
	}
	m.Added = (after - before) / float64(len(workers))
	for _, thread := range r.threads[:m.Workers] {
		if _, err := r.operator.Tell(ctx, thread, workloop.Event{Type: workloop.EventStop}); err != nil {
			return m, err
		}
	}
	for _, thread := range r.threads[:m.Workers] {
		if err := r.await(ctx, thread, "outcome"); err != nil {
			return m, err
		}
	}
	return m, nil
}

// sized returns the sum over all processes when it is steady, and the workers among them.
func sized(ctx context.Context) (total float64, workers []process, err error) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	all, err := family()
	for _, p := range all {
		total += p.part
		if p.name == workerName {
			workers = append(workers, p)
		}
	}
	return total, workers, err
}

// workerName is the name of a worker's process.
const workerName = "playground-worker"
