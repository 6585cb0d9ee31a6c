package breakout_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"playground/confine"
	"playground/confine/escape"
	"playground/fault"
	"playground/record"
	"playground/workloop"
	"playground/workloop/breakout"
	"playground/workloop/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is an engine whose runs leave what a test says, at once.
type fake struct {
	t    *testing.T
	log  *record.Log
	work func(p escape.Plan, r workloop.StartRequest) (rows []escape.Row, outcome map[string]any)
	err  error

	mu      sync.Mutex // guards what follows
	plans   []escape.Plan
	stopped []string
}

func (f *fake) Start(ctx context.Context, r workloop.StartRequest) (workloop.Started, error) {
	if f.err != nil {
		return workloop.Started{}, f.err
	}
	thread := record.NewThread()
	text, err := r.Escape.Plan("ended-credential")
	if err != nil {
		return workloop.Started{}, err
	}
	p, err := escape.Parse(text)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	f.plans = append(f.plans, p)
	f.mu.Unlock()
	rows, outcome := f.work(p, r)
	drafts := []record.Draft{{Thread: thread, Actor: record.EngineDID, Act: record.ActIntend, Body: map[string]any{"kind": workloop.KindLoop}}}
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			f.t.Error(err)
		}
		for _, actor := range []string{workloop.EscapePrincipal, "did:sync:user:mallory"} { // whose rows nobody believes
			drafts = append(drafts, record.Draft{Thread: thread, Actor: actor, Act: record.ActKnow, Body: map[string]any{"kind": loop.KindNote, "text": string(text)}})
		}
	}
	if outcome != nil {
		outcome["kind"] = workloop.KindOutcome
		drafts = append(drafts, record.Draft{Thread: thread, Actor: record.EngineDID, Act: record.ActKnow, Body: outcome})
	}
	_, err = f.log.Append(context.WithoutCancel(ctx), drafts...)
	return workloop.Started{Thread: thread}, err
}

func (f *fake) Event(_ context.Context, thread string, e workloop.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = append(f.stopped, e.Type+" "+thread)
	_, err := f.log.Append(context.Background(), record.Draft{Thread: thread, Actor: record.EngineDID, Act: record.ActKnow,
		Body: map[string]any{"kind": workloop.KindOutcome, "outcome": loop.Cancelled}})
	return err
}

// killed is the outcome of a worker that a limit ended.
func killed(what string) map[string]any {
	exit := map[string]any{"code": 2, "cleanup": map[string]any{"proven": true}}
	if what == "cpu" {
		exit["code"], exit["signal"] = -1, "SIGKILL"
	}
	return map[string]any{"outcome": loop.Failed, "exit": exit}
}

// good leaves what a suite leaves that holds.
func good(p escape.Plan, _ workloop.StartRequest) ([]escape.Row, map[string]any) {
	if p.UseUp != "" {
		return nil, killed(p.UseUp)
	}
	var rows []escape.Row
	for i, layer := range slices.DeleteFunc(append(confine.Layers(), escape.Doors), func(l confine.Layer) bool { return l == confine.Image }) {
		name := []string{"open /etc/passwd", "write to the thread " + p.Other, "with the credential of an ended run: /v1/records"}[i%3]
		rows = append(rows, escape.Row{Shape: p.Shape, Row: i + 1, Attempt: confine.Attempt{Layer: layer, Name: name, Expect: "EPERM", Errno: "EPERM", Pass: true}})
	}
	return rows, map[string]any{"outcome": loop.Completed, "summary": escape.Summary(len(rows), 0)}
}

