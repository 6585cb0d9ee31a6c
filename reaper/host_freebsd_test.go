//go:build host

package reaper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper"
	"playground/reaper/bsdproc"
	"playground/reaper/supervisor"
	"playground/ring"
	"playground/seqpacket"
)

// These tests need root of a FreeBSD host that may be lost, with kern.racct.enable=1, and say so with
// PLAYGROUND_HOST_TESTS=1. The test binary is also the supervisor, the adversary in the jail, and the daemon that is killed.

// prefix is of what these tests make, so that nothing else is ever swept.
const prefix = "pghosttest"

const tenantJail = prefix + "-alice"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "job":
			conn, err := seqpacket.FromFD(3)
			if err == nil {
				err = supervisor.Run(conn)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "supervisor:", err)
				os.Exit(1)
			}
			os.Exit(0)
		case "adversary":
			runAdversary(os.Args[2])
			os.Exit(0)
		case "daemon":
			runDaemon()
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// jails is reaper.Jails for the one jail that the tests make.
type jails struct{}

func (jails) Attachment(context.Context, string) (jail.Attachment, error) {
	return jail.Attachment{
		Sandbox: jail.Sandbox{Tenant: "alice", Name: tenantJail, Isolation: jail.IsolationJail},
		Root:    "/", Cwd: "/", Env: []string{"PATH=/bin:/usr/bin"},
		Limits: racct.Limits{Processes: 256, Threads: 2048, OpenFiles: 16384, CPUPercent: 200, WriteBytesPerS: 100 << 20},
	}, nil
}

func (jails) Connect(context.Context, string) (*os.File, error) { return nil, errors.ErrUnsupported }

func newRunner() *reaper.Runner {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return reaper.NewRunner(jails{}, reaper.Options{
		TermGrace: 500 * time.Millisecond, ProofDeadline: 30 * time.Second, Supervise: exe, Warm: 2, Log: os.Stderr,
	})
}

// host makes the tenant's jail, and takes it and all that a failed test left away again.
func host(t *testing.T) *reaper.Runner {
	t.Helper()
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		t.Skip("set PLAYGROUND_HOST_TESTS=1 on a FreeBSD host that may be lost")
	}
	if err := racct.Enabled(); err != nil {
		t.Skip(err)
	}
	exec.Command("/usr/sbin/jail", "-r", tenantJail).Run() // of a test that was killed
	// No children.max: the host makes leaves all the same, and the tenant none.
	if out, err := exec.Command("/usr/sbin/jail", "-c", "name="+tenantJail, "path=/", "persist").CombinedOutput(); err != nil {
		t.Fatalf("jail: %v: %s", err, out)
	}
	r := newRunner()
	t.Cleanup(func() {
		r.Close()
		swept, err := reaper.Sweep(prefix, 10*time.Second)
		if err != nil || len(swept.Jails)+len(swept.Limits)+len(swept.Left) > 0 {
			t.Errorf("left behind: %+v, %v", swept, err)
		}
		if out, err := exec.Command("/usr/sbin/jail", "-r", tenantJail).CombinedOutput(); err != nil {
			t.Errorf("jail -r: %v: %s", err, out)
		}
	})
	return r
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(_ ring.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// ready waits until the adversary has built its tree, and returns the pid of its supervisor.
func (o *output) ready(timeout time.Duration) (int, bool) {
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, rest, ok := strings.Cut(o.text(), "ready "); ok && strings.Contains(rest, "\n") {
			pid, err := strconv.Atoi(strings.Fields(rest)[0])
			return pid, err == nil
		}
	}
	return 0, false
}

func adversary(name string) job.Spec {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("exec " + exe + " adversary " + name)}
}

// inJails lists the processes of all leaf jails, and of the tenant's jail, that still exist.
func inJails(t *testing.T) []bsdproc.Process {
	t.Helper()
	infos, err := jail.Jails()
	if err != nil {
		t.Fatal(err)
	}
	list, err := bsdproc.Processes()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(p bsdproc.Process) bool {
		return !slices.ContainsFunc(infos, func(i jail.Info) bool {
			return i.JID == p.Jail && (strings.HasPrefix(i.Name, tenantJail) || i.State == jail.Dying)
		})
	})
}

