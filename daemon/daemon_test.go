package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

// trace records what tasks do.
type trace struct {
	mu    sync.Mutex // mu guards steps
	steps []string
}

func (tr *trace) add(step string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, step)
}

// behaviour is a fake task's.
type behaviour struct {
	name    string
	ready   time.Duration // until ready; negative = never
	life    time.Duration // until it returns by itself; 0 = never
	result  error         // of the return by itself
	stop    time.Duration // how long it takes to stop
	stopErr error
}

func (tr *trace) task(b behaviour) Task {
	return NewTask(b.name, func(ctx context.Context, ready func()) error {
		tr.add("start " + b.name)
		if b.ready >= 0 {
			time.Sleep(b.ready)
			ready()
			ready() // twice is harmless
		}
		var end <-chan time.Time
		if b.life > 0 {
			end = time.After(b.life)
		}
		select {
		case <-end:
			tr.add("end " + b.name)
			return b.result
		case <-ctx.Done():
		}
		time.Sleep(b.stop)
		tr.add("stop " + b.name)
		if b.stopErr != nil {
			return b.stopErr
		}
		return ctx.Err() // as most code does; it is not a failure
	})
}

func TestRunLoop(t *testing.T) {
	boom, late := errors.New("boom"), errors.New("late")
	tests := []struct {
		name  string
		tasks []behaviour
		// until the context ends, and until signals come; 0 = never
		cancel, first, second time.Duration
		steps                 []string
		errs                  []error
		text                  string // part of the error
		exit                  int
		took                  time.Duration
	}{
		{
			name:  "signal",
			tasks: []behaviour{{name: "a", ready: time.Second}, {name: "b", stop: 2 * time.Second}, {name: "c"}},
			first: 10 * time.Second,
			steps: []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"},
			took:  12 * time.Second,
		},
		{
			name:   "context ends",
			tasks:  []behaviour{{name: "a"}, {name: "b"}},
			cancel: time.Second,
			steps:  []string{"start a", "start b", "stop b", "stop a"},
			took:   time.Second,
		},
		{
			name:  "a failure stops the others",
			tasks: []behaviour{{name: "a"}, {name: "b", life: time.Second, result: boom}, {name: "c"}},
			steps: []string{"start a", "start b", "start c", "end b", "stop c", "stop a"},
			errs:  []error{boom}, text: "b: boom", took: time.Second,
		},
		{
			name:  "a failure before ready keeps later tasks from starting",
			tasks: []behaviour{{name: "a"}, {name: "b", ready: -1, life: time.Second, result: boom}, {name: "c"}},
			steps: []string{"start a", "start b", "end b", "stop a"},
			errs:  []error{boom}, took: time.Second,
		},
		{
			name:  "signal before ready",
			tasks: []behaviour{{name: "a"}, {name: "b", ready: -1}, {name: "c"}},
			first: time.Second,
			steps: []string{"start a", "start b", "stop b", "stop a"},
			took:  time.Second,
		},
		{
			name:   "a task that is done stops nobody",
			tasks:  []behaviour{{name: "a", ready: -1, life: time.Second}, {name: "b"}},
			cancel: 10 * time.Second,
			steps:  []string{"start a", "end a", "start b", "stop b"},
			took:   10 * time.Second,
		},
		{
			name:   "failures while stopping are told too",
			tasks:  []behaviour{{name: "a", stopErr: late}, {name: "b", life: time.Second, result: boom}},
			cancel: 0,
			steps:  []string{"start a", "start b", "end b", "stop a"},
			errs:   []error{boom, late}, took: time.Second,
		},
		{
			name:  "second signal",
			tasks: []behaviour{{name: "a"}, {name: "b", stop: 30 * time.Second}},
			first: time.Second, second: 3 * time.Second,
			steps: []string{"start a", "start b"},
			text:  "second signal while b was stopping", exit: 1, took: 3 * time.Second,
		},
		{
			name:  "a task that does not stop",
			tasks: []behaviour{{name: "a"}, {name: "b", stop: time.Hour}},
			first: time.Second,
			steps: []string{"start a", "start b"},
			text:  "b did not stop within 50s", took: 51 * time.Second,
		},
		{name: "no tasks", cancel: time.Second, took: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				signals := make(chan os.Signal, 2)
				for _, after := range []time.Duration{tt.first, tt.second} {
					if after > 0 {
						time.AfterFunc(after, func() { signals <- syscall.SIGTERM })
					}
				}
				var tr trace
				var tasks []Task
				for _, b := range tt.tasks {
					tasks = append(tasks, tr.task(b))
				}
				exit := 0
				l := loop{logger: zerolog.Nop(), signals: signals, exit: func(code int) { exit = code }, failed: make(chan error, len(tasks))}
				began := time.Now()
				err := l.run(ctx, tasks)
				tr.mu.Lock()
				steps := slices.Clone(tr.steps)
				tr.mu.Unlock()
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if diff := cmp.Diff(tt.steps, steps); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
				if exit != tt.exit {
					t.Errorf("exit code = %d, want %d", exit, tt.exit)
				}
				if (err == nil) != (tt.errs == nil && tt.text == "") {
					t.Errorf("error = %v", err)
				}
				for _, want := range tt.errs {
					if !errors.Is(err, want) {
						t.Errorf("error = %v, want %v in it", err, want)
					}
				}
				if err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error = %q, want %q in it", err, tt.text)
				}
				for _, r := range l.running { // what the hard exit left, so that the bubble can end
					r.cancel()
					<-r.done
				}
			})
		})
	}
}

// nilReady is a task without a ready channel.
type nilReady struct{ Task }

func (nilReady) Ready() <-chan struct{} { return nil }

func TestNilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var tr trace
		l := loop{logger: zerolog.Nop(), failed: make(chan error, 2)}
		if err := l.run(ctx, []Task{nilReady{tr.task(behaviour{name: "a", ready: -1})}, tr.task(behaviour{name: "b"})}); err != nil {
			t.Error(err)
		}
		slices.Sort(tr.steps[:2]) // the two start at the same moment
		if diff := cmp.Diff([]string{"start a", "start b", "stop b", "stop a"}, tr.steps); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}
