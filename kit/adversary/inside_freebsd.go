package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An attempt is something that a tenant must not be able to do. It returns nil if it worked.
type attempt struct {
	name string
	try  func() error
}

// inside makes every attempt and writes one line for each: its name, a tab, and "ok" or the error. None of them harms a host
// where it works: signals are 0, clocks are set to what they show, modules are ones that are loaded.
func inside() error {
	list := append(kernelAttempts(), fileAttempts()...)
	for _, a := range append(list, networkAttempts()...) {
		verdict := "ok"
		if err := a.try(); err != nil {
			verdict = err.Error()
		}
		fmt.Printf("%s\t%s\n", a.name, strings.ReplaceAll(verdict, "\n", " "))
	}
	return nil
}

func errnoOf(result int) error {
	if result < 0 {
		return syscall.Errno(-result)
	}
	return nil
}

func cstring(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		return 0
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

// kept holds what system calls have pointers to; there is no collection, but that is decided elsewhere.
var kept []*byte

func kernelAttempts() []attempt {
	list := []attempt{
		{"jail_attach 1", func() error { return errnoOf(call(unix.SYS_JAIL_ATTACH, 1, 0, 0)) }},
		{"jail_remove", func() error { return errnoOf(call(unix.SYS_JAIL_REMOVE, 0x7fffffff, 0, 0)) }},
		{"kldload", func() error { return errnoOf(call(unix.SYS_KLDLOAD, cstring("nullfs"), 0, 0)) }},
		{"signal init", func() error { return syscall.Kill(1, 0) }},
		{"set the clock", func() error {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
				return err
			}
			return errnoOf(call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0))
		}},
		{"rctl rule", func() error {
			rule := "user:0:maxproc:log=999999"
			r, _, errno := syscall.RawSyscall6(unix.SYS_RCTL_ADD_RULE, cstring(rule), uintptr(len(rule)+1), 0, 0, 0, 0)
			_ = r
			if errno != 0 {
				return errno
			}
			return nil
		}},
		{"swapoff", func() error { return errnoOf(call(unix.SYS_SWAPOFF, cstring("/dev/null"), 0, 0)) }},
		{"accounting", func() error { return errnoOf(call(unix.SYS_ACCT, cstring("/tmp/acct"), 0, 0)) }},
		{"set the host's name", func() error {
			name := "adversary"
			mib := [2]int32{1, 10} // kern.hostname
			r, _, errno := syscall.RawSyscall6(unix.SYS___SYSCTL, uintptr(unsafe.Pointer(&mib)), 2, 0, 0, cstring(name), uintptr(len(name)))
			_ = r
			if errno != 0 {
				return errno
			}
			return nil
		}},
		{"mount tmpfs", func() error { return mount("tmpfs", "/tmp") }},
		{"mount devfs", func() error { return mount("devfs", "/tmp") }},
		{"unmount /dev", func() error { return unix.Unmount("/dev", 0) }},
		{"make a device", func() error { return unix.Mknod("/tmp/device", unix.S_IFCHR|0o600, 0) }},
		{"child jail", childJail},
	}
	for name, variable := range map[string]string{"see reaperd": "HOST_PID", "see a process of the host": "HOST_CLIENT"} {
		if pid, err := strconv.Atoi(os.Getenv(variable)); err == nil && pid > 1 {
			list = append(list, attempt{name, func() error { return syscall.Kill(pid, 0) }})
		}
	}
	return list
}

// mount asks nmount(2) for a filesystem that needs nothing but a name and a place.
func mount(fstype, path string) error {
	words := []string{"fstype", fstype, "fspath", path, "from", fstype}
	vector := make([]unix.Iovec, len(words))
	for i, word := range words {
		b := append([]byte(word), 0)
		kept = append(kept, &b[0])
		vector[i] = unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	}
	return errnoOf(call(unix.SYS_NMOUNT, uintptr(unsafe.Pointer(&vector[0])), uintptr(len(vector)), 0))
}

// childJail asks for a jail below this one, which would shed the limits.
func childJail() error {
	words := [][]byte{[]byte("name\x00"), []byte("adversary\x00"), []byte("path\x00"), []byte("/\x00"), []byte("persist\x00"), nil}
	vector := make([]unix.Iovec, len(words))
	for i, word := range words {
		if len(word) > 0 {
			vector[i] = unix.Iovec{Base: &word[0], Len: uint64(len(word))}
		}
	}
	return errnoOf(call(unix.SYS_JAIL_SET, uintptr(unsafe.Pointer(&vector[0])), uintptr(len(vector)), 1))
}

func fileAttempts() []attempt {
	open := func(path string, flags int) func() error {
		return func() error {
			f, err := os.OpenFile(path, flags, 0o600)
			if err == nil {
				_ = f.Close() // nothing was written
			}
			return err
		}
	}
	pile := os.Getenv("PILE")
	list := []attempt{
		{"write to the base system", open("/bin/adversary", os.O_WRONLY|os.O_CREATE)},
		{"change the base system's sh", open("/bin/sh", os.O_WRONLY)},
		{"rewrite the pile", open(pile, os.O_WRONLY)},
		{"shorten the pile", func() error { return os.Truncate(pile, 0) }},
		{"remove the pile", func() error { return os.Remove(pile) }},
		{"lift the pile's flag", func() error { return unix.Chflags(pile, 0) }},
		{"file in /shared", open("/shared/adversary", os.O_WRONLY|os.O_CREATE)},
		{"set an immutable flag", func() error {
			if err := os.WriteFile("/tmp/flagged", nil, 0o600); err != nil {
				return err
			}
			return unix.Chflags("/tmp/flagged", 0x20000)
		}},
		{"appending pile turned into a writable one", func() error {
			f, err := os.OpenFile(pile, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, 0); err != nil {
				return err
			}
			_, err = unix.Pwrite(int(f.Fd()), []byte("x"), 0)
			return err
		}},
	}
	for _, device := range []string{"mem", "kmem", "io", "pci", "klog", "bpf", "zfs", "ada0", "da0", "vtbd0", "nvd0", "md0", "devctl", "console", "pf", "mdctl", "geom.ctl"} {
		list = append(list, attempt{"/dev/" + device, open("/dev/"+device, os.O_RDONLY)})
	}
	for _, path := range strings.Fields(os.Getenv("HOST_PATHS")) {
		list = append(list, attempt{"host's " + path, open(path, os.O_RDONLY)})
	}
	return list
}

func networkAttempts() []attempt {
	socket := func(family, kind, proto int) func() error {
		return func() error {
			fd, err := unix.Socket(family, kind, proto)
			if err == nil {
				_ = unix.Close(fd) // only asked for
			}
			return err
		}
	}
	list := []attempt{
		{"raw IP", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"divert", socket(unix.AF_INET, unix.SOCK_RAW, 258)},
	}
	if os.Getenv("NETWORK") != "none" {
		return list
	}
	list = append(list, attempt{"IPv4", socket(unix.AF_INET, unix.SOCK_STREAM, 0)}, attempt{"IPv6", socket(unix.AF_INET6, unix.SOCK_STREAM, 0)})
	if address := os.Getenv("HOST_TCP"); address != "" {
		list = append(list, attempt{"the host's MCP port", func() error {
			c, err := net.DialTimeout("tcp", address, 2*time.Second)
			if err != nil {
				return err
			}
			return errors.Join(c.Close())
		}})
	}
	return list
}
