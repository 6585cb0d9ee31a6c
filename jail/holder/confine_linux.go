package holder

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// secureBits stop uid 0 from being given capabilities by execve(2), and lock that (capabilities(7)).
const secureBits = 1<<0 | 1<<1 | // NOROOT and its lock
	1<<2 | 1<<3 | // NO_SETUID_FIXUP and its lock
	1<<5 // KEEP_CAPS stays off: its lock

// confine leaves the holder with the capabilities that making inits needs, over its own namespaces, and gives away all that
// could bring back more: secure bits, the bounding set and no_new_privs are inherited, so that a job's init need not set them
// each time. The inits get their capabilities as ambient ones and drop them for good. Linux keeps all of this per thread,
// hence AllThreadsSyscall, which only a program built without cgo has.
func confine() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("cannot read capabilities: %w", err)
	}
	for i := range caps {
		caps[i].Inheritable = caps[i].Permitted
	}
	err := allThreads("make capabilities inheritable", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&caps[0])), 0)
	if err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // past the kernel's last capability
		}
		if held := caps[c/32].Permitted>>(c%32)&1 == 1; held {
			if err := allThreads("raise ambient capability", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c); err != nil {
				return err
			}
		}
		if has == 1 {
			if err := allThreads("drop bounding capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); err != nil {
				return err
			}
		}
	}
	if err := allThreads("set secure bits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits, 0); err != nil {
		return err
	}
	if err := allThreads("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	// After the last change of credentials, which would set it again.
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

func allThreads(what string, trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return fmt.Errorf("cannot %s: %w", what, errno)
	}
	return nil
}

// firstOther is the first descriptor after standard error and the connection, which this program has by right.
const firstOther = 4

// keepNoOtherFiles makes every other descriptor close-on-exec: this program's own file, by which it was started, and whatever
// whoever started the daemon left open. A job that inherited one would hold a file, or a folder, of the host's.
func keepNoOtherFiles() error {
	return os.NewSyscallError("close_range", unix.CloseRange(firstOther, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
}
