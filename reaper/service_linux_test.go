package reaper_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"playground/internal/sandboxtest"
	"playground/job"
)

// serve runs a service until stop is called, which returns its end.
func serve(t *testing.T, h *sandboxtest.Host, spec job.Spec) (out *sandboxtest.Output, stop func() job.Result) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	out = &sandboxtest.Output{}
	ended := make(chan job.Result, 1)
	go func() {
		res, err := h.Runner.Run(ctx, spec, out)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	return out, func() job.Result {
		cancel(job.ErrCancelled)
		return <-ended
	}
}

func program(argv ...string) job.Spec {
	spec := job.Spec{Tenant: "alice", Mode: job.Program, Cwd: "/", Service: "svc-1", Env: [][]byte{[]byte("PATH=/usr/bin:/bin"), []byte("X=a b")}}
	for _, arg := range argv {
		spec.Argv = append(spec.Argv, []byte(arg))
	}
	return spec
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestService: a program runs with exactly its words and environment, is seen with what it uses, and ends with all it started.
func TestService(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	out, stop := serve(t, h, program("/bin/sh", "-c", `env; echo "$0 $1"; (setsid sh -c 'trap "" TERM; sleep 100 & sleep 100' &); sleep 100`, "a  b", "$HOME"))
	until(t, "its output", func() bool { return strings.Contains(out.Stdout(), "$HOME\n") })
	got := strings.ReplaceAll(out.Stdout(), "PWD=/\n", "") // the shell's own
	if got != "PATH=/usr/bin:/bin\nX=a b\na  b $HOME\n" && got != "X=a b\nPATH=/usr/bin:/bin\na  b $HOME\n" {
		t.Errorf("got %q", out.Stdout())
	}
	until(t, "all its processes", func() bool {
		v, ok := h.Runner.Vitals()["svc-1"]
		return ok && v.Pid > 0 && v.Usage["maxproc"] == 5 && v.Usage["nthr"] == 5 && v.Usage["memoryuse"] > 0
	})
	res := stop()
	if res.Outcome != job.Cancelled || !res.Cleanup.Proven || res.Cleanup.Survivors != 0 || res.Cleanup.Killed < 4 {
		t.Errorf("got %+v", res)
	}
	if len(h.Runner.Vitals()) != 0 {
		t.Error("an ended service has vitals")
	}
}

// TestDaemonizingService: a program that puts itself into the background has ended, and what it left goes with it.
func TestDaemonizingService(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	out := &sandboxtest.Output{}
	res, err := h.Runner.Run(t.Context(), program("/bin/sh", "-c", "setsid sleep 100 </dev/null >/dev/null 2>&1 & exit 0"), out)
	if err != nil || res.Outcome != job.Exited || !res.Cleanup.Proven || res.Cleanup.Killed != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestServiceRefused: a program that is not there is a refusal with its name.
func TestServiceRefused(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	if _, err := h.Runner.Run(t.Context(), program("/no/such/program"), &sandboxtest.Output{}); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
}