// Every adversary, alone and many at once, ends proven.
func TestHostAdversaries(t *testing.T) {
	r := host(t)
	for name := range adversaries {
		for _, jobs := range []int{1, 16} {
			t.Run(name+"/"+strconv.Itoa(jobs), func(t *testing.T) {
				if name == "treadmill" && jobs > 1 && version(t) < 1400000 {
					t.Skip("on FreeBSD 13 it would use up the host's process numbers")
				}
				var wg sync.WaitGroup
				for range jobs {
					wg.Go(func() { attack(t, r, name) })
				}
				wg.Wait()
				if left := inJails(t); len(left) > 0 {
					t.Errorf("left: %+v", left)
				}
			})
		}
	}
}

func version(t *testing.T) uint32 {
	t.Helper()
	v, err := unix.SysctlUint32("kern.osreldate")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func attack(t *testing.T, r *reaper.Runner, name string) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &output{}
	go func() {
		out.ready(20 * time.Second)
		cancel(job.ErrCancelled)
	}()
	res, err := r.Run(ctx, adversary(name), out)
	if err != nil || res.Outcome != job.Cancelled || !res.Cleanup.Proven || res.Cleanup.Killed == 0 {
		t.Errorf("%+v, %v, output %q", res, err, out.text())
	}
	t.Logf("%s: killed %d in %d ms", name, res.Cleanup.Killed, res.Cleanup.ElapsedMS)
}

func TestHostExit(t *testing.T) {
	r := host(t)
	out := &output{}
	res, err := r.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("echo hello; /sbin/sysctl -n security.jail.jailed; exit 3")}, out)
	if err != nil || res.ExitCode == nil || *res.ExitCode != 3 || !res.Cleanup.Proven || out.text() != "hello\n1\n" {
		t.Errorf("%+v, %v, %q", res, err, out.text())
	}
}

