package job_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"playground/job"
	"playground/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A runnerFunc is a Runner made of one function.
type runnerFunc func(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error)

func (f runnerFunc) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	return f(ctx, spec, out)
}

// exited is the result of a command that returned code and left nothing.
func exited(code int) job.Result {
	return job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Proven: true}}
}

// ended is the result of a command whose context has ended.
func ended(ctx context.Context) job.Result {
	res := job.Result{Outcome: job.Failed, Cleanup: job.Cleanup{Killed: 1, Proven: true}}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, job.ErrTimedOut):
		res.Outcome = job.TimedOut
	case cause != nil:
		res.Outcome = job.Cancelled
	}
	return res
}

// A script is a Runner whose commands do what the test tells them, by command text.
type script struct {
	mu   sync.Mutex
	runs map[string]*scripted
}

// A scripted is one command of a script.
type scripted struct {
	ctx  context.Context
	out  job.Output
	spec job.Spec
	end  chan job.Result // what it ends with
	deaf bool            // it does not end when told to
}

func newScript() *script { return &script{runs: make(map[string]*scripted)} }

// Run implements job.Runner. A command whose text begins with "deaf" ends only when the test says so.
func (s *script) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	r := &scripted{ctx: ctx, out: out, spec: spec, end: make(chan job.Result, 1)}
	r.deaf = len(spec.Command) >= 4 && string(spec.Command[:4]) == "deaf"
	s.mu.Lock()
	s.runs[string(spec.Command)] = r
	s.mu.Unlock()
	stop := ctx.Done()
	if r.deaf {
		stop = nil
	}
	select {
	case res := <-r.end:
		return res, nil
	case <-stop:
		return ended(ctx), nil
	}
}

// get returns the command that was started with the given text.
func (s *script) get(t testing.TB, command string) *scripted {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runs[command]
	if !ok {
		t.Fatalf("command %q was not started", command)
	}
	return r
}

// mustGet is get for callers without a testing.TB.
func (s *script) mustGet(command string) *scripted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[command]
}

// print writes to the command's standard output.
func (r *scripted) print(text string) { r.out.Write(ring.Stdout, []byte(text)) }

// A memory is a LostStore in memory, which may be told to fail.
type memory struct {
	mu      sync.Mutex
	record  *job.Lost
	loadErr error
	saveErr error
}

func (s *memory) Load() (*job.Lost, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record, s.loadErr
}

func (s *memory) Save(l *job.Lost) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saveErr != nil {
		return s.saveErr
	}
	s.record = l
	return nil
}

func (s *memory) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saveErr = err
}

func command(tenant, text string) job.Spec {
	return job.Spec{Tenant: tenant, Command: []byte(text), Mode: job.Login}
}

// start starts a job that must be admitted.
func start(t testing.TB, m *job.Manager, tenant, text string) job.Status {
	t.Helper()
	st, err := m.Start(command(tenant, text))
	if err != nil {
		t.Fatalf("cannot start %q: %v", text, err)
	}
	return st
}

// poll polls without waiting; it must succeed.
func poll(t testing.TB, m *job.Manager, tenant, id string, cursor int64) job.Page {
	t.Helper()
	page, err := m.Poll(t.Context(), tenant, id, cursor, 0)
	if err != nil {
		t.Fatalf("cannot poll %s at %d: %v", id, cursor, err)
	}
	return page
}

// text returns the output in a page.
func text(p job.Page) string {
	var s string
	for _, c := range p.Chunks {
		s += string(c.Data)
	}
	return s
}
