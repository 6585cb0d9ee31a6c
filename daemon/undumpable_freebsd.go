package daemon

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procctl(2) has no wrapper in x/sys. Numbers from sys/syscall.h, sys/wait.h and sys/procctl.h.
const (
	sysProcctl          = 544
	idPid               = 0
	procTraceCtl        = 7
	traceCtlDisable     = 2
	self            int = 0 // P_PID 0 is the calling process
)

// Undumpable keeps what this process holds in memory, such as tokens and tenants' output, from core files and from other
// processes: no core, no ptrace(2), no ktrace(1). It ends at the next exec, so children are not bound by it.
func Undumpable() error {
	// procctl takes a pointer to the value, not the value.
	value := int32(traceCtlDisable)
	_, _, errno := unix.Syscall6(sysProcctl, idPid, uintptr(self), procTraceCtl, uintptr(unsafe.Pointer(&value)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("cannot forbid tracing of this process: %w", errno)
	}
	return noCore()
}

// UndumpableParent is Undumpable for a daemon that starts children; the two differ on Linux.
func UndumpableParent() error { return Undumpable() }
