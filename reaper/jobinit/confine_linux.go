package jobinit

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine takes every privilege from the calling process and so from all that it starts: capabilities and
// no_new_privs are per thread, hence AllThreadsSyscall, which only a program built without cgo has.
func confine(isolated bool) error {
	if err := allThreads("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	if !isolated {
		return nil
	}
	if err := dropCapabilities(); err != nil {
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

// secureBits stop uid 0 from being given capabilities by execve(2), and lock that (capabilities(7)).
const secureBits = 1<<0 | 1<<1 | // NOROOT and its lock
	1<<2 | 1<<3 | // NO_SETUID_FIXUP and its lock
	1<<5 | // KEEP_CAPS stays off: its lock
	1<<6 | 1<<7 // NO_CAP_AMBIENT_RAISE and its lock

func dropCapabilities() error {
	if err := allThreads("set secure bits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits, 0); err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // past the kernel's last capability
		}
		if has == 0 {
			continue
		}
		if err := allThreads("drop bounding capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); err != nil {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return allThreads("drop capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
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
