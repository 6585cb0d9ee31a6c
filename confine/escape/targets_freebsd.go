package escape

import (
	"fmt"

	"golang.org/x/sys/unix"

	"playground/confine"
)

// targets reaches for what the plan names. In capability mode the kernel refuses every name before it looks at what it means.
func targets(p Plan) []confine.Attempt {
	mode := func(name string, err error) confine.Attempt {
		return confine.Try(confine.Syscalls, name, err, unix.ECAPMODE)
	}
	var all []confine.Attempt
	for _, path := range p.Files {
		all = append(all, mode("open "+path, open(path, unix.O_RDONLY)))
	}
	for _, path := range p.Folders {
		all = append(all,
			mode("list "+path, open(path, unix.O_RDONLY|unix.O_DIRECTORY)),
			mode("create a file in "+path, open(path+"/escape", unix.O_RDWR|unix.O_CREAT)))
	}
	for _, path := range p.Programs {
		all = append(all, mode("read the program "+path, open(path, unix.O_RDONLY)), mode("execute "+path, unix.Exec(path, []string{path}, nil)))
	}
	for _, path := range p.Sockets {
		all = append(all, mode("connect to "+path, connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: path})))
	}
	for _, port := range p.Ports {
		err := connect(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		all = append(all, confine.Try(confine.Network, fmt.Sprintf("connect to 127.0.0.1:%d", port), err, unix.EPROTONOSUPPORT))
	}
	for _, pid := range p.Processes {
		all = append(all,
			mode(fmt.Sprintf("send SIGTERM to process %d", pid), unix.Kill(pid, unix.SIGTERM)),
			mode(fmt.Sprintf("trace process %d", pid), trace(pid)),
			confine.Try(confine.Syscalls, fmt.Sprintf("read the environment of process %d", pid), sysctl("kern.proc.env", pid), unix.EPERM, unix.ECAPMODE, unix.ENOENT))
	}
	// Local sockets, which capability mode allows and which lead nowhere.
	local := func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }
	return append(all, confine.Try(confine.Limits, "open 1000 sockets", thousand(local), unix.EMFILE))
}

func sysctl(name string, args ...int) error {
	_, err := unix.SysctlRaw(name, args...)
	return err
}

func trace(pid int) error {
	const attach = 10 // PT_ATTACH
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, attach, uintptr(pid), 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// UseUps is what a worker may not use up.
func UseUps() []string { return []string{"cpu", "memory"} }

// UseUp uses something up. It returns only if that did not end the worker; threads are not limited on FreeBSD but by rctl(8).
func UseUp(what string) {
	switch what {
	case "cpu":
		spin()
	case "memory":
		hog()
	}
}
