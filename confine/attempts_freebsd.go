package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errCapMode is ECAPMODE: not permitted in capability mode.
const errCapMode = unix.ECAPMODE

// call is a system call that must not succeed.
func call(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// before are the attempts that one layer alone must answer, made while capability mode is not entered yet.
func before(o Orders, strange string) []Attempt {
	list := []Attempt{
		Try(User, "setuid 0", syscall.Setuid(0), unix.EPERM),
		Try(User, "setgroups", syscall.Setgroups([]int{0}), unix.EPERM),
		Try(Network, "make a socket: internet", socket(unix.AF_INET), unix.EPROTONOSUPPORT),
		Try(Network, "make a socket: internet 6", socket(unix.AF_INET6), unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT), // the latter without INET6
		Try(IPC, "share memory", call(unix.SYS_SHMGET, 0, 4096, 0o1600), unix.ENOSYS, unix.EPERM),
		Try(IPC, "make a message queue", call(unix.SYS_MSGGET, 0, 0o1600), unix.ENOSYS, unix.EPERM),
		saw(Host, "read the host's name", workerHost, hostName()),
		Try(Root, "open /etc/passwd", open("/etc/passwd", unix.O_RDONLY), unix.ENOENT),
		Try(Root, "open ../../../etc/passwd", open("../../../../etc/passwd", unix.O_RDONLY), unix.ENOENT),
		Try(Root, "open /dev/null", open("/dev/null", unix.O_RDWR), unix.ENOENT),
		Try(Root, "create a file", open("/x", unix.O_RDWR|unix.O_CREAT), unix.EACCES, unix.EPERM, unix.EROFS),
		Try(Root, "make a folder", unix.Mkdir("/x", 0o700), unix.EACCES, unix.EPERM, unix.EROFS),
		Try(Root, "execute /bin/sh", unix.Access("/bin/sh", 1), unix.ENOENT),
		saw(Root, "list /", "", listing("/")),
		saw(Environment, "read the environment", workerEnv, strings.Join(os.Environ(), " ")),
		saw(Descriptors, "use another descriptor", "", strange),
	}
	return append(list, beforePrivileges(o)...)
}

// beforePrivileges tries what privileges would allow, and what limits forbid.
func beforePrivileges(o Orders) []Attempt {
	list := []Attempt{
		Try(Privileges, "make a jail", call(unix.SYS_JAIL_SET, 0, 0, 1), unix.EPERM),
		Try(Privileges, "enter the host", call(unix.SYS_JAIL_ATTACH, 1), unix.EPERM, unix.EINVAL),
		Try(Privileges, "remove a jail", call(unix.SYS_JAIL_REMOVE, uintptr(o.JID)), unix.EPERM, unix.EINVAL),
		Try(Privileges, "unmount", call(unix.SYS_UNMOUNT, 0, 0), unix.EPERM, unix.EFAULT),
		Try(Privileges, "load a module", call(unix.SYS_KLDLOAD, 0), unix.EPERM, unix.EFAULT),
		Try(Privileges, "restart the host", call(unix.SYS_REBOOT, 0), unix.EPERM),
		Try(Privileges, "signal the daemon", unix.Kill(o.Parent, 0), unix.ESRCH, unix.EPERM),
		// ENOSYS where security.bsd.allow_ptrace is 0.
		Try(Privileges, "trace the daemon", call(unix.SYS_PTRACE, 10, uintptr(o.Parent), 0, 0), unix.ESRCH, unix.EPERM, unix.ENOSYS),
		saw(Privileges, "give up no_new_privs", "1", valueOf(noNewPrivsStatus)),
		saw(Tracing, "be traced", "-1", valueOf(traceStatus)),
		saw(Lifetime, "outlive the daemon", fmt.Sprint(int(unix.SIGKILL)), valueOf(deathStatus)),
		Try(Limits, "fork", fork(), unix.EAGAIN),
	}
	for _, l := range freebsdRlimits(o.Bounds) {
		var now syscall.Rlimit
		got := "unknown"
		if err := syscall.Getrlimit(l.resource, &now); err == nil {
			got = fmt.Sprintf("%d %d", now.Cur, now.Max)
		}
		list = append(list, saw(Limits, "have more: "+l.name, fmt.Sprintf("%d %d", l.value, l.value), got))
	}
	const cpu = 0
	more := syscall.Rlimit{Cur: o.Bounds.CPUSeconds + 1, Max: o.Bounds.CPUSeconds + 1}
	return append(list, Try(Limits, "raise the cpu time", syscall.Setrlimit(cpu, &more), unix.EPERM))
}

// Refused are the attempts that capability mode must answer. The daemon is a process that a worker must not reach.
func Refused(daemon int) []Attempt {
	refused := func(name string, err error) Attempt { return Try(Syscalls, name, err, errCapMode) }
	return []Attempt{
		refused("open /", open("/", unix.O_RDONLY)),
		refused("open a name relative to nothing", open("x", unix.O_RDONLY)),
		refused("execute a program", call(unix.SYS_EXECVE, 0, 0, 0)),
		refused("connect to a socket", connectLocal("/var/run/log")),
		refused("signal the daemon", unix.Kill(daemon, 0)),
		refused("signal all", unix.Kill(-1, 0)),
		refused("trace the daemon", call(unix.SYS_PTRACE, 10, uintptr(daemon), 0, 0)),
		refused("make a jail", call(unix.SYS_JAIL_SET, 0, 0, 1)),
		refused("enter a jail", call(unix.SYS_JAIL_ATTACH, 1)),
		refused("remove a jail", call(unix.SYS_JAIL_REMOVE, 1)),
		refused("mount", call(unix.SYS_NMOUNT, 0, 0, 0)),
		refused("unmount", call(unix.SYS_UNMOUNT, 0, 0)),
		refused("change the root", call(unix.SYS_CHROOT, 0)),
		refused("load a module", call(unix.SYS_KLDLOAD, 0)),
		refused("restart the host", call(unix.SYS_REBOOT, 0)),
		refused("change what a process is", set(traceCtl, 1)),
		refused("trace with ktrace", call(unix.SYS_KTRACE, 0, 0, 0, 0)),
		refused("set rules", call(unix.SYS_RCTL_ADD_RULE, 0, 0, 0, 0)),
		refused("make a shared memory object", call(unix.SYS_SHM_OPEN, 0, 0, 0)),
		Try(Syscalls, "list processes", sysctlOf("kern.proc.all"), unix.EPERM, errCapMode, unix.ENOENT),
		Try(Syscalls, "read the output's pipe", read(1), unix.ENOTCAPABLE),
		Try(Syscalls, "write to the input's pipe", write(0), unix.ENOTCAPABLE, unix.EBADF),
		Try(Syscalls, "become another user", syscall.Setuid(0), unix.EPERM, errCapMode),
		Try(Limits, "fork, confined", fork(), unix.EAGAIN, errCapMode),
		saw(Syscalls, "leave capability mode", "true", fmt.Sprint(capabilityMode())),
	}
}

func valueOf(command int) string {
	value, err := status(0, command)
	if err != nil {
		return ErrnoName(err)
	}
	return fmt.Sprint(value)
}

func hostName() string {
	name, err := unix.Sysctl("kern.hostname")
	if err != nil {
		return ErrnoName(err)
	}
	return name
}

func sysctlOf(name string) error {
	_, err := unix.SysctlRaw(name)
	return err
}

func socket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connectLocal(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

func read(fd int) error {
	_, err := unix.Read(fd, make([]byte, 1))
	return err
}

func write(fd int) error {
	_, err := unix.Write(fd, []byte{0})
	return err
}

// listing names what a folder holds. The folder is read with raw calls, so that no descriptor of it outlives this.
func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ErrnoName(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, " ")
}

// fork makes a process, which ends at once.
//
//go:norace
func fork() error {
	pid, second, errno := unix.RawSyscall(unix.SYS_FORK, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 || second == 1 { // the second return value is 1 in a child
		for {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
	}
	unix.Wait4(int(pid), nil, 0, nil)
	return nil
}

// attemptsOf is how many attempts of a layer a worker makes.
func attemptsOf(l Layer) int {
	return map[Layer]int{
		User: 2, Network: 2, IPC: 2, Host: 1, Root: 7, Environment: 1, Descriptors: 1, Privileges: 9, Tracing: 1, Lifetime: 1,
		Limits: 12, Syscalls: 24,
	}[l]
}