// Item 21: what a killed supervisor leaves comes to the daemon.
func TestHostSupervisorKilled(t *testing.T) {
	r := host(t)
	for _, name := range []string{"plain", "live-reapers", "zombie-reapers", "rfork", "traced", "forkbomb"} {
		t.Run(name, func(t *testing.T) {
			out := &output{}
			go func() {
				if pid, ok := out.ready(20 * time.Second); ok {
					unix.Kill(pid, unix.SIGKILL)
				}
			}()
			res, err := r.Run(t.Context(), adversary(name), out)
			if err != nil || res.Outcome != job.Failed || !res.Cleanup.Proven {
				t.Errorf("%+v, %v, output %q", res, err, out.text())
			}
			if left := inJails(t); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// runDaemon is a daemon with one job, to be killed.
func runDaemon() {
	out := &output{}
	go func() {
		out.ready(20 * time.Second)
		fmt.Println("running")
	}()
	newRunner().Run(context.Background(), adversary("plain"), out)
}

// Item 22: the supervisors of a killed daemon clean up by themselves.
func TestHostDaemonKilled(t *testing.T) {
	host(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "daemon")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := stdout.Read(make([]byte, 100)); n == 0 {
		t.Fatalf("the daemon said nothing: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for end := time.Now().Add(20 * time.Second); len(inJails(t)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left: %+v", inJails(t))
		}
	}
	// The clean-up of host checks that no jail and no limit is left either; the limits go last.
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		rules, err := racct.JailRules()
		if err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(rules, func(r racct.Rule) bool { return !strings.HasPrefix(r.Jail, tenantJail+".") })
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("limits are left: %v", left)
		}
	}
}

// A leaf that nobody looks after is found by name and goes with its limits, and so do limits whose leaf is gone.
func TestHostSweep(t *testing.T) {
	host(t)
	spec := jail.LeafSpec{Parent: tenantJail, Name: "j01arz3ndektsv4rrffq69g5fav", Root: "/"}
	gone := jail.LeafSpec{Parent: tenantJail, Name: "j01arz3ndektsv4rrffq69g5faw", Root: "/"}
	for _, name := range []string{spec.FullName(), gone.FullName()} {
		rules, err := racct.Rules(name, racct.Limits{Processes: 5})
		if err == nil {
			err = racct.Add(rules...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := jail.CreateLeaf(spec); err != nil {
		t.Fatal(err)
	}
	swept, err := reaper.Sweep(prefix, 5*time.Second)
	if err != nil || !slices.Equal(swept.Jails, []string{spec.FullName()}) || !slices.Equal(swept.Limits, []string{gone.FullName()}) {
		t.Errorf("%+v, %v", swept, err)
	}
	if rules, err := racct.RulesOf(spec.FullName()); err != nil || len(rules) > 0 {
		t.Errorf("limits of the leaf: %v, %v", rules, err)
	}
}

// Clean while a command runs takes what an earlier daemon left, and nothing of this one.
func TestHostClean(t *testing.T) {
	r := host(t)
	old := jail.LeafSpec{Parent: tenantJail, Name: "j01arz3ndektsv4rrffq69g5fav", Root: "/"}
	if _, err := jail.CreateLeaf(old); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &output{}
	ended := make(chan job.Result, 1)
	go func() {
		res, err := r.Run(ctx, adversary("plain"), out)
		if err != nil {
			t.Errorf("run: %v", err)
		}
		ended <- res
	}()
	if _, ok := out.ready(20 * time.Second); !ok {
		t.Errorf("the command does not run: %q", out.text())
	}
	swept, err := r.Clean(prefix, since, 5*time.Second)
	if err != nil || !slices.Equal(swept.Jails, []string{old.FullName()}) || len(swept.Left) > 0 {
		t.Errorf("clean: %+v, %v", swept, err)
	}
	if usage, err := r.Usage(); err != nil || len(usage["alice"]) == 0 {
		t.Errorf("the running command uses nothing: %v, %v", usage, err)
	}
	cancel(job.ErrCancelled)
	if res := <-ended; res.Outcome != job.Cancelled || !res.Cleanup.Proven {
		t.Errorf("the running command was disturbed: %+v", res)
	}
}

// Item 4: a daemon that has folders open all the time starts commands all the same, since its supervisors have none.
func TestHostFoldersOpenInDaemon(t *testing.T) {
	r := host(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					os.ReadDir("/usr/bin")
				}
			}
		})
	}
	for range 200 {
		res, err := r.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("true")}, &output{})
		if err != nil || res.ExitCode == nil || *res.ExitCode != 0 || !res.Cleanup.Proven {
			t.Errorf("%+v, %v", res, err)
			break
		}
	}
	close(stop)
	wg.Wait()
}

// A supervisor that was given a folder says which descriptor it is and does not serve.
func TestHostOpenFolder(t *testing.T) {
	host(t)
	folder, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "job")
	cmd.ExtraFiles = []*os.File{theirs.File(), folder}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	data, _, err := ours.Recv(make([]byte, 8192))
	if err != nil {
		t.Fatal(err)
	}
	var ready supervisor.Ready
	if err := json.Unmarshal(data, &ready); err != nil || !strings.Contains(ready.Error, "descriptor 4 is an open folder") {
		t.Errorf("got %s, %v", data, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
}

// The largest message arrives whole, whatever the version's seqpacket sockets are like.
func TestHostLargestMessage(t *testing.T) {
	host(t)
	a, b, err := seqpacket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	want := bytes.Repeat([]byte("x"), seqpacket.MaxData)
	for range 3 {
		if err := a.Send(want); err != nil {
			t.Fatal(err)
		}
		got, _, err := b.Recv(make([]byte, seqpacket.MaxData))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

// BenchmarkHostRun is a command from start to proof.
func BenchmarkHostRun(b *testing.B) {
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		b.Skip("set PLAYGROUND_HOST_TESTS=1")
	}
	if out, err := exec.Command("/usr/sbin/jail", "-c", "name="+tenantJail, "path=/", "persist").CombinedOutput(); err != nil {
		b.Fatalf("jail: %v: %s", err, out)
	}
	defer exec.Command("/usr/sbin/jail", "-r", tenantJail).Run()
	r := newRunner()
	defer r.Close()
	for b.Loop() {
		if res, err := r.Run(b.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("true")}, &output{}); err != nil || !res.Cleanup.Proven {
			b.Fatalf("%+v, %v", res, err)
		}
	}
}