func newSuite(t *testing.T) (*breakout.Suite, *fake) {
	t.Helper()
	log, err := record.Open(filepath.Join(t.TempDir(), "log.db"), record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fake{t: t, log: log, work: good}
	return &breakout.Suite{Engine: f, Log: log, Plan: func(context.Context) (escape.Plan, error) {
		return escape.Plan{Shape: escape.SameUser, Files: []string{"/etc/passwd"}}, nil
	}}, f
}

func TestSuite(t *testing.T) {
	s, f := newSuite(t)
	r, err := s.Run(t.Context())
	used := escape.UseUps()
	if err != nil || !r.OK || len(r.Missing) != 0 || len(r.Rows) != 13+len(used) || len(r.Threads) != 1+len(used) {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, row := range r.Rows {
		if row.Row != i+1 {
			t.Errorf("row %d is %+v", i+1, row)
		}
	}
	for i, p := range f.plans {
		last := i == len(f.plans)-1
		if p.Ended != "ended-credential" || last != (p.UseUp == "") || last != (len(p.Files) == 1) || last && p.Other != r.Threads[0] {
			t.Errorf("plan %d is %+v", i, p)
		}
	}
}

// What does not hold, or is not told, is never a success.
func TestNotOK(t *testing.T) {
	for name, change := range map[string]func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any){
		"a red row": func(_ escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if len(rows) > 0 {
				rows[3].Pass = false
			}
			return rows, o
		},
		"a row that is not there": func(_ escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if len(rows) > 0 {
				rows = slices.Delete(rows, 3, 4)
			}
			return rows, o
		},
		"a worker that died": func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if p.UseUp == "" {
				o = map[string]any{"outcome": loop.Failed, "summary": "the worker was ended by SIGSEGV"}
			}
			return rows, o
		},
		"a limit that is none": func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if p.UseUp == "memory" {
				o["exit"] = map[string]any{"code": 0, "cleanup": map[string]any{"proven": true}}
			}
			return rows, o
		},
		"a wall clock in place of the limit": func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if p.UseUp == "cpu" {
				o["outcome"] = loop.BudgetExhausted
			}
			return rows, o
		},
		"an end without proof": func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if p.UseUp == "cpu" {
				o["exit"] = map[string]any{"code": -1, "signal": "SIGKILL"}
			}
			return rows, o
		},
		"an end that nobody knows": func(p escape.Plan, rows []escape.Row, o map[string]any) ([]escape.Row, map[string]any) {
			if p.UseUp == "cpu" {
				delete(o, "exit")
			}
			return rows, o
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newSuite(t)
			f.work = func(p escape.Plan, r workloop.StartRequest) ([]escape.Row, map[string]any) {
				rows, o := good(p, r)
				return change(p, rows, o)
			}
			r, err := s.Run(t.Context())
			if err != nil || r.OK {
				t.Errorf("%+v, %v", r, err)
			}
			if red := slices.ContainsFunc(r.Rows, func(r escape.Row) bool { return !r.Pass }); !red && len(r.Missing) == 0 {
				t.Error("nothing says why")
			}
		})
	}
}

// A start that is refused is the error, and the next suite can run.
func TestRefused(t *testing.T) {
	s, f := newSuite(t)
	f.err = &loop.Refusal{Code: workloop.CodeIsolation, Status: 503, Message: "network (sees eth0)"}
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "network (sees eth0)") {
		t.Errorf("%v", err)
	}
	f.err = nil
	if r, err := s.Run(t.Context()); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whoever goes away leaves no run behind; and two suites at once would end each other's meaning.
func TestGivenUp(t *testing.T) {
	s, f := newSuite(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	f.work = func(escape.Plan, workloop.StartRequest) ([]escape.Row, map[string]any) {
		if _, err := s.Run(t.Context()); !errors.Is(err, fault.Busy) {
			t.Errorf("a second suite at once: %v", err)
		}
		cancel(gone)
		return nil, nil // it goes on
	}
	if _, err := s.Run(ctx); !errors.Is(err, gone) || len(f.stopped) != 1 || !strings.HasPrefix(f.stopped[0], workloop.EventStop) {
		t.Errorf("%v, stopped %q", err, f.stopped)
	}
}
