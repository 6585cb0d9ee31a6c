package launch

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// duplicate makes fd a copy of from that programs inherit.
func duplicate(from, fd int) error { return unix.Dup2(from, fd) }

// closeOnExecFrom keeps the descriptors from first on from the next program. close_range(2) can do it only since FreeBSD 14.
func closeOnExecFrom(first int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := first; int64(fd) < int64(limit.Cur); fd++ {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		if err != nil && !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil
}

// procctl(2): P_PID 0 is the calling process, and the value is passed by pointer.
const (
	idPid             = 0
	procNoNewPrivsCtl = 19
	noNewPrivsEnable  = 1
)

// noNewPrivileges makes set-user-ID bits void.
func noNewPrivileges() error {
	value := int32(noNewPrivsEnable)
	_, _, errno := unix.Syscall6(unix.SYS_PROCCTL, idPid, 0, procNoNewPrivsCtl, uintptr(unsafe.Pointer(&value)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
