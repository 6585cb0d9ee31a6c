package launch

import (
	"math"

	"golang.org/x/sys/unix"
)

// duplicate makes fd a copy of from that programs inherit.
func duplicate(from, fd int) error { return unix.Dup3(from, fd, 0) }

// closeOnExecFrom keeps the descriptors from first on from the next program.
func closeOnExecFrom(first int) error {
	return unix.CloseRange(uint(first), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// noNewPrivileges makes set-user-ID bits and file capabilities void. It is a thread's, and the thread that executes passes
// it on: Become locks itself to it.
func noNewPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }
