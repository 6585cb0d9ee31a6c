package reaper_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

// TestLateProofEndsTheTenantsOtherJobs: when half of the deadline is over, what else the tenant runs is killed, since it may be
// what keeps the one from ending. Other tenants' jobs go on.
func TestLateProofEndsTheTenantsOtherJobs(t *testing.T) {
	journal := t.TempDir()
	h := sandboxtest.New(t, func(_ *jail.Options, r *reaper.Options) {
		// The end is late before the init is killed from outside, which nothing would survive.
		r.Journal, r.TermGrace, r.ProofDeadline = reaper.Journal(journal), 100*time.Millisecond, 800*time.Millisecond
	})
	h.Tenant(t, "alice", "")
	h.Tenant(t, "bob", "")
	run := func(ctx context.Context, tenant string) <-chan job.Result {
		before := inits(t, journal)
		ended := make(chan job.Result, 1)
		go func() {
			res, err := h.Runner.Run(ctx, job.Spec{Tenant: tenant, Mode: job.Login, Command: []byte("sleep 100")}, &sandboxtest.Output{})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		for end := time.Now().Add(10 * time.Second); len(inits(t, journal)) == len(before); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the job did not start")
			}
		}
		return ended
	}
	bobs, endBob := context.WithCancelCause(t.Context())
	bob := run(bobs, "bob")
	other := run(t.Context(), "alice")
	before := inits(t, journal)
	stuck, cancel := context.WithCancelCause(t.Context())
	first := run(stuck, "alice")
	for pid := range inits(t, journal) {
		if !before[pid] { // stopped, it can do nothing for its end
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			defer unix.Kill(pid, unix.SIGKILL)
		}
	}
	cancel(job.ErrCancelled)
	if res := <-other; res.Outcome != job.Failed || !res.Cleanup.Proven {
		t.Errorf("the tenant's other job: %+v", res)
	}
	if res := <-first; res.Cleanup.Proven {
		t.Errorf("a stopped init was taken for gone: %+v", res)
	}
	select {
	case res := <-bob:
		t.Errorf("the other tenant's job ended: %+v", res)
	default:
	}
	endBob(job.ErrCancelled)
	<-bob
}

// inits are the processes in a journal.
func inits(t *testing.T, journal string) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir(journal)
	if err != nil {
		t.Fatal(err)
	}
	pids := make(map[int]bool)
	for _, e := range entries {
		var pid int
		var start uint64
		if _, err := fmt.Sscanf(e.Name(), "%d-%d", &pid, &start); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	return pids
}
