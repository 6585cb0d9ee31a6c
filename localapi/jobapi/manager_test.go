package jobapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

// A runner writes the command's text as its output; "wait" runs until it is stopped.
type runner struct{}

func (runner) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	out.Write(ring.Stdout, spec.Command)
	out.Write(ring.Stderr, spec.Stdin)
	if string(spec.Command) == "wait" {
		<-ctx.Done()
		return job.Result{Outcome: job.Cancelled, Cleanup: job.Cleanup{Proven: true}}, nil
	}
	code := 0
	return job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Proven: true}}, nil
}

type noLost struct{}

func (noLost) Load() (*job.Lost, error) { return nil, nil }
func (noLost) Save(*job.Lost) error     { return nil }

// TestRealManager runs the daemon's own manager behind the socket.
func TestRealManager(t *testing.T) {
	m := job.NewManager(runner{}, job.DefaultLimits(), noLost{})
	t.Cleanup(func() {
		if err := m.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, _ := serve(t, m, me())
	ctx := context.Background()
	done, err := c.Exec(ctx, job.Spec{Tenant: "ann", Command: []byte("a\xff"), Mode: job.Login, Stdin: []byte("in")}, 100, 100)
	if err != nil || string(done.Stdout.Head) != "a\xff" || string(done.Stderr.Head) != "in" || done.Outcome != job.Exited {
		t.Errorf("exec: %+v, %v", done, err)
	}
	status, err := c.Start(ctx, job.Spec{Tenant: "ann", Command: []byte("wait"), Mode: job.Login})
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.Poll(ctx, "ann", status.JobID, 0, 10*time.Second)
	if err != nil || len(page.Chunks) != 1 || string(page.Chunks[0].Data) != "wait" {
		t.Errorf("poll: %+v, %v", page, err)
	}
	if _, err := c.Poll(ctx, "ann", status.JobID, 1000, 0); !errors.Is(err, fault.Invalid) {
		t.Errorf("future cursor: %v", err)
	}
	_, foreign := c.Poll(ctx, "bob", status.JobID, 0, 0)
	if !errors.Is(foreign, fault.NotFound) {
		t.Errorf("foreign job: %v", foreign)
	}
	if host, err := c.Status(ctx); err != nil || host.PerTenant["ann"].Active != 1 {
		t.Errorf("status: %+v, %v", host, err)
	}
	if _, err := c.Cancel(ctx, "ann", status.JobID); err != nil {
		t.Error(err)
	}
	for next := page.NextCursor; page.Result == nil; next = page.NextCursor {
		if page, err = c.Poll(ctx, "ann", status.JobID, next, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if page.State != job.Terminal || page.Result.Outcome != job.Cancelled {
		t.Errorf("end: %+v", page)
	}
	if err := c.DropTenant(ctx, "ann"); err != nil {
		t.Error(err)
	}
	if _, err := c.Poll(ctx, "ann", status.JobID, 0, 0); !errors.Is(err, fault.NotFound) {
		t.Errorf("dropped job: %v", err)
	}
}
