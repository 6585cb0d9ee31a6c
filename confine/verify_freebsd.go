package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"playground/reaper/bsdproc"
)

// A mark is by what a process of this worker is known.
type mark = kin

// A firstView is what is read of a worker before it closes itself.
type firstView struct {
	environ string
	mark    mark
}

func (w *Process) first(expect expectation) (firstView, error) {
	w.mark = mark{jid: expect.start.JID}
	info, ok, err := kinfoOf(w.PID)
	if err == nil && !ok {
		err = errors.New("there is no such process")
	}
	if err != nil {
		return firstView{}, err
	}
	w.mark.session, w.mark.start = w.PID, info.start
	environ, err := awaitExec(func() ([]byte, error) { return unix.SysctlRaw("kern.proc.env", w.PID) }, readyTime/2)
	return firstView{string(environ), w.mark}, err
}

// A look is at one worker. Each method returns what it saw, and an error that says what is wrong.
type look struct {
	pid    int
	expect expectation
	first  firstView
	kinfo  kinfo
}

// verify looks at every layer from outside, and puts the worker's own attempts beside. Both must hold.
func verify(pid int, expect expectation, first firstView, attempts []Attempt) Report {
	info, ok, err := kinfoOf(pid)
	if err == nil && !ok {
		err = errors.New("there is no such process")
	}
	l := look{pid, expect, first, info}
	known := func(check func() (string, error)) func() (string, error) {
		return func() (string, error) {
			if err != nil {
				return "", err
			}
			return check()
		}
	}
	checks := make(map[Layer]func() (string, error))
	for layer, check := range map[Layer]func() (string, error){
		User: l.user, Network: l.jail, Root: l.jail, IPC: l.jail, Host: l.jail, Privileges: l.privileges, Syscalls: l.capsicum, Limits: l.limits,
		Environment: l.environment, Descriptors: l.descriptors, Tracing: l.tracing, Lifetime: l.lifetime, Image: l.imageOf,
	} {
		checks[layer] = known(check)
	}
	return combine(checks, attempts, expect.orders.unverified)
}

func (l look) user() (string, error) {
	return fmt.Sprintf("uid %d", l.expect.start.UID), l.kinfo.checkUser(l.expect.start.UID, l.expect.start.GID)
}

// jail looks at the process's jail, and at what that jail allows.
func (l look) jail() (string, error) {
	if err := l.kinfo.checkJail(l.expect.start.JID); err != nil {
		return "", err
	}
	if l.expect.start.Jail == nil {
		return "", errors.New("nobody looks at its jail")
	}
	return l.expect.start.Jail()
}

func (l look) privileges() (string, error) {
	value, err := status(l.pid, noNewPrivsStatus)
	if err == nil && value != enable {
		err = errors.New("no_new_privs is not set")
	}
	return "no_new_privs", err
}

func (l look) capsicum() (string, error) {
	if !l.kinfo.capabilities {
		return "", errors.New("it is not in capability mode")
	}
	return "capability mode", nil
}

func (l look) limits() (string, error) {
	for _, want := range freebsdRlimits(l.expect.orders.Bounds) {
		b, err := unix.SysctlRaw("kern.proc.rlimit", l.pid, want.resource)
		if err != nil {
			return "", fmt.Errorf("cannot read limit %s: %w", want.name, err)
		}
		if soft, hard, ok := decodeRlimit(b); !ok || soft != want.value || hard != want.value {
			return "", fmt.Errorf("limit %s is %d %d, want %d", want.name, soft, hard, want.value)
		}
	}
	b := l.expect.orders.Bounds
	return fmt.Sprintf("%d MiB of memory, no fork, %d s of processor time", b.DataBytes>>20, b.CPUSeconds), nil
}

func (l look) environment() (string, error) {
	if l.first.environ != workerEnv+"\x00" {
		return "", fmt.Errorf("it has other variables than %s", workerEnv)
	}
	return workerEnv, nil
}

func (l look) descriptors() (string, error) {
	b, err := unix.SysctlRaw("kern.proc.filedesc", l.pid)
	if err != nil {
		return "", err
	}
	list, ok := decodeFiles(b)
	if !ok {
		return "", errors.New("the kernel's records of open files are not those of FreeBSD 13 to 15")
	}
	return "standard input, output and error, and the doors", checkFiles(list)
}

func (l look) tracing() (string, error) {
	value, err := status(l.pid, traceStatus)
	if err == nil && (value != -1 || l.kinfo.tracer != 0) {
		err = errors.New("it can be traced")
	}
	return "no tracing, no core file", err
}

func (l look) lifetime() (string, error) {
	if l.kinfo.parent != os.Getpid() || l.kinfo.pid != l.pid {
		return "", errors.New("it is not the daemon's child")
	}
	list, err := bsdproc.Processes()
	if err != nil {
		return "", err
	}
	all := l.first.mark.living(list)
	if len(all) != 1 || all[0].PID != l.pid {
		return "", fmt.Errorf("it is %d processes", len(all))
	}
	return "ends with the daemon", nil
}

func (l look) imageOf() (string, error) {
	path, err := unix.SysctlRaw("kern.proc.pathname", l.pid)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat(unix.ByteSliceToString(path), &st); err != nil {
		return "", err
	}
	if st.Dev != l.expect.image.Dev || st.Ino != l.expect.image.Ino {
		return "", errors.New("it runs another program")
	}
	return "the daemon's own", nil
}

// Left looks for processes of the worker, also for what one that was not verified may have started outside of its jail. It is no
// proof alone: see package keeper.
func (w *Process) Left() ([]Leftover, error) {
	mark := w.mark
	if w.Report.Err() == nil {
		mark.session = 0
	}
	list, err := bsdproc.Processes()
	return mark.living(list), err
}

// Started returns when the worker was started, as the kernel counts.
func (w *Process) Started() uint64 {
	k, _, err := kinfoOf(w.PID)
	if err != nil {
		return 0
	}
	return k.start
}

// End kills a process that is left, if it still is that process.
func (l Leftover) End() {
	if k, ok, err := kinfoOf(l.PID); err == nil && ok && k.start == l.Start {
		_ = unix.Kill(l.PID, unix.SIGKILL) // it may have ended
	}
}
