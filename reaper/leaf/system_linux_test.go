package leaf_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/jail"
	"playground/racct"
	"playground/reaper/bsdproc"
	"playground/reaper/proof"
	"playground/reaper/supervisor"
	"playground/seqpacket"
)

// On Linux a subreaper (prctl(2)) is near enough to a FreeBSD reaper to run real commands under real supervisors: the test
// binary is both the daemon and, called as "job", the supervisor. There is no jail; removing it kills what it would hold.

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "job" {
		os.Exit(superviseOne(os.Args[2], os.Args[3]))
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// superviseOne is the supervisor's process. Mode is a fault to have; events go to a file.
func superviseOne(mode, events string) int {
	conn, err := seqpacket.FromFD(3)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err != nil {
		return 1
	}
	ready := `{}`
	if mode == "broken" {
		ready = `{"error":"descriptor 9 is an open folder"}`
	}
	if conn.Send([]byte(ready)) != nil {
		return 1
	}
	sys := &linuxSystem{children: make(chan os.Signal, 1), mode: mode, events: events}
	signal.Notify(sys.children, unix.SIGCHLD)
	if supervisor.Serve(conn, sys) != nil {
		return 1
	}
	return 0
}

type linuxSystem struct {
	children     chan os.Signal
	mode, events string
}

func (s *linuxSystem) Start(start supervisor.Start, stdio []*os.File) (int, error) {
	argv := make([]string, len(start.Argv))
	for i, a := range start.Argv {
		argv[i] = string(a)
	}
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: string(start.Dir), Env: []string{"PATH=/usr/bin:/bin"}, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
	})
}

func (s *linuxSystem) Kernel(start supervisor.Start) (proof.Kernel, error) {
	if start.JID != 7 || len(start.Limits) == 0 || !strings.HasPrefix(start.Limits[0], "jail:"+start.Jail+":") {
		return nil, errors.New("malformed start")
	}
	return &linuxKernel{self: os.Getpid(), mode: s.mode, events: s.events}, nil
}

func (s *linuxSystem) Terminate() {
	for _, p := range descendants(os.Getpid(), false) {
		unix.Kill(p.pid, unix.SIGTERM)
	}
}
func (s *linuxSystem) Children() <-chan os.Signal { return s.children }
func (s *linuxSystem) Reconcile(supervisor.Start) {}
func (s *linuxSystem) Started(pid int) uint64     { return uint64(pid) }

type process struct{ pid, parent int }

// descendants walks the process table. Those below another supervisor are on its list, not on the daemon's.
func descendants(self int, isDaemon bool) []process {
	parent := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		parent[pid], _ = strconv.Atoi(fields[1])
	}
	var list []process
	for pid := range parent {
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == self {
				list = append(list, process{pid, parent[pid]})
				break
			}
			if isDaemon && isSupervisor(up) {
				break
			}
		}
	}
	return list
}

func isSupervisor(pid int) bool {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.Contains(string(line), "\x00job\x00")
}

// A linuxKernel is proof.Kernel for a supervisor, or with a branch for the daemon after it.
type linuxKernel struct {
	self, branch int
	mode, events string
	removed      bool
}

func (k *linuxKernel) list() []process {
	list := descendants(k.self, k.branch != 0)
	if k.branch != 0 {
		list = slices.DeleteFunc(list, func(p process) bool { return isSupervisor(p.pid) })
	}
	return list
}

func (k *linuxKernel) Status() (bsdproc.Status, error) {
	st := bsdproc.Status{Flags: bsdproc.StatusOwned, Pid: -1, Reaper: int32(k.self)}
	for _, p := range k.list() {
		st.Descendants++
		st.Pid = int32(p.pid)
		if p.parent == k.self {
			st.Children++
		}
	}
	return st, nil
}

func (k *linuxKernel) Pids(int) ([]bsdproc.PidInfo, error) {
	var infos []bsdproc.PidInfo
	for _, p := range k.list() {
		info := bsdproc.PidInfo{Pid: int32(p.pid), Subtree: int32(k.branch), Flags: bsdproc.PidValid}
		if p.parent == k.self {
			info.Flags |= bsdproc.PidChild
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (k *linuxKernel) Kill(int) error {
	for _, p := range k.list() {
		unix.Kill(p.pid, unix.SIGKILL)
	}
	return nil
}

func (k *linuxKernel) Wait(pid int, other bool) (int, syscall.WaitStatus, error) {
	if other {
		return 0, 0, proof.ErrNoChild
	}
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.ECHILD) {
		err = proof.ErrNoChild
	}
	return got, status, err
}

func (k *linuxKernel) RemoveJail() error {
	k.removed = true
	return k.Kill(0)
}

func (k *linuxKernel) JailState() (bsdproc.JailState, error) {
	switch {
	case k.mode == "unremovable" || !k.removed:
		return bsdproc.JailAlive, nil
	case len(k.list()) > 0:
		return bsdproc.JailDying, nil
	}
	return bsdproc.JailGone, nil
}

func (k *linuxKernel) JailProcesses() (int, error) { return len(k.list()), nil }
func (k *linuxKernel) Freeze() error               { return k.event("freeze") }
func (k *linuxKernel) Wake() error                 { return k.event("wake") }
func (k *linuxKernel) Unlimit() error              { return k.event("unlimit") }
func (k *linuxKernel) Now() time.Time              { return time.Now() }
func (k *linuxKernel) Pause(d time.Duration)       { time.Sleep(d) }

func (k *linuxKernel) event(what string) error {
	f, err := os.OpenFile(k.events, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(what + "\n")
	return errors.Join(err, f.Close())
}

// A fakeHost is leaf.Host; it keeps what it was asked, with what supervisors did, in one file.
type fakeHost struct {
	events              string
	limitErr, createErr error
	mu                  sync.Mutex // guards names
	names               []string
	lost                atomic.Int32 // the supervisor that was killed: Linux does not name branches
	creating            func(name string)
}

func (h *fakeHost) event(what string) {
	(&linuxKernel{events: h.events}).event(what)
}

func (h *fakeHost) Limit(name string, l racct.Limits) ([]string, error) {
	h.event("limit")
	if h.limitErr != nil {
		return nil, h.limitErr
	}
	h.mu.Lock()
	h.names = append(h.names, name)
	h.mu.Unlock()
	rules, err := racct.Rules(name, l)
	if err != nil {
		return nil, err
	}
	return []string{rules[0].String()}, nil
}

func (h *fakeHost) Unlimit(string) error { h.event("unlimit"); return nil }

func (h *fakeHost) CreateLeaf(l jail.LeafSpec) (int, error) {
	h.event("create")
	if h.creating != nil {
		h.creating(l.FullName())
	}
	return 7, h.createErr
}

func (h *fakeHost) Kernel(string, int) (proof.Kernel, error) {
	return &linuxKernel{self: os.Getpid(), branch: max(1, int(h.lost.Load())), events: h.events}, nil
}

func (h *fakeHost) Started(pid int) uint64 { return uint64(pid) }
func (h *fakeHost) DiskFull(string) bool   { return false }
