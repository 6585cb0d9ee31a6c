package escape

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"playground/confine"
)

// targets reaches for what the plan names.
func targets(p Plan) []confine.Attempt {
	var all []confine.Attempt
	for _, path := range p.Files {
		all = append(all, confine.Try(confine.Root, "open "+path, open(path, unix.O_RDONLY), unix.ENOENT))
	}
	for _, path := range p.Folders {
		all = append(all,
			confine.Try(confine.Root, "list "+path, open(path, unix.O_RDONLY|unix.O_DIRECTORY), unix.ENOENT),
			// Without a name, so that one that can be made leaves nothing.
			confine.Try(confine.Root, "create a file in "+path, open(path, unix.O_RDWR|unix.O_TMPFILE), unix.ENOENT, unix.EROFS))
	}
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"} {
		all = append(all, confine.Try(confine.Root, "write "+path, open(path, unix.O_WRONLY), unix.ENOENT))
	}
	for _, path := range []string{"/dev/mqueue/x", "/dev/mem"} {
		all = append(all, confine.Try(confine.Root, "open "+path, open(path, unix.O_RDWR|unix.O_CREAT), unix.ENOENT, unix.EROFS))
	}
	for _, path := range p.Programs {
		all = append(all,
			confine.Try(confine.Root, "read the program "+path, open(path, unix.O_RDONLY), unix.ENOENT),
			confine.Try(confine.Syscalls, "execute "+path, execute(path), unix.EPERM))
	}
	for _, path := range p.Sockets {
		all = append(all,
			confine.Try(confine.Root, "find the socket "+path, open(path, unix.O_PATH), unix.ENOENT),
			confine.Try(confine.Syscalls, "connect to "+path, connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: path}), unix.EPERM))
	}
	for _, port := range p.Ports {
		name := fmt.Sprintf("connect to 127.0.0.1:%d", port)
		all = append(all, confine.Try(confine.Syscalls, name, connect(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}), unix.EPERM))
	}
	for _, pid := range p.Processes {
		all = append(all, process(pid)...)
	}
	return append(all, appetite()...)
}

// process reaches for one process.
func process(pid int) []confine.Attempt {
	id := uintptr(pid)
	list := []confine.Attempt{
		confine.Try(confine.Syscalls, fmt.Sprintf("trace process %d", pid), call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, id), unix.EPERM),
		confine.Try(confine.Syscalls, fmt.Sprintf("send SIGTERM to process %d", pid), call(unix.SYS_KILL, id, uintptr(unix.SIGTERM)), unix.EPERM),
		confine.Try(confine.Syscalls, fmt.Sprintf("send SIGTERM to a thread of process %d", pid), call(unix.SYS_TGKILL, id, id, uintptr(unix.SIGTERM)), unix.EPERM),
	}
	for _, file := range []string{"environ", "mem", "maps", "cmdline", "fd", "root", "ns/net"} {
		path := fmt.Sprintf("/proc/%d/%s", pid, file)
		list = append(list, confine.Try(confine.Root, "open "+path, open(path, unix.O_RDONLY), unix.ENOENT))
	}
	return list
}

// appetite asks for more than the limits give, and gives back what it gets.
func appetite() []confine.Attempt {
	mapping := func(bytes uintptr, prot uintptr) error {
		at, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, bytes, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uintptr(0), 0)
		if errno != 0 {
			return errno
		}
		unix.Syscall(unix.SYS_MUNMAP, at, bytes, 0)
		return nil
	}
	return []confine.Attempt{
		confine.Try(confine.Limits, "reserve 64 GiB", mapping(64<<30, unix.PROT_NONE), unix.ENOMEM),
		confine.Try(confine.Limits, "map 1 GiB to write to", mapping(1<<30, unix.PROT_READ|unix.PROT_WRITE), unix.ENOMEM),
		confine.Try(confine.Limits, "open 1000 files", thousand(func() (int, error) { return unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0) }), unix.EMFILE),
	}
}

// execute would replace this worker if it could, and the rows after it would be missing.
func execute(path string) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv := []*byte{name, nil}
	err = call(unix.SYS_EXECVE, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&argv[1])))
	runtime.KeepAlive(name)
	runtime.KeepAlive(argv)
	return err
}

func call(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// UseUps is what a worker may not use up.
func UseUps() []string { return []string{"cpu", "memory", "threads"} }

// UseUp uses something up. It returns only if that did not end the worker.
func UseUp(what string) {
	switch what {
	case "cpu":
		spin()
	case "memory":
		hog()
	case "threads":
		for range 1 << 10 {
			go syscall.Nanosleep(&syscall.Timespec{Sec: 60}, nil) // takes a thread
		}
		time.Sleep(time.Minute)
	}
}
