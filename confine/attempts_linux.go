package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that must not succeed; what it returns is an error or nil.
func call(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// before are the attempts that one layer alone must answer, made while the filter of system calls is not loaded yet: each shows
// that its layer holds without the filter.
func before(o Orders, seen startView) []Attempt {
	list := []Attempt{
		Try(User, "setuid 0", call(unix.SYS_SETUID, 0), unix.EPERM, unix.EINVAL),
		Try(User, "setgroups", call(unix.SYS_SETGROUPS, 0, 0), unix.EPERM),
		saw(IPC, "share the daemon's ipc namespace", "other", differs(seen.namespaces["ipc"], o.Namespaces["ipc"])),
		saw(Host, "read the host's name", workerHost, nodeName()),
		saw(Environment, "read the environment", workerEnv, strings.Join(os.Environ(), " ")),
		saw(Descriptors, "use another descriptor", "", seen.descriptors),
	}
	list = append(list, beforeNetwork()...)
	list = append(list, beforeRoot()...)
	return append(list, beforePrivileges(o)...)
}

func differs(a, b string) string {
	if a == b || a == "" {
		return "same"
	}
	return "other"
}

func nodeName() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(u.Nodename[:])
}

// beforeNetwork connects to this host. Port 9 answers nowhere, which is told from no network at all.
func beforeNetwork() []Attempt {
	dial := func(family, kind int, to unix.Sockaddr) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, to)
	}
	here4 := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	here6 := &unix.SockaddrInet6{Port: 9, Addr: [16]byte{15: 1}}
	return []Attempt{
		Try(Network, "connect tcp 127.0.0.1", dial(unix.AF_INET, unix.SOCK_STREAM, here4), unix.ENETUNREACH),
		Try(Network, "connect udp 127.0.0.1", dial(unix.AF_INET, unix.SOCK_DGRAM, here4), unix.ENETUNREACH),
		Try(Network, "connect tcp ::1", dial(unix.AF_INET6, unix.SOCK_STREAM, here6), unix.ENETUNREACH, unix.EADDRNOTAVAIL, unix.EAFNOSUPPORT),
		saw(Network, "use an interface", "", interfacesUp()),
	}
}

// interfacesUp names the interfaces that are up.
func interfacesUp() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "" // no such sockets at all
	}
	defer unix.Close(fd)
	var up []string
	for index := uint32(1); index <= 8; index++ {
		req, err := unix.NewIfreq("x")
		if err != nil {
			return err.Error()
		}
		req.SetUint32(index)
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req); err != nil {
			continue
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err == nil && req.Uint16()&unix.IFF_UP != 0 {
			up = append(up, req.Name())
		}
	}
	return strings.Join(up, " ")
}

// beforeRoot looks for files.
func beforeRoot() []Attempt {
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	return []Attempt{
		Try(Root, "open /etc/passwd", open("/etc/passwd", unix.O_RDONLY), unix.ENOENT),
		Try(Root, "open ../../../etc/passwd", open("../../../../etc/passwd", unix.O_RDONLY), unix.ENOENT),
		Try(Root, "open /proc/self/status", open("/proc/self/status", unix.O_RDONLY), unix.ENOENT),
		Try(Root, "open /dev/null", open("/dev/null", unix.O_RDWR), unix.ENOENT),
		Try(Root, "create a file", open("/x", unix.O_RDWR|unix.O_CREAT), unix.EROFS),
		Try(Root, "make a folder", unix.Mkdir("/x", 0o700), unix.EROFS),
		Try(Root, "make a symbolic link", unix.Symlink("/", "/x"), unix.EROFS),
		Try(Root, "execute /bin/sh", unix.Access("/bin/sh", unix.X_OK), unix.ENOENT),
		saw(Root, "list /", "", listing("/")),
	}
}

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

const remount = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// beforePrivileges tries what capabilities would allow, and what limits forbid.
func beforePrivileges(o Orders) []Attempt {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Permitted: 1 << 21, Effective: 1 << 21}}
	list := []Attempt{
		Try(Privileges, "take a capability", unix.Capset(&header, &all[0]), unix.EPERM),
		// As it is already, so that it changes nothing where it is not refused.
		Try(Privileges, "remount the root", unix.Mount("", "/", "", remount, ""), unix.EPERM),
		Try(Privileges, "set the host's name", unix.Sethostname([]byte("x")), unix.EPERM),
		Try(Privileges, "give up no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), unix.EINVAL),
		saw(Privileges, "keep a bounding capability", "0", fmt.Sprint(boundingCount())),
		saw(Tracing, "be dumpable", "0", prctlValue(unix.PR_GET_DUMPABLE)),
		saw(Lifetime, "outlive the daemon", "SIGKILL", deathSignal(o.Parent)),
	}
	for _, l := range linuxRlimits(o.Bounds) {
		var now syscall.Rlimit
		got := "unknown"
		if err := syscall.Getrlimit(l.resource, &now); err == nil {
			got = fmt.Sprintf("%d %d", now.Cur, now.Max)
		}
		list = append(list, saw(Limits, "have more: "+strings.ToLower(l.name), fmt.Sprintf("%d %d", l.value, l.value), got))
	}
	const cpu = 0
	more := syscall.Rlimit{Cur: uint64(o.Bounds.CPUSeconds) + 1, Max: uint64(o.Bounds.CPUSeconds) + 1}
	list = append(list, Try(Limits, "write to a file", writeFile(), unix.EFBIG))
	return append(list, Try(Limits, "raise the cpu time", syscall.Setrlimit(cpu, &more), unix.EPERM))
}

// writeFile writes to a file in memory, which is one that can be had without a file system.
func writeFile() error {
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte{0})
	return err
}

func boundingCount() int {
	n := 0
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			return n
		}
		n += has
	}
}

func prctlValue(option int) string {
	value, err := unix.PrctlRetInt(option, 0, 0, 0, 0)
	if err != nil {
		return ErrnoName(err)
	}
	return fmt.Sprint(value)
}

// deathSignal is the signal that the end of the daemon sends, if the parent is still that.
func deathSignal(parent int) string {
	var signal int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
		return ErrnoName(err)
	}
	if unix.Getppid() != parent {
		return "parent gone"
	}
	if signal == 0 {
		return "none"
	}
	return unix.SignalName(syscall.Signal(signal))
}

// attemptsOf is how many attempts of a layer a worker makes.
func attemptsOf(l Layer) int {
	return map[Layer]int{
		User: 2, IPC: 1, Host: 1, Environment: 1, Descriptors: 1, Network: 4, Root: 9, Privileges: 5, Tracing: 1, Lifetime: 1,
		Limits: 14, Syscalls: 53,
	}[l]
}
