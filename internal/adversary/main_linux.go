// Command adversary is run inside a sandbox by tests. It tries, with raw system calls, what a tenant must not be able to do,
// and prints one line per attempt: NAME ok|ERRNO detail. "ok" means that the attack worked.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "hold":
		time.Sleep(time.Minute)
	case len(os.Args) == 2 && os.Args[1] == "signals":
		signals()
	case len(os.Args) == 3 && (os.Args[1] == "hogs" || os.Args[1] == "idle"):
		starve(os.Args[1] == "idle", os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "take":
		take(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "give":
		give(os.Args[2])
	default:
		attack(os.Args[1:])
	}
}

// An attempt is one attack; a nil error means that it worked.
type attempt struct {
	name string
	try  func() error
}

func attack(hostPaths []string) {
	attempts := append(append(namespaces(), processes()...), kernel()...)
	attempts = append(append(attempts, network()...), hindrances()...)
	for _, path := range hostPaths {
		attempts = append(attempts, attempt{"open " + path, func() error {
			f, err := os.Open(path)
			if err == nil {
				f.Close()
			}
			return err
		}})
	}
	for _, a := range attempts {
		if err := a.try(); err != nil {
			fmt.Printf("%s\t%v\n", a.name, err)
		} else {
			fmt.Printf("%s\tok\n", a.name)
		}
	}
}

func errnoOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func raw(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoOf(errno)
}

func namespaces() []attempt {
	var list []attempt
	flags := map[string]uintptr{
		"NEWUSER": unix.CLONE_NEWUSER, "NEWNS": unix.CLONE_NEWNS, "NEWPID": unix.CLONE_NEWPID, "NEWNET": unix.CLONE_NEWNET,
		"NEWIPC": unix.CLONE_NEWIPC, "NEWUTS": unix.CLONE_NEWUTS, "NEWCGROUP": unix.CLONE_NEWCGROUP, "NEWTIME": unix.CLONE_NEWTIME,
	}
	for name, flag := range flags {
		list = append(list, attempt{"unshare " + name, func() error { return raw(unix.SYS_UNSHARE, flag) }})
		if name == "NEWTIME" {
			continue // not a flag of clone(2)
		}
		list = append(list, attempt{"clone " + name, func() error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return errnoOf(errno)
		}})
	}
	cloneArgs := [11]uint64{unix.CLONE_NEWUSER}
	root := filepath.Join(os.TempDir(), "attack")
	os.MkdirAll(root, 0o700)
	return append(list,
		attempt{"clone3", func() error {
			return raw(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&cloneArgs)), unsafe.Sizeof(cloneArgs))
		}},
		attempt{"setns", func() error {
			f, err := os.Open("/proc/self/ns/mnt")
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Setns(int(f.Fd()), 0)
		}},
		attempt{"mount tmpfs", func() error { return unix.Mount("x", root, "tmpfs", 0, "") }},
		attempt{"mount proc", func() error { return unix.Mount("proc", root, "proc", 0, "") }},
		attempt{"mount bind", func() error { return unix.Mount("/", root, "", unix.MS_BIND, "") }},
		attempt{"remount root", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		attempt{"umount proc", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		attempt{"open_tree", func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }},
		attempt{"fsopen", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		attempt{"pivot_root", func() error { return unix.PivotRoot("/tmp", "/tmp") }},
		attempt{"chroot", func() error { return unix.Chroot("/tmp") }},
		attempt{"write root", func() error { return os.WriteFile("/x", nil, 0o600) }},
		attempt{"write /usr", func() error { return os.WriteFile("/usr/x", nil, 0o600) }},
		attempt{"write /etc", func() error { return os.WriteFile("/etc/passwd", nil, 0o600) }},
		attempt{"replace pile", func() error { return os.Remove("/pile/self.pile") }},
		attempt{"write key", func() error { return os.WriteFile("/pile/self.key", nil, 0o600) }},
		attempt{"mknod", func() error { return unix.Mknod(root+"/sda", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))) }},
		attempt{"sysctl", func() error { return os.WriteFile("/proc/sys/kernel/hostname", []byte("x"), 0o600) }},
		attempt{"sysctl net", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600) }},
		attempt{"sethostname", func() error { return unix.Sethostname([]byte("x")) }},
	)
}

