package reaper_test

import (
	"context"
	"strings"
	"testing"

	"playground/internal/sandboxtest"
	"playground/job"
)

func TestExitAndOutput(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	res, out := h.Sh(t, "alice", "echo out; echo err >&2; id; pwd; env; ls -la / /dev /home /etc; cat /proc/self/mountinfo; cat /proc/self/status; ps aux; exit 3")
	t.Log(out.Stdout(), out.Stderr())
	if res.Outcome != job.Exited || res.ExitCode == nil || *res.ExitCode != 3 {
		t.Errorf("got %+v", res)
	}
	if !strings.HasPrefix(out.Stdout(), "out\n") || out.Stderr() != "err\n" {
		t.Errorf("got %q and %q", out.Stdout(), out.Stderr())
	}
	if !res.Cleanup.Proven || res.Cleanup.Survivors != 0 {
		t.Errorf("clean-up: %+v", res.Cleanup)
	}
}

func TestCancelKillsTheTree(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	endTree(t, h, job.ErrCancelled, job.Cancelled)
}

// endTree ends a job that is a tree of five processes, none of which heeds SIGTERM, as soon as all of them are there.
func endTree(t *testing.T, h *sandboxtest.Host, cause error, want job.Outcome) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &sandboxtest.Output{Told: func(stdout string) {
		if strings.Count(stdout, "up\n") == 2 {
			cancel(cause)
		}
	}}
	res, err := h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte(
		`trap '' TERM; (setsid sh -c "trap '' TERM; sleep 100 & sleep 101 & echo up; wait" &) ; sleep 102 & echo up; wait`)}, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %s", res, out.Stderr())
	if res.Outcome != want || !res.Cleanup.Proven || res.Cleanup.Killed != 5 {
		t.Errorf("got %+v", res)
	}
}
