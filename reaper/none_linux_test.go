package reaper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

func withoutIsolation(j *jail.Options, _ *reaper.Options) {
	j.Isolation, j.UIDBase = jail.IsolationNone, 0
}

// TestWithoutIsolation: what a locked-down host gets in the demonstration still ends with the whole tree, by a subreaper.
func TestWithoutIsolation(t *testing.T) {
	h := sandboxtest.New(t, withoutIsolation)
	h.Tenant(t, "alice", "")
	res, out := h.Sh(t, "alice", "pwd; sleep 300 & setsid sleep 301 & exit 4")
	if res.Outcome != job.Exited || *res.ExitCode != 4 || res.Cleanup.Killed != 2 || !res.Cleanup.Proven {
		t.Errorf("got %+v", res)
	}
	if !strings.HasPrefix(out.Stdout(), h.State) {
		t.Errorf("working folder %q", out.Stdout())
	}
	endTree(t, h, job.ErrTimedOut, job.TimedOut)
}

// TestLostProof: a proof that does not come in time is told as lost, with the process to look for, and found later.
func TestLostProof(t *testing.T) {
	h := sandboxtest.New(t, func(_ *jail.Options, r *reaper.Options) { r.ProofDeadline = time.Nanosecond })
	h.Tenant(t, "alice", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(job.ErrCancelled) })
	res, _ := h.Run(t, ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("trap '' TERM; sleep 100; sleep 100")})
	if res.Outcome != job.Cancelled || res.Cleanup.Proven || res.Cleanup.Survivors == 0 || len(res.Cleanup.Pids) != 1 {
		t.Fatalf("got %+v", res)
	}
	if reaper.Gone(res.Cleanup.Pids) {
		t.Error("gone before it was killed")
	}
	h.Runner.Close()
}

func TestRefusals(t *testing.T) {
	h := sandboxtest.New(t)
	sb := h.Tenant(t, "alice", "")
	for name, spec := range map[string]job.Spec{
		"missing folder": {Tenant: "alice", Mode: job.Login, Command: []byte("true"), Cwd: "/missing"},
		"no folder":      {Tenant: "alice", Mode: job.Login, Command: []byte("true"), Cwd: "/etc/passwd"},
	} {
		if _, err := h.Runner.Run(t.Context(), spec, &sandboxtest.Output{}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), spec.Cwd) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Runner.Run(t.Context(), job.Spec{Tenant: "bob", Mode: job.Login, Command: []byte("true")}, &sandboxtest.Output{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown tenant: %v", err)
	}
	if _, err := h.Close(t.Context(), sb.Tenant); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Runner.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("true")}, &sandboxtest.Output{}); !errors.Is(err, fault.NotOpen) {
		t.Errorf("closed session: %v", err)
	}
}

// TestReopen: the runner finds the new holder of a sandbox that was closed and opened again.
func TestReopen(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	for range 3 {
		if _, out := h.Sh(t, "alice", "cat kept 2>/dev/null; echo kept >> kept"); out.Stderr() != "" {
			t.Error(out.Stderr())
		}
		if sb, err := h.Close(t.Context(), "alice"); err != nil || sb.Attached {
			t.Fatalf("%+v, %v", sb, err)
		}
		if _, err := h.Open(t.Context(), "alice", jail.OpenOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, out := h.Sh(t, "alice", "cat kept"); out.Stdout() != "kept\nkept\nkept\n" {
		t.Errorf("got %q", out.Stdout())
	}
}

// TestJobsShareLocalhostAndFiles: a server that one job runs answers the tenant's next command, and nobody else's.
func TestJobsShareLocalhostAndFiles(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	h.Tenant(t, "bob", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte(
			`perl -MIO::Socket -e '$s=IO::Socket::INET->new(LocalAddr=>"127.0.0.1:7777",Listen=>5,ReuseAddr=>1) or die; open(F,">/tmp/up"); close F; while($c=$s->accept){print $c "hello\n"; close $c}'`)}, &sandboxtest.Output{})
	}()
	client := `for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /tmp/up ] && break; sleep 0.1; done; perl -MIO::Socket -e '$s=IO::Socket::INET->new("127.0.0.1:7777") or die "refused\n"; print <$s>'`
	if _, out := h.Sh(t, "alice", client); out.Stdout() != "hello\n" {
		t.Errorf("alice got %q %q", out.Stdout(), out.Stderr())
	}
	if _, out := h.Sh(t, "bob", "touch /tmp/up; "+client); out.Stdout() != "" || !strings.Contains(out.Stderr(), "refused") {
		t.Errorf("bob got %q %q", out.Stdout(), out.Stderr())
	}
	cancel(job.ErrCancelled)
	<-done
}

// TestStdin: input arrives whole, is closed, and a command that does not read it is no trouble.
func TestStdin(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	big := []byte(strings.Repeat("0123456789abcdef", 200_000))
	if _, out := h.Run(t, t.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("cat"), Stdin: big}); out.Stdout() != string(big) {
		t.Errorf("%d of %d bytes came back", len(out.Stdout()), len(big))
	}
	if res, _ := h.Run(t, t.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("exit 3"), Stdin: big}); *res.ExitCode != 3 {
		t.Errorf("unread input: %+v", res)
	}
	if res, out := h.Sh(t, "alice", "read x || echo closed"); out.Stdout() != "closed\n" {
		t.Errorf("no input: %+v %q", res, out.Stdout())
	}
}
