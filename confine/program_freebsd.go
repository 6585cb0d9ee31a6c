package confine

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// start starts the program as a worker. It is still root then, and confines itself: no other process is needed, and no program
// inside of the jail.
func (p *Program) start(_ Start, files [4]*os.File) (*os.Process, error) {
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	weak := weakened()
	env := []string{workerEnv}
	if weak.off(Environment) {
		env = append(env, "HOME=/")
	}
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if weak.off(Lifetime) {
		sys.Pdeathsig = 0
	}
	attr := &os.ProcAttr{Dir: "/", Env: env, Files: files[:], Sys: sys}
	var proc *os.Process
	p.onThread(func() { proc, err = os.StartProcess(path, []string{"playground-worker"}, attr) })
	if err != nil {
		return nil, fmt.Errorf("cannot start the worker: %w", err)
	}
	return proc, nil
}

// path is the program's own, since FreeBSD executes no descriptor by a name that every host has. A file that was replaced is refused
// until the daemon is started anew; which file was executed is verified afterwards.
func (p *Program) path() (string, error) {
	var now unix.Stat_t
	if err := unix.Stat(p.name, &now); err != nil || now.Dev != p.image.Dev || now.Ino != p.image.Ino {
		return "", fault.New(fault.Unavailable, "the worker program %q was replaced under the running daemon", p.name).
			WithHint("restart playground-reaperd: upgrades are stop, install, start")
	}
	return p.name, nil
}

// orders are what the worker is told, beside its bounds.
func (p *Program) orders(s Start) (Orders, error) {
	return Orders{Bounds: s.Bounds, Parent: os.Getpid(), UID: s.UID, GID: s.GID, JID: s.JID, weakening: weakened()}, nil
}
