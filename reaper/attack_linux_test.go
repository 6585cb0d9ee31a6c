package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

// TestJobInheritsNoFiles: a folder that whoever started the daemon left open, and the supervisor's own program, must not be
// open in a job. By the one it would walk the host's files, by the other it could take the program's permissions away.
func TestJobInheritsNoFiles(t *testing.T) {
	leaked, err := unix.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	// The shell's own expansion has the folder open as 3.
	_, out := h.Sh(t, "alice", `for fd in /proc/self/fd/*; do echo "$fd $(readlink "$fd")"; done`)
	for _, line := range strings.Split(strings.TrimSpace(out.Stdout()), "\n") {
		number, target, _ := strings.Cut(strings.TrimPrefix(line, "/proc/self/fd/"), " ")
		if len(number) > 1 || number > "2" {
			if target != "" && target != "/proc/self/fd" && !strings.HasPrefix(target, "/proc/") {
				t.Errorf("descriptor %s of the job is %s", number, target)
			}
		}
	}
}

// TestTerminalsAreBounded: terminals come from one stock of the host, of which a tenant gets a part.
func TestTerminalsAreBounded(t *testing.T) {
	h := sandboxtest.New(t, func(j *jail.Options, _ *reaper.Options) { j.Limits.Pseudoterminals = 2 })
	h.Tenant(t, "alice", "")
	_, out := h.Sh(t, "alice", `perl -e 'while (open($f[$n], "+<", "/dev/ptmx")) { last if ++$n > 100 } print "$n\n"'`)
	if out.Stdout() != "16\n" {
		t.Errorf("terminals opened: %q, want 2 for each of 8 jobs %s", out.Stdout(), out.Stderr())
	}
}

// TestFullProcessLimit: a tenant whose processes are used up gets a refusal that says so. An init that could not have its
// threads would end with a page of stacks in the daemon's log, as often as the tenant likes.
func TestFullProcessLimit(t *testing.T) {
	h := sandboxtest.New(t, func(j *jail.Options, _ *reaper.Options) { j.Limits.Threads = 100 })
	h.Tenant(t, "alice", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	bomb, done := &sandboxtest.Output{}, make(chan struct{})
	go func() {
		defer close(done)
		h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte(
			`exec perl -e '$| = 1; while (1) { $p = fork; if (!defined $p) { print "full\n" if !$n++; select undef, undef, undef, 0.0002 } elsif (!$p) { sleep 100 } }'`)}, bomb)
	}()
	for end := time.Now().Add(20 * time.Second); bomb.Stdout() == "" && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for range 20 {
		res, err := h.Runner.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("true")}, &sandboxtest.Output{})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "process limit") {
			t.Fatalf("got %+v, %v", res, err)
		}
	}
	cancel(job.ErrCancelled)
	<-done
}

// TestBoundsOfWhatOutlivesProcesses: memory that no process holds cannot be got back by killing, so that it is bounded, and
// the job is what the kernel kills first when memory is short.
func TestBoundsOfWhatOutlivesProcesses(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	_, out := h.Sh(t, "alice", `cat /proc/self/oom_score_adj; (echo 0 > /proc/self/oom_score_adj) 2>/dev/null && echo escaped
cat /proc/1/oom_score_adj /proc/sys/kernel/shmall; perl -e 'shmget(0, 1 << 30, 0600 | 512) // print "$!\n"'`)
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	if want := "1000\n" + string(own) + "16384\nNo space left on device\n"; out.Stdout() != want {
		t.Errorf("got %q, want %q %s", out.Stdout(), want, out.Stderr())
	}
}

// TestDeepFolderIsRemoved: a tenant that nests folders deeper than a process has descriptors must not make its own storage
// undestroyable, nor jaild unable to start.
func TestDeepFolderIsRemoved(t *testing.T) {
	h := sandboxtest.New(t)
	sb := h.Tenant(t, "alice", "")
	res, out := h.Sh(t, "alice", `perl -e 'for (1..3000) { mkdir "d" and chdir "d" or die $! } mkdir "x"; mkdir "x/y"; chmod 0, "x"'`)
	if res.ExitCode == nil || *res.ExitCode != 0 {
		t.Fatalf("%+v %s", res, out.Stderr())
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	small := syscall.Rlimit{Cur: 1024, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small); err != nil {
		t.Fatal(err)
	}
	err := h.Destroy(t.Context(), "alice")
	if limitErr := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); limitErr != nil {
		t.Fatal(limitErr)
	}
	if err != nil {
		t.Errorf("cannot destroy: %.200s...", err.Error())
		exec.Command("chmod", "-R", "u+rwx", h.State).Run()
		exec.Command("rm", "-rf", filepath.Join(h.State, "sandboxes", ".gone-"+sb.ID)).Run()
	}
}

