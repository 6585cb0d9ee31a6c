package leaf_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper/leaf"
	"playground/reaper/pool"
	"playground/reaper/supervisor"
	"playground/ring"
)

type output struct {
	mu sync.Mutex
	b  [3]bytes.Buffer
}

func (o *output) Write(s ring.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b[s].Write(p)
}

func (o *output) stdout() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b[ring.Stdout].String()
}

// A bench is a Runner over real supervisors.
type bench struct {
	*leaf.Runner
	host   *fakeHost
	att    jail.Attachment
	events string
}

func newBench(t *testing.T, mode string, deadline time.Duration) *bench {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{events: filepath.Join(t.TempDir(), "events")}
	b.host = &fakeHost{events: b.events}
	b.att = jail.Attachment{
		Sandbox: jail.Sandbox{Tenant: "alice", Name: "pg-alice", Isolation: jail.IsolationJail},
		Root:    "/", Cwd: "/", Limits: racct.Limits{Processes: 10},
	}
	p := pool.New([]string{exe, "job", mode, b.events}, 1, os.Stderr)
	b.Runner = leaf.New(func(context.Context, string) (jail.Attachment, error) { return b.att, nil }, p, b.host,
		leaf.Options{Grace: 300 * time.Millisecond, Deadline: deadline})
	t.Cleanup(b.Close)
	return b
}

func sh(command string) job.Spec {
	return job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte(command)}
}

