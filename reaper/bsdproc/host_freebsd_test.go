//go:build host

package bsdproc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func host(t *testing.T) {
	t.Helper()
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		t.Skip("set PLAYGROUND_HOST_TESTS=1 on a FreeBSD host that may be lost")
	}
}

// Nonsense is refused as the manual says, which shows that the numbers are those of this kernel.
func TestHostNonsense(t *testing.T) {
	host(t)
	if err := procctl(0, 9999, nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an unknown command: %v", err)
	}
	var b [8]byte
	if err := procctl(0, procReapAcquire, unsafe.Pointer(&b)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("acquire with an argument: %v", err)
	}
}

// An empty reaper, one with a child, and one with a child that has ended but was not waited for.
func TestHostReaper(t *testing.T) {
	host(t)
	if err := Acquire(); err != nil {
		t.Fatal(err)
	}
	want := func(children, descendants uint32) Status {
		t.Helper()
		st, err := StatusOf(0)
		if err != nil || !st.Owned() || st.Children != children || st.Descendants != descendants {
			t.Errorf("got %+v, %v", st, err)
		}
		return st
	}
	if st := want(0, 0); st.Pid != -1 {
		t.Errorf("pid of an empty list: %d", st.Pid)
	}
	cmd := exec.Command("/bin/sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	want(1, 1)
	list, err := Pids(64)
	if err != nil || len(list) != 1 || int(list[0].Pid) != pid || int(list[0].Subtree) != pid || list[0].Flags&PidChild == 0 {
		t.Errorf("list %+v, %v", list, err)
	}
	p, ok, err := ProcessOf(pid)
	if err != nil || !ok || p.Parent != os.Getpid() || p.Command != "sleep" || p.Jail != 0 {
		t.Errorf("process %+v, %v, %v", p, ok, err)
	}
	if age := time.Since(time.UnixMicro(int64(p.Start))); age < 0 || age > time.Minute {
		t.Errorf("started %v ago", age)
	}
	if err := Kill(unix.SIGKILL, pid); err != nil {
		t.Error(err)
	}
	for range 100 {
		if p, _, _ := ProcessOf(pid); p.State == Zombie {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	want(1, 1) // the dead count until they are waited for
	if got, status, err := WaitNow(pid, false); got != pid || err != nil || status.Signal() != syscall.SIGKILL {
		t.Errorf("wait: %d, %v, %v", got, status, err)
	}
	want(0, 0)
	if err := Kill(unix.SIGKILL, 0); err != nil {
		t.Errorf("nothing to kill: %v", err)
	}
}

// Item 15: a child with another signal than SIGCHLD is there, and plain waiting says that there is none.
func TestHostLinuxClone(t *testing.T) {
	host(t)
	if err := Acquire(); err != nil {
		t.Fatal(err)
	}
	const rfProc, rfFDG, rfSignal, shift = 1 << 4, 1 << 2, 1 << 19, 20
	pid, _, errno := syscall.RawSyscall(syscall.SYS_RFORK, rfProc|rfFDG|rfSignal|uintptr(unix.SIGUSR1)<<shift, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if pid == 0 {
		for {
			syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if st, err := StatusOf(0); err != nil || st.Children != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	if got, _, err := WaitNow(int(pid), false); !errors.Is(err, unix.ECHILD) {
		t.Errorf("plain wait: %d, %v", got, err)
	}
	if got, _, err := WaitNow(int(pid), true); got != int(pid) || err != nil {
		t.Errorf("wait with WLINUXCLONE: %d, %v", got, err)
	}
}

func TestHostProcesses(t *testing.T) {
	host(t)
	list, err := Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Pid == os.Getpid() && p.Parent == os.Getppid() {
			return
		}
	}
	t.Errorf("this process is not among %d", len(list))
}

func TestHostDescriptors(t *testing.T) {
	host(t)
	f, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begun := time.Now()
	seen := map[int]bool{}
	if err := OpenDescriptors(func(fd int) error { seen[fd] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if !seen[0] || !seen[1] || !seen[2] || !seen[int(f.Fd())] || seen[1000] {
		t.Errorf("seen %v", seen)
	}
	t.Logf("looked in %v", time.Since(begun))
}

func TestHostJail(t *testing.T) {
	host(t)
	const name = "pghosttest-bsdproc"
	out, err := exec.Command("/usr/sbin/jail", "-i", "-c", "name="+name, "path=/", "persist").Output()
	if err != nil {
		t.Fatal(err)
	}
	jid := 0
	for _, c := range out {
		if c >= '0' && c <= '9' {
			jid = 10*jid + int(c-'0')
		}
	}
	if state, got, err := JailOf(jid); state != JailAlive || got != name || err != nil {
		t.Errorf("alive: %v, %q, %v", state, got, err)
	}
	if err := RemoveJail(jid); err != nil {
		t.Error(err)
	}
	for range 100 {
		if state, _, _ := JailOf(jid); state == JailGone {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if state, _, err := JailOf(jid); state != JailGone || err != nil {
		t.Errorf("removed: %v, %v", state, err)
	}
	if err := RemoveJail(jid); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if err := RemoveJail(0); err == nil {
		t.Error("jail 0 is the host")
	}
}