// TestStorageIsClosedToHostUsers: where tenants have uids of their own, the way to their storage is for them alone. Any local
// user can read its host path in /proc/PID/mountinfo of a sandbox's process, so that the path is no secret.
func TestStorageIsClosedToHostUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("tenants have uids of their own only where the daemon is root")
	}
	h := sandboxtest.New(t)
	sb := h.Tenant(t, "alice", "")
	h.Sh(t, "alice", "echo secret > /workspace/file")
	storage := filepath.Join(h.State, "sandboxes", sb.ID)
	for _, attack := range []string{"cat " + storage + "/workspace/file", "echo planted > " + storage + "/tmp/planted"} {
		cmd := exec.Command("/bin/sh", "-c", attack)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("user nobody of the host could: %s\n%s", attack, out)
		}
	}
}

// TestStarvedProof: one job of a tenant keeps another's processes from the processor, so that they cannot even die. That must
// cost the tenant its jobs, and not the host its proof. It loads a processor for some seconds.
func TestStarvedProof(t *testing.T) {
	if os.Getenv("PLAYGROUND_HEAVY") == "" {
		t.Skip("loads a processor: set PLAYGROUND_HEAVY=1")
	}
	h := sandboxtest.New(t)
	adversary(t, h, h.Tenant(t, "alice", ""))
	hogs, stopHogs := context.WithCancelCause(t.Context())
	victim, stopVictim := context.WithCancelCause(t.Context())
	defer stopVictim(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Runner.Run(hogs, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("./adversary hogs 1800")}, &sandboxtest.Output{})
	}()
	time.AfterFunc(4*time.Second, func() { stopVictim(job.ErrCancelled) })
	res, _ := h.Run(t, victim, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte(
		"exec ./adversary idle 4")})
	if !res.Cleanup.Proven {
		t.Errorf("the host's proof was lost: %+v", res.Cleanup)
	}
	stopHogs(job.ErrCancelled)
	<-done
	for end := time.Now().Add(10 * time.Second); !reaper.Gone(res.Cleanup.Pids) && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
}

// TestPassedPipeEnd: a write end of a job's output that another job of the tenant holds delays the end a little, and no more,
// and what that job writes later goes nowhere.
func TestPassedPipeEnd(t *testing.T) {
	h := sandboxtest.New(t)
	adversary(t, h, h.Tenant(t, "alice", ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Runner.Run(ctx, job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("exec ./adversary take /tmp/socket")}, &sandboxtest.Output{})
	}()
	res, out := h.Sh(t, "alice", "for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /tmp/socket ] && break; sleep 0.1; done; ./adversary give /tmp/socket")
	if res.Outcome != job.Exited || *res.ExitCode != 0 || !res.Cleanup.Proven || res.Cleanup.ElapsedMS > 1000 {
		t.Errorf("got %+v %s", res, out.Stderr())
	}
	before := out.Stdout()
	time.Sleep(200 * time.Millisecond)
	if out.Stdout() != before || !strings.HasPrefix(before, "mine\n") || !strings.Contains(before, "theirs\n") {
		t.Errorf("output %q, later %q", before, out.Stdout())
	}
	cancel(job.ErrCancelled)
	<-done
}

// TestNoDiskIsNotAFullDisk: a folder of the kernel's own has no room for anything, and no disk.
func TestNoDiskIsNotAFullDisk(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	res, out := h.Run(t, t.Context(), job.Spec{Tenant: "alice", Mode: job.Login, Cwd: "/proc", Command: []byte("pwd")})
	if len(res.Hints) != 0 || out.Stdout() != "/proc\n" {
		t.Errorf("got %+v %q %s", res, out.Stdout(), out.Stderr())
	}
}

// TestRefusedCommandsLeaveNothing: what cannot be started says so, and the sandbox goes on.
func TestRefusedCommandsLeaveNothing(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	for _, cwd := range []string{"/proc/1/root", "/proc/1/cwd", "/proc/self/fd/3", "/proc/self/fd/0", "gone", strings.Repeat("a/", 3000)} {
		res, err := h.Runner.Run(t.Context(), job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("pwd"), Cwd: cwd}, &sandboxtest.Output{})
		if err == nil {
			t.Errorf("cwd %.40q was entered: %+v", cwd, res)
		}
	}
	big := job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("true")}
	for range 4 {
		big.Args = append(big.Args, []byte(strings.Repeat("x", 64<<10)))
	}
	if _, err := h.Runner.Run(t.Context(), big, &sandboxtest.Output{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("arguments over the bound: %v", err)
	}
	if _, out := h.Sh(t, "alice", "echo fine"); out.Stdout() != "fine\n" {
		t.Error(fmt.Errorf("the sandbox suffered: %q", out.Stdout()))
	}
}

// TestSpoiltInitIsNotUsedAgain: a job may change its init's limits and share of processor time, as both have one uid. The
// next command must not inherit that.
func TestSpoiltInitIsNotUsedAgain(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", "")
	for range 4 {
		res, out := h.Sh(t, "alice", `perl -e 'for (glob "/proc/1/task/*") { m{(\d+)$}; $t = $1 + 0; setpriority(0, $t, 19) or die $! }'`)
		if res.ExitCode == nil || *res.ExitCode != 0 {
			t.Fatalf("the attack did not work: %s", out.Stderr())
		}
		if _, out := h.Sh(t, "alice", "nice"); out.Stdout() != "0\n" {
			t.Errorf("niceness of the next command: %s", out.Stdout())
		}
	}
}
