package workloop_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"playground/confine"
	"playground/confine/keeper"
	"playground/inference"
	"playground/internal/workertest"
	"playground/workloop"
	"playground/workloop/loop"
)

// keeping is a Starter over the real keeper of workers, without the daemon around it.
type keeping struct{ keeper *keeper.Keeper }

func (k keeping) Start(ctx context.Context, r workloop.WorkerRequest) (workloop.Worker, error) {
	w, err := k.keeper.Start(ctx, r.Run, confine.Bounds{CPUSeconds: int64(r.WallClock / time.Second)})
	if err != nil {
		return workloop.Worker{}, err
	}
	doorway, err := net.FileConn(w.Doors)
	w.Doors.Close()
	if err != nil {
		w.Kill()
		return workloop.Worker{}, err
	}
	var layers []string
	for _, l := range w.Report.Layers {
		layers = append(layers, string(l.Name))
	}
	report, err := json.Marshal(w.Report)
	return workloop.Worker{
		PID: w.PID, Layers: layers, Report: report, Doors: doorway, Stdin: w.Stdin, Stdout: w.Stdout, Kill: w.Kill,
		Wait: func(ctx context.Context) (workloop.Exit, error) {
			select {
			case <-w.Done():
			case <-ctx.Done():
				return workloop.Exit{}, ctx.Err()
			}
			e := w.Exit()
			cleanup, err := json.Marshal(e.Cleanup)
			return workloop.Exit{Code: e.Status, Signal: e.Signal, Cleanup: cleanup}, err
		},
	}, err
}

// The whole of it with the real program, confined and verified: a run, a question and its answer, and a stop.
func TestRealWorker(t *testing.T) {
	program := filepath.Join(os.Getenv("PLAYGROUND_BIN"), "playground-worker")
	if os.Getenv("PLAYGROUND_BIN") == "" {
		var err error
		if program, err = workertest.Build("playground-worker", "playground/cmd/playground-worker"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(program)) })
	}
	kept, err := keeper.New(keeper.Options{Program: program, UIDBase: 90_000})
	if err != nil {
		t.Skipf("this host cannot confine a worker: %v", err)
	}
	t.Cleanup(func() {
		if err := kept.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g := newRig(t, hasty, func(o *workloop.Options) { o.Starter = keeping{kept}; o.DataDir = t.TempDir() })

	begin := time.Now()
	s := g.start(workloop.StartRequest{Principal: alice, Goal: exactGoal})
	t.Logf("confined, verified and handed over in %s", time.Since(begin))
	row := g.outcome(s.Thread)
	t.Logf("ended after %s", time.Since(begin))
	if row.State != workloop.Done || row.ToolCallsOK != 1 || row.Transport != "sandboxed" || !slices.Equal(row.Narrowed, []string{"read_file", "list_dir", "search"}) {
		t.Fatalf("row is %+v\n%s", row, g.dump(s.Thread))
	}
	if o := body(t, g.records(s.Thread, workloop.KindOutcome)[0]); o["exit"].(map[string]any)["code"] != 0.0 {
		t.Errorf("outcome is %v", o)
	}
	if n := g.noticed(workloop.NoticeSandboxed); len(n) != 1 || len(n[0].Layers) != len(confine.Layers()) || n[0].PID <= 1 {
		t.Errorf("notices are %+v", n)
	}

	g.model.set(asks)
	s = g.start(workloop.StartRequest{Principal: alice})
	ask := g.outcome(s.Thread).Ask
	if _, err := g.engine.Decide(t.Context(), ask.RequestID, workloop.Event{Decision: "left"}); err != nil {
		t.Fatal(err)
	}
	if row := g.nth(s.Thread, 2); row.State != workloop.Done || *row.Summary != "I went left" {
		t.Errorf("row is %+v %s\n%s", row, *row.Summary, g.dump(s.Thread))
	}

	in := make(chan struct{}, 1)
	g.model.set(func(ctx context.Context, _ inference.Request, _ int) (inference.Response, error) {
		in <- struct{}{}
		<-ctx.Done()
		return inference.Response{}, ctx.Err()
	})
	s = g.start(workloop.StartRequest{Principal: alice})
	<-in
	if err := g.engine.Event(t.Context(), s.Thread, workloop.Event{Type: workloop.EventStop}); err != nil {
		t.Fatal(err)
	}
	if row := g.outcome(s.Thread); row.State != workloop.Stopped || *row.Outcome != loop.Cancelled {
		t.Errorf("row is %+v", row)
	}
	if kept.Count() != 0 {
		t.Errorf("%d workers are left", kept.Count())
	}
}
