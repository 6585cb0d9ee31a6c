package reaper_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

// adversary puts the attacking program into a tenant's workspace.
func adversary(t *testing.T, h *sandboxtest.Host, sb jail.Sandbox) {
	t.Helper()
	program, err := os.ReadFile(sandboxtest.Program(t, "playground/internal/adversary"))
	if err != nil {
		t.Fatal(err)
	}
	res, out := h.Run(t, t.Context(), job.Spec{Tenant: sb.Tenant, Mode: job.Clean, Stdin: program,
		Command: []byte("cat > /workspace/adversary && chmod +x /workspace/adversary")})
	if res.ExitCode == nil || *res.ExitCode != 0 {
		t.Fatalf("cannot place the adversary: %+v %s", res, out.Stderr())
	}
}

// TestHostileTenant runs every attack of the adversary; not one may work.
func TestHostileTenant(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	name := fmt.Sprintf("playground-test-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()

	h := sandboxtest.New(t)
	bob := h.Tenant(t, "bob", jail.NetworkNone)
	h.Sh(t, "bob", "echo secret > /workspace/secret; echo secret > /tmp/secret; echo secret > ~/secret")
	alice := h.Tenant(t, "alice", jail.NetworkNone)
	adversary(t, h, alice)

	storage := filepath.Join(h.State, "sandboxes", bob.ID)
	hostPaths := []string{h.State, storage, storage + "/workspace/secret", "/workspace/secret", "/tmp/secret", "/home/bob", "/root",
		"/var/run", "/sys", "/boot", "/dev/sda", "/dev/vda", "/dev/mem", "/etc/shadow", "/proc/1/root" + h.State}
	res, out := h.Sh(t, "alice", fmt.Sprintf("HOST_TCP=%s HOST_ABSTRACT=%s ./adversary %s", tcp.Addr(), name, strings.Join(hostPaths, " ")))
	if res.Outcome != job.Exited || *res.ExitCode != 0 {
		t.Fatalf("the adversary did not end well: %+v\n%s%s", res, out.Stdout(), out.Stderr())
	}
	lines := strings.Split(strings.TrimSpace(out.Stdout()), "\n")
	if len(lines) < 80 {
		t.Errorf("only %d attacks were tried", len(lines))
	}
	for _, line := range lines {
		if strings.HasSuffix(line, "\tok") {
			t.Errorf("attack worked: %s", line)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log(out.Stdout())
	}
}

// TestHostNetwork shows that the network is the only thing that a tenant's setting opens, and that the attempts above
// can succeed at all.
func TestHostNetwork(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	h := sandboxtest.New(t)
	adversary(t, h, h.Tenant(t, "alice", jail.NetworkHost))
	_, out := h.Sh(t, "alice", fmt.Sprintf("HOST_TCP=%s ./adversary /etc/passwd", tcp.Addr()))
	for _, want := range []string{"host TCP\tok", "open /etc/passwd\tok"} {
		if !strings.Contains(out.Stdout(), want) {
			t.Errorf("missing %q", want)
		}
	}
	for _, line := range strings.Split(out.Stdout(), "\n") {
		if strings.HasSuffix(line, "\tok") && !strings.HasPrefix(line, "host TCP") && !strings.HasPrefix(line, "open ") && !strings.HasPrefix(line, "UDP") {
			t.Errorf("attack worked: %s", line)
		}
	}
}

// TestInitSurvivesSignals: a job that sends every signal to its init still ends with a proof and its own exit status.
func TestInitSurvivesSignals(t *testing.T) {
	h := sandboxtest.New(t)
	adversary(t, h, h.Tenant(t, "alice", ""))
	res, out := h.Sh(t, "alice", "./adversary signals; sleep 100 & exit 7")
	if res.Outcome != job.Exited || *res.ExitCode != 7 || len(out.Stdout()) < len("sent to 1\n") || out.Stdout() == "sent to 1\n" || !res.Cleanup.Proven || res.Cleanup.Killed != 1 {
		t.Errorf("got %+v %s", res, out.Stdout())
	}
}

// TestForkBomb: a tenant's fork bomb reaches its own limit, ends with its job, and neither the supervisor nor another tenant
// suffers.
func TestForkBomb(t *testing.T) {
	h := sandboxtest.New(t, func(j *jail.Options, _ *reaper.Options) { j.Limits.Threads = 200 })
	h.Tenant(t, "alice", "")
	h.Tenant(t, "bob", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	time.AfterFunc(1500*time.Millisecond, func() { cancel(job.ErrTimedOut) })
	done := make(chan job.Result, 1)
	go func() {
		res, err := h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("bomb() { bomb | bomb & bomb; }; bomb; sleep 100")}, &sandboxtest.Output{})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	time.Sleep(500 * time.Millisecond)
	if res, out := h.Sh(t, "bob", "echo fine"); out.Stdout() != "fine\n" {
		t.Errorf("bob suffered: %+v", res)
	}
	res := <-done
	if !res.Cleanup.Proven {
		t.Errorf("alice's bomb: %+v", res)
	}
	if res, out := h.Sh(t, "alice", "echo again"); out.Stdout() != "again\n" {
		t.Errorf("alice could not go on: %+v", res)
	}
}
