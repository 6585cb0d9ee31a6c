// Package sandboxtest makes real sandboxes for tests, as whichever user runs them: root, whose tenants have uids of their
// own, or an ordinary user. Where the host forbids namespaces the test is skipped and says so.
package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper"
	"playground/ring"
)

// A Host is a jail manager and a runner over it.
type Host struct {
	*jail.Manager
	Runner *reaper.Runner
	State  string
}

// Limits are those of the configuration's defaults, where they matter on Linux.
var Limits = racct.Limits{Processes: 256, Threads: 2048, OpenFiles: 16384, SwapBytes: 3 << 30, MemoryBytes: 5 << 29}

// programs are those that Program has built, by package.
var programs struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

// Program returns the path of a program of this module: from PLAYGROUND_BIN where it is there, else built now, without cgo and
// so without the race detector, which the limits of a sandbox would not let run.
func Program(tb testing.TB, pkg string) string {
	tb.Helper()
	if path := filepath.Join(os.Getenv("PLAYGROUND_BIN"), filepath.Base(pkg)); filepath.IsAbs(path) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	programs.Lock()
	defer programs.Unlock()
	if path := programs.paths[pkg]; path != "" {
		return path
	}
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "playground-test-bin-")
		if err != nil {
			tb.Fatal(err)
		}
		programs.dir, programs.paths = dir, make(map[string]string)
	}
	path := filepath.Join(programs.dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("cannot build %s: %v\n%s", pkg, err, out)
	}
	programs.paths[pkg] = path
	return path
}

// Main runs a package's tests and removes what Program built.
func Main(m *testing.M) int {
	defer func() { os.RemoveAll(programs.dir) }()
	return m.Run()
}

// New returns a Host in a temporary folder. Change alters its options.
func New(tb testing.TB, change ...func(*jail.Options, *reaper.Options)) *Host {
	tb.Helper()
	supervise := Program(tb, "playground/cmd/playground-supervise")
	state := tb.TempDir()
	jailOptions := jail.Options{
		Prefix: "pg", StateDir: state, Supervise: supervise, Isolation: jail.IsolationNamespaces, Network: jail.NetworkNone,
		HandleTTL: time.Hour, Lang: "C.UTF-8", Path: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", Limits: Limits, Warm: 2, Log: os.Stderr,
	}
	if os.Geteuid() == 0 {
		jailOptions.UIDBase = 1_000_000
		if err := os.Chmod(filepath.Dir(state), 0o711); err != nil { // mapped uids walk through it
			tb.Fatal(err)
		}
	}
	reaperOptions := reaper.Options{TermGrace: 200 * time.Millisecond, ProofDeadline: 15 * time.Second}
	for _, f := range change {
		f(&jailOptions, &reaperOptions)
	}
	manager, err := jail.NewManager(jailOptions)
	if err != nil {
		tb.Fatal(err)
	}
	h := &Host{Manager: manager, Runner: reaper.NewRunner(manager, reaperOptions), State: state}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		manager.Run(ctx)
	}()
	tb.Cleanup(func() {
		h.Runner.Close()
		cancel()
		<-stopped
		if err := jail.RemoveState(state); err != nil {
			tb.Error(err)
		}
	})
	return h
}

// Tenant makes and opens a tenant's sandbox.
func (h *Host) Tenant(tb testing.TB, name string, network jail.Network) jail.Sandbox {
	tb.Helper()
	if _, err := h.Provision(tb.Context(), jail.ProvisionSpec{Tenant: name, Network: network}); err != nil {
		tb.Fatal(err)
	}
	sb, err := h.Open(tb.Context(), name, jail.OpenOptions{})
	if err != nil {
		if strings.Contains(err.Error(), "does not allow the namespaces") && os.Getenv("PLAYGROUND_BIN") == "" {
			tb.Skipf("this host forbids what a sandbox is made of: %v", err)
		}
		tb.Fatal(err)
	}
	return sb
}

// Output is a job.Output that keeps everything.
type Output struct {
	// Told, if not nil, gets all of the standard output each time that there is more. What waits for a word of a command's, and not
	// for a while, holds on a slow machine too.
	Told func(stdout string)

	mu             sync.Mutex
	stdout, stderr strings.Builder
}

// Write implements job.Output.
func (o *Output) Write(s ring.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s != ring.Stdout {
		o.stderr.Write(p)
		return
	}
	o.stdout.Write(p)
	if o.Told != nil {
		o.Told(o.stdout.String())
	}
}

// Stdout returns what was written so far.
func (o *Output) Stdout() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stdout.String()
}

// Stderr returns what was written so far.
func (o *Output) Stderr() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stderr.String()
}

// Sh runs a command in the tenant's sandbox to its end.
func (h *Host) Sh(tb testing.TB, tenant, command string) (job.Result, *Output) {
	tb.Helper()
	return h.Run(tb, tb.Context(), job.Spec{Tenant: tenant, Command: []byte(command), Mode: job.Login})
}

// Run runs spec until its end or ctx's.
func (h *Host) Run(tb testing.TB, ctx context.Context, spec job.Spec) (job.Result, *Output) {
	tb.Helper()
	out := &Output{}
	res, err := h.Runner.Run(ctx, spec, out)
	if err != nil {
		tb.Fatalf("cannot run %q: %v", spec.Command, err)
	}
	return res, out
}