func processes() []attempt {
	one := func(file string, flag int) func() error {
		return func() error {
			f, err := os.OpenFile("/proc/1/"+file, flag, 0)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	return []attempt{
		{"ptrace traceme", func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME) }},
		{"ptrace init", func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1) }},
		{"process_vm_readv", func() error {
			var b [8]byte
			local := []unix.Iovec{{Base: &b[0], Len: 8}}
			_, err := unix.ProcessVMReadv(os.Getppid(), local, []unix.RemoteIovec{{Base: 4096, Len: 8}}, 0)
			return err
		}},
		{"pidfd_getfd", func() error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}},
		{"init mem", one("mem", os.O_RDWR)}, {"init environ", one("environ", 0)}, {"init exe", one("exe", 0)},
		{"init root", one("root", 0)}, {"init fd", func() error { _, err := os.Readlink("/proc/1/fd/0"); return err }}, {"init cwd", one("cwd", 0)},
		{"init exe write", one("exe", os.O_WRONLY)},
		{"host processes", func() error {
			names, err := filepath.Glob("/proc/[0-9]*/comm")
			if err != nil {
				return err
			}
			var strangers []string
			for _, name := range names {
				data, _ := os.ReadFile(name)
				comm := strings.TrimSpace(string(data))
				if comm != "playground-init" && comm != "sh" && !strings.HasPrefix(comm, "adversary") && comm != "" {
					strangers = append(strangers, comm)
				}
			}
			if len(strangers) == 0 {
				return unix.ESRCH
			}
			fmt.Println("strangers:", strangers)
			return nil
		}},
		{"kill all", func() error { // must not reach anything outside
			if err := unix.Kill(-1, 0); err != nil {
				return err
			}
			return unix.EPERM
		}},
	}
}

// signals sends every signal there is to process 1 and its threads; the test then sees that the init still does its work.
func signals() {
	threads := []int{1}
	names, _ := filepath.Glob("/proc/1/task/*")
	for _, name := range names {
		if tid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			threads = append(threads, tid)
		}
	}
	for sig := 1; sig <= 64; sig++ {
		for _, tid := range threads {
			if tid == os.Getpid() {
				continue
			}
			unix.Kill(tid, unix.Signal(sig))
			unix.RawSyscall(unix.SYS_TKILL, uintptr(tid), uintptr(sig), 0)
			unix.RawSyscall(unix.SYS_TGKILL, 1, uintptr(tid), uintptr(sig))
		}
	}
	for _, sig := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGABRT} {
		forge(sig, threads)
	}
	fmt.Println("sent to", len(threads))
}

func kernel() []attempt {
	var caps [2]unix.CapUserData
	return []attempt{
		{"capabilities", func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			if err := unix.Capget(&header, &caps[0]); err != nil {
				return err
			}
			if caps[0].Permitted|caps[1].Permitted|caps[0].Effective|caps[1].Effective == 0 {
				return unix.EPERM
			}
			return nil
		}},
		{"gain capability", func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			all := [2]unix.CapUserData{{Effective: 1, Permitted: 1}}
			return unix.Capset(&header, &all[0])
		}},
		{"setuid other", func() error { return unix.Setuid(1) }},
		{"setgroups", func() error { return unix.Setgroups([]int{0}) }},
		{"keyctl", func() error { _, err := unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, -3, 0, 0, 0); return err }},
		{"add_key", func() error { _, err := unix.AddKey("user", "x", []byte("y"), -3); return err }},
		{"bpf", func() error { return raw(unix.SYS_BPF, 0, 0, 0) }},
		{"perf_event_open", func() error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) }},
		{"userfaultfd", func() error { return raw(unix.SYS_USERFAULTFD, 0) }},
		{"io_uring", func() error { return raw(unix.SYS_IO_URING_SETUP, 1, 0) }},
		{"init_module", func() error { return raw(unix.SYS_INIT_MODULE, 0, 0, 0) }},
		{"reboot", func() error { return raw(unix.SYS_REBOOT, 0, 0, 0) }},
		{"syslog", func() error { _, err := unix.Klogctl(3, make([]byte, 16)); return err }},
		{"open_by_handle_at", func() error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) }},
		{"unknown call", func() error { return raw(900) }},
		// The kernel looks at the low 32 bits of an ioctl's number only.
		{"TIOCSTI", func() error {
			c := byte('x')
			return raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		}},
		{"TIOCSTI high bits", func() error {
			c := byte('x')
			err := raw(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, uintptr(unsafe.Pointer(&c)))
			if err == unix.ENOTTY || err == unix.EIO {
				return nil // it got past the filter
			}
			return err
		}},
		{"/dev/kmsg", func() error { _, err := os.Open("/dev/kmsg"); return err }},
		{"/proc/kcore", func() error { _, err := os.Open("/proc/kcore"); return err }},
		{"/proc/sysrq-trigger", func() error { _, err := os.OpenFile("/proc/sysrq-trigger", os.O_WRONLY, 0); return err }},
		{"raise limits", func() error {
			var old unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NPROC, &old); err != nil {
				return err
			}
			return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: old.Max + 1, Max: old.Max + 1})
		}},
	}
}

func network() []attempt {
	socket := func(family, kind, proto int) func() error {
		return func() error { _, err := unix.Socket(family, kind, proto); return err }
	}
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.DialTimeout(network, address, 2*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	list := []attempt{
		{"AF_VSOCK", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"AF_PACKET", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"AF_ALG", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"raw IP", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"netlink netfilter", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{"UDP to the world", dial("udp", "192.0.2.1:53")},
	}
	// Listeners of the test on the host: TCP, and an abstract unix socket, which belongs to a network namespace too.
	if address := os.Getenv("HOST_TCP"); address != "" {
		list = append(list, attempt{"host TCP", dial("tcp", address)})
	}
	if name := os.Getenv("HOST_ABSTRACT"); name != "" {
		list = append(list, attempt{"host abstract socket", dial("unix", "@"+name)})
	}
	return list
}