func (b *bench) seen(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(b.events)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

func TestExit(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	spec := sh("cat; echo err >&2; exit 3")
	spec.Stdin = []byte("in\n")
	out := &output{}
	res, err := b.Run(t.Context(), spec, out)
	if err != nil || res.Outcome != job.Exited || res.ExitCode == nil || *res.ExitCode != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	if out.stdout() != "in\n" || out.b[ring.Stderr].String() != "err\n" {
		t.Errorf("output %q, %q", out.stdout(), out.b[ring.Stderr].String())
	}
	if !res.Cleanup.Proven || res.Cleanup.Survivors != 0 || res.Cleanup.Killed != 0 {
		t.Errorf("clean-up %+v", res.Cleanup)
	}
	// Nothing was left: no freeze was needed. Limits come first and go last.
	if got := b.seen(t); got != "limit create unlimit" {
		t.Errorf("order: %s", got)
	}
	if name := b.host.names[0]; !leaf.IsName("pg", name) {
		t.Errorf("name %q", name)
	}
}

func TestSignalled(t *testing.T) {
	res, err := newBench(t, "", 5*time.Second).Run(t.Context(), sh("kill -SEGV $$"), &output{})
	if err != nil || res.Outcome != job.Signalled || res.Signal != "SIGSEGV" || !res.Cleanup.Proven {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestLeftoversAreKilled(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	out := &output{}
	res, err := b.Run(t.Context(), sh("(setsid sleep 100 &) ; sleep 100 & echo $!; exit 0"), out)
	if err != nil || res.Outcome != job.Exited || !res.Cleanup.Proven || res.Cleanup.Killed != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	wantGone(t, out)
	if got := b.seen(t); got != "limit create wake freeze unlimit" {
		t.Errorf("order: %s", got)
	}
}

// wantGone checks that the pids that a command printed have ended.
func wantGone(t *testing.T, out *output) {
	t.Helper()
	for _, word := range strings.Fields(out.stdout()) {
		pid, err := strconv.Atoi(word)
		if err == nil && unix.Kill(pid, 0) == nil {
			t.Errorf("process %d lives", pid)
		}
	}
}

// cancelWhen cancels once the command has printed something.
func cancelWhen(t *testing.T, out *output, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for out.stdout() == "" {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(cause)
	}()
	return ctx
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		cause   error
		outcome job.Outcome
	}{{job.ErrCancelled, job.Cancelled}, {job.ErrTimedOut, job.TimedOut}} {
		b := newBench(t, "", 5*time.Second)
		out := &output{}
		// One that its own parent has waited for is not counted, so that "at least" is all that can be said.
		res, err := b.Run(cancelWhen(t, out, c.cause), sh("trap '' TERM; sleep 100 & sleep 101 & echo $$ $!; wait; sleep 102"), out)
		if err != nil || res.Outcome != c.outcome || !res.Cleanup.Proven || res.Cleanup.Killed < 2 {
			t.Errorf("%+v, %v", res, err)
		}
		wantGone(t, out)
	}
}

// A command that obeys SIGTERM ends by itself, and what it says then is kept.
func TestCancelIsGentleFirst(t *testing.T) {
	out := &output{}
	res, err := newBench(t, "", 5*time.Second).Run(cancelWhen(t, out, job.ErrCancelled),
		sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"), out)
	if err != nil || res.Outcome != job.Cancelled || !res.Cleanup.Proven || out.stdout() != "up\nbye\n" {
		t.Errorf("%+v, %v, %q", res, err, out.stdout())
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(job.ErrTimedOut)
	res, err := newBench(t, "", time.Second).Run(ctx, sh("true"), &output{})
	if err != nil || res.Outcome != job.TimedOut || !res.Cleanup.Proven {
		t.Errorf("%+v, %v", res, err)
	}
}

// The supervisor is killed: what it leaves comes to the daemon, which ends it and proves that.
func TestSupervisorLost(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	out := &output{}
	go func() {
		for !strings.HasSuffix(out.stdout(), "\n") {
			time.Sleep(5 * time.Millisecond)
		}
		pid, _ := strconv.Atoi(strings.Fields(out.stdout())[0])
		b.host.lost.Store(int32(pid))
		unix.Kill(pid, unix.SIGKILL)
	}()
	res, err := b.Run(t.Context(), sh("(setsid sleep 100 &); sleep 101 & echo $PPID $! $$; sleep 102"), out)
	if err != nil || res.Outcome != job.Failed || res.Error == "" {
		t.Errorf("%+v, %v", res, err)
	}
	if !res.Cleanup.Proven {
		t.Errorf("clean-up %+v", res.Cleanup)
	}
	wantGone(t, out)
	if got := b.seen(t); !strings.HasPrefix(got, "limit create wake freeze") || !strings.HasSuffix(got, "unlimit") {
		t.Errorf("order: %s", got)
	}
}

// The daemon goes away: the supervisor notices and cleans up by itself.
func TestDaemonLost(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(t.TempDir(), "events")
	p := pool.New([]string{exe, "job", "", events}, 0, os.Stderr)
	s, err := p.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	start := supervisor.Start{
		Argv: [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte("trap '' TERM; sleep 100 & echo $$ $!; sleep 101")}, Dir: []byte("/"),
		JID: 7, Jail: "pg-a.j", Limits: []string{"jail:pg-a.j:nthr:deny=5"}, Grace: time.Second, Deadline: 5 * time.Second,
	}
	if err := s.Start(start, []*os.File{w, w, w}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the supervisor does not end")
	}
	out := &output{}
	out.Write(ring.Stdout, buf[:n])
	wantGone(t, out)
	if data, _ := os.ReadFile(events); !strings.HasSuffix(string(data), "unlimit\n") {
		t.Errorf("events: %s", data)
	}
}

func TestRefusedStart(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	spec := sh("true")
	spec.Cwd = "/nowhere"
	if res, err := b.Run(t.Context(), spec, &output{}); !errors.Is(err, fault.Invalid) {
		t.Errorf("%+v, %v", res, err)
	}
	if got := b.seen(t); got != "limit create unlimit" {
		t.Errorf("order: %s", got)
	}
}

// A clean-up that runs meanwhile must know a leaf before it exists, and forget one that was never made.
func TestRunningCoversStarts(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	known := 0
	b.host.creating = func(name string) {
		if b.Running()[name] == "alice" {
			known++
		}
	}
	if _, err := b.Run(t.Context(), sh("true"), &output{}); err != nil {
		t.Error(err)
	}
	b.host.createErr = errors.New("no more jails")
	if _, err := b.Run(t.Context(), sh("true"), &output{}); err == nil {
		t.Error("a command ran without a jail")
	}
	if known != 2 || len(b.Running()) != 0 {
		t.Errorf("%d of 2 leaves were known while they were made; %v are left", known, b.Running())
	}
}

func TestTooLarge(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	if res, err := b.Run(t.Context(), sh(strings.Repeat("#", 300<<10)), &output{}); !errors.Is(err, fault.TooLarge) {
		t.Errorf("%+v, %v", res, err)
	}
	if got := b.seen(t); !strings.HasSuffix(got, "unlimit") {
		t.Errorf("limits stay: %s", got)
	}
}

// Nothing runs without limits, without a jail, or where the sandbox is none.
func TestNothingRunsUnjailed(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		change func(*bench)
		events string
	}{
		"no limits":    {func(b *bench) { b.host.limitErr = refused }, "limit"},
		"no jail":      {func(b *bench) { b.host.createErr = refused }, "limit create unlimit"},
		"no isolation": {func(b *bench) { b.att.Sandbox.Isolation = jail.IsolationNone }, ""},
		"no root":      {func(b *bench) { b.att.Root = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "", time.Second)
			b.host.event("")
			c.change(b)
			marker := filepath.Join(t.TempDir(), "ran")
			if res, err := b.Run(t.Context(), sh("touch "+marker), &output{}); err == nil {
				t.Errorf("got %+v", res)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("it ran")
			}
			if got := b.seen(t); got != c.events {
				t.Errorf("order: %q, want %q", got, c.events)
			}
		})
	}
}

func TestBrokenSupervisor(t *testing.T) {
	_, err := newBench(t, "broken", time.Second).Run(t.Context(), sh("true"), &output{})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "descriptor 9 is an open folder") {
		t.Errorf("got %v", err)
	}
}

// A proof that cannot be had in time is said to be lost, names the jail first, and the watch goes on.
func TestUnproven(t *testing.T) {
	b := newBench(t, "unremovable", 300*time.Millisecond)
	res, err := b.Run(t.Context(), sh("true"), &output{})
	if err != nil || res.Cleanup.Proven || res.Cleanup.Survivors == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	pids := res.Cleanup.Pids
	if len(pids) < 2 || pids[0].Pid != -7 {
		t.Fatalf("left: %v", pids)
	}
	unix.Kill(pids[1].Pid, unix.SIGKILL) // the supervisor: it would go on for ever
}

// A supervisor that hangs does not hold up the answer.
func TestSupervisorHangs(t *testing.T) {
	b := newBench(t, "", 100*time.Millisecond)
	out := &output{}
	var super int
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for !strings.HasSuffix(out.stdout(), "\n") {
			time.Sleep(5 * time.Millisecond)
		}
		super, _ = strconv.Atoi(strings.TrimSpace(out.stdout()))
		unix.Kill(super, unix.SIGSTOP)
		cancel(job.ErrCancelled)
	}()
	res, err := b.Run(ctx, sh("echo $PPID; sleep 100"), out)
	if err != nil || res.Cleanup.Proven || res.Outcome != job.Cancelled {
		t.Errorf("%+v, %v", res, err)
	}
	unix.Kill(super, unix.SIGCONT) // it goes on, and the watch over it ends
}

