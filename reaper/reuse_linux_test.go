package reaper_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

// TestInitIsUsedAgain: a job that left nothing gives its namespace to the next one, which finds nothing of it; a job that left a
// process, or was ended, takes its namespace with it.
func TestInitIsUsedAgain(t *testing.T) {
	h := sandboxtest.New(t, func(j *jail.Options, _ *reaper.Options) { j.Warm = 0 }) // only what was given back is ready
	h.Tenant(t, "alice", "")
	// What tells an init from every other: its namespace, whose number may be given again, and its start.
	init := func(command string) string {
		t.Helper()
		time.Sleep(30 * time.Millisecond) // its word that it is free must reach the holder, and starts differ by clock ticks
		res, out := h.Sh(t, "alice", "readlink /proc/self/ns/pid; cut -d' ' -f22 /proc/1/stat; "+command)
		if !res.Cleanup.Proven || out.Stdout() == "" {
			t.Errorf("%+v %q", res, out.Stderr())
		}
		return out.Stdout()
	}
	first := init("true")
	if again := init("(sleep 0.01; exit 1)"); again != first {
		t.Errorf("a clean end was not used again: %q, then %q", first, again)
	}
	// ps has ended when the next program starts, so that what it saw does not depend on how fast a pipe's other end starts.
	if _, out := h.Sh(t, "alice", `seen=$(ps -e -o comm=); printf '%s\n' "$seen" | sort -u | grep -c .`); strings.TrimSpace(out.Stdout()) != "3" { // init, sh, ps
		t.Errorf("the next job sees %s kinds of processes", out.Stdout())
	}
	left := init("setsid sleep 100 & exit 0")
	if after := init("true"); after == left {
		t.Error("the namespace of a job that left a process was used again")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &sandboxtest.Output{Told: func(stdout string) {
		if strings.Count(stdout, "\n") == 2 {
			cancel(job.ErrCancelled)
		}
	}}
	time.Sleep(30 * time.Millisecond)
	if _, err := h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("readlink /proc/self/ns/pid; cut -d' ' -f22 /proc/1/stat; sleep 100")}, out); err != nil {
		t.Fatal(err)
	}
	if after := init("true"); after == out.Stdout() {
		t.Error("the namespace of a cancelled job was used again")
	}
}

// TestManyJobs: inits that are used again do not pile up, and starts at once do not disturb each other.
func TestManyJobs(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	done := make(chan string)
	for range 8 {
		go func() {
			last := ""
			for range 40 {
				out := &sandboxtest.Output{}
				res, err := h.Runner.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("echo $$; exit 5")}, out)
				if err != nil || !res.Cleanup.Proven || res.ExitCode == nil || *res.ExitCode != 5 || out.Stdout() == "" {
					last = "a job went wrong"
				}
			}
			done <- last
		}()
	}
	for range 8 {
		if wrong := <-done; wrong != "" {
			t.Error(wrong)
		}
	}
	if sb, err := h.Close(t.Context(), "alice"); err != nil || sb.Attached {
		t.Errorf("after the last job: %+v, %v", sb, err)
	}
}
