package jobinit

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine takes every privilege from the calling process and so from all that it starts. The holder has emptied the bounding
// set and locked the secure bits, so that what is dropped here cannot come back. Capabilities are per thread, hence
// AllThreadsSyscall, which only a program built without cgo has.
func confine(isolated bool) error {
	if !isolated { // there the holder has set it
		return allThreads("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := allThreads("drop capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); err != nil {
		return err
	}
	if err := loadFilter(); err != nil {
		return err
	}
	// After the last change of credentials, which would set it again. It closes /proc/1/mem to the job, whose uid is ours.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become undumpable: %w", err)
	}
	return nil
}

func allThreads(what string, trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return fmt.Errorf("cannot %s: %w", what, errno)
	}
	return nil
}

//go:generate go run playground/internal/genfilter

// loadFilter installs the system-call filter on all threads.
func loadFilter() error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("cannot load system-call filter: %w", errno)
	}
	return nil
}
