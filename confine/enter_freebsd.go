package confine

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/reaper/bsdproc"
)

// enter puts the layers around this process, in the one order that works: procctl(2) cannot be called in capability mode, a jail is
// not entered with a folder open, and root is needed up to the change of ids. On FreeBSD all of it holds for the whole process.
func enter(o Orders) ([]Attempt, error) {
	runtime.GOMAXPROCS(2) // a loop waits for others; fewer threads
	debug.SetMemoryLimit(o.Bounds.DataBytes / 4 * 3)
	time.Local = time.UTC // or a first look at it would open files
	if o.JID <= 0 || o.UID <= 0 || o.GID <= 0 {
		return nil, fmt.Errorf("cannot be confined to jail %d as %d:%d", o.JID, o.UID, o.GID)
	}
	var strange string
	for _, step := range []struct {
		layer Layer
		do    func() error
	}{
		{Descriptors, closeStrange},
		{Limits, func() error { return setLimits(o.Bounds) }},
		{Tracing, func() error { return set(traceCtl, traceDisableExec) }},
		{Privileges, func() error { return set(noNewPrivsCtl, enable) }},
		{Syscalls, func() error { return set(protMaxCtl, enable) }},
		{Lifetime, func() error { return set(deathCtl, int32(unix.SIGKILL)) }},
		{Root, func() error { return attach(o.JID) }}, // and with it network, ipc and host
		{User, func() error { return become(o.UID, o.GID) }},
	} {
		if o.off(step.layer) {
			continue
		}
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("cannot put layer %s in place: %w", step.layer, err)
		}
	}
	strange = strangeDescriptors()
	attempts := before(o, strange)
	if !o.off(Syscalls) {
		if err := enterCapabilityMode(); err != nil {
			return attempts, fmt.Errorf("cannot put layer %s in place: %w", Syscalls, err)
		}
	}
	return append(attempts, Refused(o.Parent)...), nil
}

// attach enters the worker's jail, which has the empty folder /var/empty as its root and no network.
func attach(jid int) error {
	_, _, errno := unix.Syscall(unix.SYS_JAIL_ATTACH, uintptr(jid), 0, 0)
	if errno == unix.EPERM {
		return fmt.Errorf("cannot enter jail %d: %w (a folder is open, or this is not root)", jid, errno)
	}
	if errno != 0 {
		return fmt.Errorf("cannot enter jail %d: %w", jid, errno)
	}
	return nil
}

// become gives up root for ids that nobody else has. The first group is the effective one before FreeBSD 15.
func become(uid, gid int) error {
	if err := syscall.Setgroups([]int{gid}); err != nil {
		return err
	}
	if err := syscall.Setgid(gid); err != nil {
		return err
	}
	return syscall.Setuid(uid)
}

// setLimits cannot be undone: soft and hard limits are the same.
func setLimits(b Bounds) error {
	for _, l := range freebsdRlimits(b) {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: int64(l.value), Max: int64(l.value)}); err != nil {
			return fmt.Errorf("cannot set %s to %d: %w", l.name, l.value, err)
		}
	}
	return nil
}

// enterCapabilityMode leaves each descriptor the rights that it is used with, and this process nothing but its descriptors
// (capsicum(4)).
func enterCapabilityMode() error {
	for fd, rights := range [][]uint64{
		{unix.CAP_READ, unix.CAP_EVENT},
		{unix.CAP_WRITE, unix.CAP_EVENT},
		{unix.CAP_WRITE, unix.CAP_EVENT},
		{unix.CAP_READ, unix.CAP_WRITE, unix.CAP_EVENT},
	} {
		limited, err := unix.CapRightsInit(rights)
		if err == nil {
			err = unix.CapRightsLimit(uintptr(fd), limited)
		}
		if err != nil {
			return fmt.Errorf("cannot limit descriptor %d: %w", fd, err)
		}
	}
	if err := unix.CapEnter(); err != nil {
		return err
	}
	if !capabilityMode() {
		return fmt.Errorf("the kernel does not confirm capability mode")
	}
	return nil
}

// closeStrange closes what this process was left by accident.
func closeStrange() error {
	var strange []int
	err := bsdproc.OpenDescriptors(func(fd int) error {
		if fd > DoorsFD && !isKqueue(fd) {
			strange = append(strange, fd)
		}
		return nil
	})
	for _, fd := range strange {
		unix.Close(fd)
	}
	return err
}

// strangeDescriptors names what is open beside standard input, output and error, the doors and the runtime's kqueue.
func strangeDescriptors() string {
	text, kqueues := "", 0
	err := bsdproc.OpenDescriptors(func(fd int) error {
		if isKqueue(fd) {
			kqueues++
		}
		if fd > DoorsFD && (!isKqueue(fd) || kqueues > 1) {
			text += fmt.Sprintf("%d ", fd)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return text
}

// isKqueue reports whether a descriptor is a kqueue: nothing else takes a call without changes.
func isKqueue(fd int) bool {
	_, err := unix.Kevent(fd, nil, nil, &unix.Timespec{})
	return err == nil
}
