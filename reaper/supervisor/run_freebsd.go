package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/racct"
	"playground/reaper/bsdproc"
	"playground/reaper/proof"
	"playground/seqpacket"
)

// Run is the whole life of the program: it prepares, says that it is ready, and serves one job.
func Run(conn *seqpacket.Conn) error {
	sys := newSystem()
	ready := Ready{}
	err := sys.prepare()
	if err != nil {
		ready.Error = err.Error()
	}
	if data, jsonErr := json.Marshal(ready); jsonErr == nil {
		err = errors.Join(err, conn.Send(data))
	}
	if err != nil {
		return err
	}
	return Serve(conn, sys)
}

// A system is the running FreeBSD.
type system struct {
	children chan os.Signal
	rules    []racct.Rule
}

// newSystem takes over the signals. All are received rather than ignored: an ignored one would stay ignored in the command.
func newSystem() *system {
	signal.Notify(make(chan os.Signal, 1)) // nobody reads: what does not fit is dropped
	s := &system{children: make(chan os.Signal, 1)}
	signal.Notify(s.children, unix.SIGCHLD)
	return s
}

// prepare makes this process fit to start a job, before it has a child.
func (s *system) prepare() error {
	if err := noFolder(); err != nil {
		return err
	}
	if err := bsdproc.Acquire(); err != nil {
		return err
	}
	unix.Umask(0o022) // the daemon's is for its secrets; this is what commands start with
	return bsdproc.Untraceable()
}

// noFolder refuses an open folder, with which no process can be attached to a jail, and names its descriptor.
func noFolder() error {
	return bsdproc.OpenDescriptors(func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil // of no file: a kqueue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("descriptor %d is an open folder: nothing can be started in a jail", fd)
		}
		return nil
	})
}

// Children implements System.
func (s *system) Children() <-chan os.Signal { return s.children }

// Kernel implements System.
func (s *system) Kernel(start Start) (proof.Kernel, error) {
	rules, err := racct.ParseRules(strings.Join(start.Limits, ","))
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if r.Jail != start.Jail {
			return nil, fmt.Errorf("internal error: limits of jail %q for a job in %q", r.Jail, start.Jail)
		}
	}
	s.rules = rules
	return proof.NewHost(start.Jail, start.JID)
}

// Start implements System.
func (s *system) Start(start Start, stdio []*os.File) (int, error) {
	// ForkExec attaches to no jail at all for a number of 0 or less: that must never pass for a start.
	if start.JID <= 0 || len(start.Argv) == 0 || !path.IsAbs(string(start.Argv[0])) || !path.IsAbs(string(start.Dir)) {
		return 0, errors.New("internal error: malformed start message")
	}
	if err := noFolders(stdio); err != nil {
		return 0, err
	}
	argv, env := texts(start.Argv), texts(start.Env)
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir:   string(start.Dir),
		Env:   env,
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
		Sys:   &syscall.SysProcAttr{Jail: start.JID, Setsid: true},
	})
	switch {
	case err == nil:
		return pid, nil
	case errors.Is(err, unix.EPERM):
		if folder := noFolder(); folder != nil {
			return 0, folder
		}
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		// The error does not tell which of the two it is about; the folder is the likely one.
		return 0, fmt.Errorf("cannot enter folder %q or start %q: %v", start.Dir, argv[0], err)
	}
	return 0, fmt.Errorf("cannot start %q: %v", argv[0], err)
}

func noFolders(files []*os.File) error {
	for _, f := range files {
		if st, err := f.Stat(); err != nil || st.IsDir() {
			return errors.New("internal error: a folder was given as a standard file")
		}
	}
	return nil
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// Terminate implements System. PROC_REAP_KILL may block while many processes die.
func (s *system) Terminate() {
	go bsdproc.Kill(unix.SIGTERM, 0)
}

// Reconcile implements System.
func (s *system) Reconcile(Start) {
	if added, err := racct.Reconcile(s.rules); err != nil {
		fmt.Fprintln(os.Stderr, "playground-supervise: cannot keep limits in force:", err)
	} else if len(added) > 0 {
		fmt.Fprintf(os.Stderr, "playground-supervise: %d limits of jail %s had been taken away and are back\n", len(added), added[0].Jail)
	}
}

// Started implements System.
func (s *system) Started(pid int) uint64 {
	p, _, err := bsdproc.ProcessOf(pid)
	if err != nil {
		return 0
	}
	return p.Start
}
