package reaper_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(job.ErrCancelled) })
	res, out := h.Run(t, ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte(
		`trap '' TERM; (setsid sh -c "trap '' TERM; sleep 100 & sleep 101" &) ; sleep 102`)})
	t.Logf("%+v %s", res, out.Stderr())
	if res.Outcome != job.Cancelled || !res.Cleanup.Proven || res.Cleanup.Killed < 4 {
		t.Errorf("got %+v", res)
	}
}
