package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// workerID is a worker's user and group id in its own user namespace.
const workerID = 1000

// enter puts the layers around this process, each while what it needs is still there.
func enter(o Orders) ([]Attempt, error) {
	runtime.GOMAXPROCS(2) // a loop waits for others; fewer threads
	// One thread sees what it set for all: some of it would be unset for threads that begin later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	debug.SetMemoryLimit(o.Bounds.DataBytes / 4 * 3)
	time.Local = time.UTC // or a first look at it would open files
	if o.UID != 0 {
		if err := mapSelf(o.UID, o.GID); err != nil {
			return nil, err
		}
	}
	// Where memory runs out, a worker goes before a daemon does. It is no reason not to run.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	seen, err := lookAround(o)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		layer Layer
		do    func() error
	}{
		{Root, emptyRoot},
		{Host, func() error { return unix.Sethostname([]byte(workerHost)) }},
		{Limits, func() error { return setLimits(o.Bounds) }},
		{Privileges, dropPrivileges},
		// After the last change of credentials, which would undo both.
		{Lifetime, func() error { return endWith(o.Parent) }},
		{Tracing, func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
	} {
		if o.off(step.layer) {
			continue
		}
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("cannot put layer %s in place: %w", step.layer, err)
		}
	}
	attempts := before(o, seen)
	if !o.off(Syscalls) {
		if err := loadFilter(os.Getpid()); err != nil {
			return attempts, err
		}
	}
	return append(attempts, Refused(o.Parent)...), nil
}

// mapSelf gives this process the only ids that an ordinary user may: its own, under other numbers (user_namespaces(7)). The daemon
// cannot do it, being closed to its own user: the files of a child that has not executed a program yet are closed with it.
func mapSelf(uid, gid int) error {
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"gid_map", fmt.Sprintf("%d %d 1", workerID, gid)},
		{"uid_map", fmt.Sprintf("%d %d 1", workerID, uid)},
	} {
		if err := os.WriteFile("/proc/self/"+f.name, []byte(f.text), 0); err != nil {
			return fmt.Errorf("cannot map ids: %w", err)
		}
	}
	return nil
}

// A startView is what can be seen only while /proc is there.
type startView struct {
	namespaces  map[string]string
	descriptors string // those that this process should not have
}

// lookAround closes what this process was left by accident, and looks around.
func lookAround(o Orders) (startView, error) {
	var v startView
	var err error
	if v.namespaces, err = namespaces("self"); err != nil {
		return v, err
	}
	if !o.off(Descriptors) {
		if _, err := strangeDescriptors(func(fd int) { unix.Close(fd) }); err != nil {
			return v, err
		}
	}
	strange, err := strangeDescriptors(func(int) {})
	v.descriptors = strings.Join(strange, " ")
	return v, err
}

// strangeDescriptors lists what is open beside standard input, output and error, the doors and the runtime's poller.
func strangeDescriptors(each func(fd int)) ([]string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var strange []string
	own := map[string]bool{"anon_inode:[eventpoll]": true, "anon_inode:[eventfd]": true} // one of each
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= DoorsFD {
			continue
		}
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // what ReadDir had open
		}
		if err == nil && own[target] {
			own[target] = false
			continue
		}
		strange = append(strange, target)
		each(fd)
	}
	return strange, nil
}

// emptyRoot makes an empty, read-only file system this process's root, and drops the host's. The mount covers /proc for a moment,
// a folder that every host has; nobody outside the namespace sees it.
func emptyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	const dir = "/proc"
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("worker", dir, "tmpfs", flags, "mode=555,size=4k,nr_inodes=2"); err != nil {
		return fmt.Errorf("cannot mount the empty root: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	// The documented trick without a folder for the old root: it ends up on top of the new one (pivot_root(2)).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot drop the host's root: %w", err)
	}
	return unix.Chdir("/")
}

// setLimits cannot be undone: soft and hard limits are the same.
func setLimits(b Bounds) error {
	for _, l := range linuxRlimits(b) {
		// syscall's own Setrlimit, which does not restore the former RLIMIT_NOFILE later.
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("cannot set %q to %d: %w", l.name, l.value, err)
		}
	}
	return nil
}

// secureBits stop a uid 0 from being given capabilities by execve(2), and lock that (capabilities(7)).
const secureBits = 1<<0 | 1<<1 | // NOROOT and its lock
	1<<2 | 1<<3 | // NO_SETUID_FIXUP and its lock
	1<<5 | // KEEP_CAPS stays off: its lock
	1<<6 | 1<<7 // NO_CAP_AMBIENT_RAISE and its lock

// dropPrivileges gives up every capability, the bounding set included, and every way to gain one. Linux keeps all of this per
// thread, hence AllThreadsSyscall, which only a program built without cgo has.
func dropPrivileges() error {
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
	if err := allThreads("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return err
	}
	if err := allThreads("set secure bits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	err := allThreads("drop capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if err != nil {
		return err
	}
	return allThreads("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
}

func allThreads(what string, trap, a1, a2, a3 uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3)
	if errno == unix.ENOTSUP { // Go's own answer, where C may have threads that it does not know
		return fmt.Errorf("cannot %s on all threads: this program was built with cgo (build it with CGO_ENABLED=0)", what)
	}
	if errno != 0 {
		return fmt.Errorf("cannot %s: %w", what, errno)
	}
	return nil
}

// endWith makes the end of the daemon the end of this process: the kernel signals the process if any of its threads asked. The
// daemon did so for the first one; a change of credentials may have undone that.
func endWith(parent int) error {
	if err := allThreads("ask for the daemon's end", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0); err != nil {
		return err
	}
	if unix.Getppid() != parent {
		return errors.New("the daemon is gone")
	}
	return nil
}

// namespaces returns the identities of a process's namespaces.
func namespaces(pid string) (map[string]string, error) {
	ids := make(map[string]string)
	for _, name := range []string{"user", "mnt", "net", "ipc", "uts", "pid"} {
		id, err := os.Readlink("/proc/" + pid + "/ns/" + name)
		if err != nil {
			return nil, fmt.Errorf("cannot read namespace: %w", err)
		}
		ids[name] = id
	}
	return ids, nil
}