func TestMany(t *testing.T) {
	b := newBench(t, "", 10*time.Second)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			out := &output{}
			res, err := b.Run(t.Context(), sh("sleep 100 & echo "+strconv.Itoa(i)+"; exit "+strconv.Itoa(i)), out)
			if err != nil || res.ExitCode == nil || *res.ExitCode != i || !res.Cleanup.Proven || res.Cleanup.Killed != 1 {
				t.Errorf("%d: %+v, %v", i, res, err)
			}
			if out.stdout() != strconv.Itoa(i)+"\n" {
				t.Errorf("%d: %q", i, out.stdout())
			}
		})
	}
	wg.Wait()
	slices.Sort(b.host.names)
	if len(slices.Compact(b.host.names)) != 16 {
		t.Error("a leaf's name was used twice")
	}
}

// A warm supervisor that somebody killed is not given out.
func TestWarm(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New([]string{exe, "job", "", "/dev/null"}, 2, os.Stderr)
	first, err := p.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	<-first.Done()
	time.Sleep(300 * time.Millisecond)
	for _, d := range descendants(os.Getpid(), true) {
		if isSupervisor(d.pid) {
			unix.Kill(d.pid, unix.SIGKILL)
		}
	}
	time.Sleep(100 * time.Millisecond)
	s, err := p.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Error("a dead supervisor was given out")
	default:
	}
	s.Close()
	<-s.Done()
	p.Close()
	if _, err := p.Take(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("after Close: %v", err)
	}
}
