package bsdproc

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These two calls are here as well as in package jail because a supervisor, of which every job has one, links nothing that it
// does not need.

// jailDying makes jail_get(2) find dying jails too.
const jailDying = 8

// RemoveJail kills everything in a jail and lets nothing new run in it. It does not wait (jail_remove(2)). A jail that is gone
// is no error.
func RemoveJail(jid int) error {
	if jid <= 0 {
		return fmt.Errorf("internal error: jail %d cannot be removed", jid)
	}
	_, _, errno := unix.Syscall(unix.SYS_JAIL_REMOVE, uintptr(jid), 0, 0)
	if errno != 0 && errno != unix.EINVAL { // EINVAL is an unknown number
		return fmt.Errorf("cannot remove jail %d: %w", jid, errno)
	}
	return nil
}

// JailOf returns the state of the jail with that number, and its name while it is alive.
func JailOf(jid int) (JailState, string, error) {
	if jid <= 0 {
		return JailUnknown, "", fmt.Errorf("internal error: there is no jail %d", jid)
	}
	number, dying := int32(jid), int32(0)
	name := make([]byte, 256) // MAXHOSTNAMELEN
	vector := []unix.Iovec{
		text("jid\x00"), value(&number),
		text("dying\x00"), value(&dying),
		text("name\x00"), {Base: &name[0], Len: uint64(len(name))},
	}
	_, _, errno := unix.Syscall(unix.SYS_JAIL_GET, uintptr(unsafe.Pointer(&vector[0])), uintptr(len(vector)), jailDying)
	runtime.KeepAlive(name)
	switch {
	case errors.Is(errno, unix.ENOENT):
		return JailGone, "", nil
	case errno != 0:
		return JailUnknown, "", fmt.Errorf("cannot look at jail %d: %w", jid, errno)
	case dying != 0:
		return JailDying, "", nil
	}
	return JailAlive, unix.ByteSliceToString(name), nil
}

// text is a parameter's name with its NUL, which jail_get(2) wants counted.
func text(s string) unix.Iovec {
	b := []byte(s)
	return unix.Iovec{Base: &b[0], Len: uint64(len(b))}
}

func value(v *int32) unix.Iovec {
	return unix.Iovec{Base: (*byte)(unsafe.Pointer(v)), Len: uint64(unsafe.Sizeof(*v))}
}
