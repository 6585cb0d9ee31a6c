package confine

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts the program as a worker, in namespaces of its own. It does not return before the program is executed, so that the
// process is what the image says.
func (p *Program) start(s Start, files [4]*os.File) (*os.Process, error) {
	image, err := p.above(files)
	if err != nil {
		return nil, err
	}
	defer unix.Close(image)
	weak := weakened()
	env := []string{workerEnv}
	if weak.off(Environment) {
		env = append(env, "HOME=/")
	}
	sys := &syscall.SysProcAttr{
		Setsid:    true,
		Pdeathsig: syscall.SIGKILL,
		// What building the empty root, and giving up the rest, needs; over its own namespaces only.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
	for _, ns := range []struct {
		layer Layer
		flag  uintptr
	}{
		{User, unix.CLONE_NEWUSER}, {Root, unix.CLONE_NEWNS}, {Network, unix.CLONE_NEWNET}, {IPC, unix.CLONE_NEWIPC}, {Host, unix.CLONE_NEWUTS},
	} {
		if !weak.off(ns.layer) {
			sys.Cloneflags |= ns.flag
		}
	}
	if weak.off(Lifetime) {
		sys.Pdeathsig = 0
	}
	if s.UID != 0 && !weak.off(User) {
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: workerID, HostID: s.UID, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: workerID, HostID: s.GID, Size: 1}}
		sys.GidMappingsEnableSetgroups = true
		sys.Credential = &syscall.Credential{Uid: workerID, Gid: workerID} // without the daemon's groups
	}
	attr := &os.ProcAttr{Dir: "/", Env: env, Files: files[:], Sys: sys}
	var proc *os.Process
	p.onThread(func() {
		proc, err = os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", image), []string{"playground-worker"}, attr)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start the worker: %w", err)
	}
	return proc, nil
}

// above returns another descriptor of the held image, for one start. While it sorts what a child is given, os.StartProcess writes
// over the numbers right above the highest of files, in the child: its own pipe and one for each file at most. The image must not be
// among them, whatever else this process has open.
func (p *Program) above(files [4]*os.File) (int, error) {
	least := imageFD
	for _, f := range files {
		least = max(least, int(f.Fd())+len(files)+2)
	}
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, least)
	if err != nil {
		return -1, fmt.Errorf("cannot hold the worker program: %w", err)
	}
	return fd, nil
}

// orders are what the worker is told, beside its bounds.
func (p *Program) orders(s Start) (Orders, error) {
	o := Orders{Bounds: s.Bounds, Parent: os.Getpid(), weakening: weakened()}
	if s.UID == 0 && !o.off(User) { // an ordinary user's daemon: see check
		o.UID, o.GID = os.Geteuid(), os.Getegid()
	}
	var err error
	o.Namespaces, err = namespaces("self")
	return o, err
}
