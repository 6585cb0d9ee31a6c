package confine

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refused are the attempts that the filter of system calls must answer, made when all is in place. The daemon is a process that a
// worker must not reach.
func Refused(daemon int) []Attempt { return append(refusedOutside(daemon), refusedInside()...) }

// refused is a call that the filter must answer.
func refused(name string, trap uintptr, args ...uintptr) Attempt {
	return Try(Syscalls, name, call(trap, args...), unix.EPERM)
}

// refusedFile is a call that would return a descriptor.
func refusedFile(name string, trap uintptr, args ...uintptr) Attempt {
	var a [4]uintptr
	copy(a[:], args)
	fd, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], 0, 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	return Try(Syscalls, name, errno, unix.EPERM)
}

// refusedOutside reaches for the network and for other processes.
func refusedOutside(daemon int) []Attempt {
	pid, parent := uintptr(os.Getpid()), uintptr(daemon)
	return []Attempt{
		refusedFile("make a socket: local", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM),
		refusedFile("make a socket: internet", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
		refusedFile("make a socket: internet 6", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM),
		refusedFile("make a socket: netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW),
		refusedFile("make a socket: vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM),
		refused("ask a socket for interfaces", unix.SYS_IOCTL, 3, unix.SIOCGIFCONF),
		refused("signal the daemon", unix.SYS_KILL, parent, 0),
		refused("signal all", unix.SYS_KILL, ^uintptr(0), 0),
		refused("signal a thread of the daemon", unix.SYS_TGKILL, parent, parent, 0),
		refused("have the kernel signal the daemon", unix.SYS_FCNTL, 3, unix.F_SETOWN, parent),
		refusedFile("open the daemon by pidfd", unix.SYS_PIDFD_OPEN, parent, 0),
		refused("take the daemon's descriptor", unix.SYS_PIDFD_GETFD, 3, 0, 0),
		refused("read the daemon's memory", unix.SYS_PROCESS_VM_READV, parent, 0, 0, 0, 0, 0),
		refused("write the daemon's memory", unix.SYS_PROCESS_VM_WRITEV, parent, 0, 0, 0, 0, 0),
		refused("compare with the daemon", unix.SYS_KCMP, pid, parent, 0, 0, 0),
		refused("set the daemon's limits", unix.SYS_PRLIMIT64, parent, unix.RLIMIT_CORE, 0, 0),
		refused("set own limits", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 1, 0),
		refused("trace", unix.SYS_PTRACE, unix.PTRACE_CONT, pid), // harmless where it is not refused
	}
}

// refusedInside reaches for the kernel, and for more than a worker is.
func refusedInside() []Attempt {
	return []Attempt{
		refused("make a user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		refused("enter a namespace", unix.SYS_SETNS, 0, 0),
		refused("change the root", unix.SYS_PIVOT_ROOT, 0, 0),
		refused("change the root the old way", unix.SYS_CHROOT, 0),
		refused("mount", unix.SYS_MOUNT, 0, 0, 0, 0, 0),
		refused("unmount", unix.SYS_UMOUNT2, 0, 0),
		refusedFile("mount the new way", unix.SYS_FSOPEN, 0, 0),
		refusedFile("clone a mount", unix.SYS_OPEN_TREE, 0, 0, 0),
		refused("load a module", unix.SYS_INIT_MODULE, 0, 0, 0),
		refused("load a module by descriptor", unix.SYS_FINIT_MODULE, 0, 0, 0),
		refused("load a kernel", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		refused("restart the host", unix.SYS_REBOOT, 0, 0, 0, 0),
		refused("use keyrings", unix.SYS_KEYCTL, 0, 0, 0, 0, 0),
		refused("add a key", unix.SYS_ADD_KEY, 0, 0, 0, 0, 0),
		refused("load a program into the kernel", unix.SYS_BPF, 0, 0, 0),
		refused("use io_uring", unix.SYS_IO_URING_SETUP, 1, 0),
		refusedFile("watch performance", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0),
		refusedFile("handle page faults", unix.SYS_USERFAULTFD, 0),
		refused("read the kernel's log", unix.SYS_SYSLOG, 0, 0, 0),
		refused("set the clock", unix.SYS_CLOCK_SETTIME, 0, 0),
		refused("become another user", unix.SYS_SETUID, 0),
		refused("become another group", unix.SYS_SETGID, 0),
		refused("set capabilities", unix.SYS_CAPSET, 0, 0),
		refused("change what a process is", unix.SYS_PRCTL, unix.PR_GET_DUMPABLE),
		refused("execute a program", unix.SYS_EXECVE, 0, 0, 0),
		refused("execute a descriptor", unix.SYS_EXECVEAT, 0, 0, 0, 0, 0),
		refusedFile("make a file in memory", unix.SYS_MEMFD_CREATE, 0, 0),
		refused("share memory", unix.SYS_SHMGET, 0, 4096, 0o1600),
		refused("make a message queue", unix.SYS_MSGGET, 0, 0o1600),
		refusedFile("open a message queue by name", unix.SYS_MQ_OPEN, 0, 0, 0, 0),
		refused("map memory to execute", unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0),
		Try(Syscalls, "make memory executable", executable(), unix.EPERM),
		Try(Syscalls, "fork", fork(uintptr(unix.SIGCHLD)), unix.EPERM),
		Try(Syscalls, "fork into a namespace", fork(unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)), unix.EPERM),
		Try(Syscalls, "fork the new way", call(unix.SYS_CLONE3, 0, 0), unix.ENOSYS),
	}
}

// fork makes a process, which ends at once. The heap is not touched in it.
//
//go:norace
func fork(flags uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	unix.Wait4(int(pid), nil, 0, nil)
	return nil
}

// executable tries to make a page of data executable.
func executable() error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	err = call(unix.SYS_MPROTECT, uintptr(unsafe.Pointer(&page[0])), uintptr(len(page)), unix.PROT_READ|unix.PROT_EXEC)
	runtime.KeepAlive(page)
	unix.Munmap(page)
	return err
}
