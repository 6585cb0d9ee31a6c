package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands and values of procctl(2) (sys/procctl.h), which neither syscall nor x/sys have.
const (
	traceCtl         = 7
	traceStatus      = 8
	deathCtl         = 11
	deathStatus      = 12
	protMaxCtl       = 15
	noNewPrivsCtl    = 19
	noNewPrivsStatus = 20

	traceDisableExec = 3 // also after an exec
	enable           = 1
)

// procctl calls procctl(2) of one process, 0 being this one; it reads or writes value.
func procctl(pid, command int, value *int32) error {
	const idPid = 0
	_, _, errno := unix.Syscall6(unix.SYS_PROCCTL, idPid, uintptr(pid), uintptr(command), uintptr(unsafe.Pointer(value)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// set gives this process a value.
func set(command int, value int32) error { return procctl(0, command, &value) }

// status reads a value of a process.
func status(pid, command int) (int32, error) {
	var value int32
	err := procctl(pid, command, &value)
	return value, err
}

// kinfoOf reads one process; ok is false when there is none.
func kinfoOf(pid int) (k kinfo, ok bool, err error) {
	b, err := unix.SysctlRaw("kern.proc.pid", pid)
	if errors.Is(err, unix.ESRCH) || err == nil && len(b) == 0 {
		return kinfo{}, false, nil
	}
	if err != nil {
		return kinfo{}, false, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	if k, ok = decodeKinfo(b); !ok {
		return kinfo{}, false, errors.New("the kernel's records of processes are not those of FreeBSD 13 to 15")
	}
	return k, true, nil
}

// capabilityMode reports whether this process is in capability mode (cap_getmode(2)).
func capabilityMode() bool {
	var mode uint32
	_, _, errno := unix.Syscall(unix.SYS_CAP_GETMODE, uintptr(unsafe.Pointer(&mode)), 0, 0)
	return errno == 0 && mode == 1
}
