package bsdproc

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands and values of procctl(2), which neither syscall nor x/sys have.
const (
	pPid            = 0 // P_PID
	procReapAcquire = 2
	procReapStatus  = 4
	procReapGetPids = 5
	procReapKill    = 6
	procTraceCtl    = 7
	traceDisable    = 2 // until the next exec: what is started from here may be traced by its own
)

// LinuxClone is WLINUXCLONE: wait for children that do not send SIGCHLD, and only for those (kern_exit.c proc_to_reap).
const LinuxClone = 0x80000000

// Acquire makes this process the reaper of all it starts from now on, and has the kernel confirm it. Children that it has
// already are not taken over, so it must have none. Being one already is no error.
func Acquire() error {
	if err := procctl(0, procReapAcquire, nil); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("cannot become a reaper: %w", err)
	}
	st, err := StatusOf(0)
	if err != nil {
		return err
	}
	if !st.Owned() || int(st.Reaper) != unix.Getpid() {
		return errors.New("cannot become a reaper: the kernel does not confirm it")
	}
	return nil
}

// StatusOf returns the status of a process's own list, or of its reaper's if it is none. 0 is this process.
func StatusOf(pid int) (Status, error) {
	b := make([]byte, StatusSize)
	if err := procctl(pid, procReapStatus, unsafe.Pointer(unsafe.SliceData(b))); err != nil {
		return Status{}, fmt.Errorf("cannot get reaper status: %w", err)
	}
	return DecodeStatus(b), nil
}

// Pids lists this reaper's list, at most capacity entries. Under concurrent forks entries may be missing: an empty answer
// proves nothing.
func Pids(capacity int) ([]PidInfo, error) {
	b := make([]byte, capacity*PidInfoSize)
	// On the heap: the kernel gets the address inside a structure, where a moving stack would not be followed.
	arg := &pids{count: uint32(capacity), list: unsafe.SliceData(b)}
	err := procctl(0, procReapGetPids, unsafe.Pointer(arg))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, fmt.Errorf("cannot list descendants: %w", err)
	}
	return DecodePids(b), nil
}

// Kill signals all of this reaper's list and, through living nested reapers, below. A subtree above 0 bounds that to one
// child's branch. Nothing to signal is no error.
func Kill(signal syscall.Signal, subtree int) error {
	var flags uint32
	if subtree > 0 {
		flags = KillSubtree
	}
	b := EncodeKill(int(signal), flags, int32(subtree))
	err := procctl(0, procReapKill, unsafe.Pointer(unsafe.SliceData(b)))
	if err != nil && !errors.Is(err, unix.ESRCH) {
		_, failed := DecodeKill(b)
		return fmt.Errorf("cannot signal process %d: %w", failed, err)
	}
	return nil
}

// Untraceable closes this process to debuggers and core files until its next exec.
func Untraceable() error {
	value := int32(traceDisable)
	if err := procctl(0, procTraceCtl, unsafe.Pointer(&value)); err != nil {
		return fmt.Errorf("cannot refuse to be traced: %w", err)
	}
	return nil
}

// procctl calls procctl(2). The id is 64 bits wide, one register on the platforms that are built.
func procctl(pid, command int, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_PROCCTL, pPid, uintptr(pid), uintptr(command), uintptr(arg), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Processes lists the processes of the host. The kernel walks its table piece by piece and leaves out those that are being
// created, so that one list without a process is no proof.
func Processes() ([]Process, error) { return processes("kern.proc.proc") }

// ProcessOf returns one process; ok is false when there is none.
func ProcessOf(pid int) (p Process, ok bool, err error) {
	list, err := processes("kern.proc.pid", pid)
	if errors.Is(err, unix.ESRCH) || err == nil && len(list) == 0 {
		return Process{}, false, nil
	}
	if err != nil {
		return Process{}, false, err
	}
	return list[0], true, nil
}

func processes(name string, args ...int) ([]Process, error) {
	const attempts = 8 // the table may grow between asking for its size and reading it
	for i := 0; ; i++ {
		b, err := unix.SysctlRaw(name, args...)
		if errors.Is(err, unix.ENOMEM) && i < attempts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list processes: %w", err)
		}
		list, ok := DecodeProcesses(b)
		if !ok {
			return nil, errors.New("cannot list processes: the kernel's records are not those of FreeBSD 13 to 15")
		}
		return list, nil
	}
}

// WaitNow collects one ended child without waiting: the child pid, or any for -1. It returns 0 when there is none to collect,
// and unix.ECHILD when there is no such child.
func WaitNow(pid int, linuxClone bool) (int, syscall.WaitStatus, error) {
	options := unix.WNOHANG
	if linuxClone {
		options |= LinuxClone
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(pid, &status, options, nil)
		if !errors.Is(err, syscall.EINTR) {
			return got, status, err
		}
	}
}

// topDescriptor bounds the look for open descriptors: a large host allows millions, and every command's supervisor looks. Nothing
// depends on one above being found: no process with an open folder is attached to a jail, and a worker's descriptors are looked at
// from outside too.
const topDescriptor = 1 << 16

// OpenDescriptors calls f with the number of every open descriptor of this process below topDescriptor.
func OpenDescriptors(f func(fd int) error) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	most := int(min(limit.Cur, topDescriptor))
	const chunk = 1024 // far below what poll(2) takes
	fds := make([]unix.PollFd, chunk)
	for base := 0; base < most; base += chunk {
		n := min(chunk, most-base)
		for i := range n {
			fds[i] = unix.PollFd{Fd: int32(base + i)}
		}
		// poll(2) marks those that are not open, a thousand in one call.
		_, _, errno := unix.Syscall(unix.SYS_POLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(n), 0)
		if errno == unix.EINTR {
			base -= chunk
			continue
		}
		if errno != 0 {
			return fmt.Errorf("cannot look for open descriptors: %w", errno)
		}
		for _, p := range fds[:n] {
			if p.Revents&unix.POLLNVAL == 0 {
				if err := f(int(p.Fd)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
