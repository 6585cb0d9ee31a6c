// Package launch takes a daemon from root to an ordinary user: it holds the listening sockets that the daemon shall inherit,
// gives up every right of root for good, and becomes the daemon, in the same process. Sockets are handed over as
// sd_listen_fds(3) describes it: from descriptor 3 on, with LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
package launch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// firstSocket is the descriptor of the first socket (SD_LISTEN_FDS_START).
const firstSocket = 3

// Slots are the descriptors that the sockets will have.
type Slots struct {
	count int
	names []string
}

// Reserve takes n descriptors from 3 on, before anything else of the program gets them: moving a socket to the descriptor of
// the Go runtime's own kqueue(2) would crash it. So this must be the first call of main. What an ancestor left open there is
// closed.
func Reserve(n int) (*Slots, error) {
	if err := startBlocking(); err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	taken := false
	for fd := firstSocket; fd < firstSocket+n; fd++ {
		if fd == null {
			taken = true
			continue
		}
		if err := duplicate(null, fd); err != nil {
			return nil, fmt.Errorf("cannot reserve descriptor %d: %w", fd, err)
		}
		unix.CloseOnExec(fd)
	}
	if !taken {
		err = unix.Close(null)
	}
	return &Slots{count: n}, err
}

// startBlocking starts the program once more if a standard descriptor does not block, as a terminal that another program left
// so: package os has opened a kqueue(2) for it by now, before main.
func startBlocking() error {
	again := false
	for fd := range firstSocket {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_NONBLOCK == 0 {
			continue // a closed one does not matter
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			return fmt.Errorf("cannot make descriptor %d block: %w", fd, err)
		}
		again = true
	}
	if !again {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	return unix.Exec(path, os.Args, os.Environ())
}

// Add gives the next descriptor to a socket, by a name that the daemon knows it by. The file stays the caller's.
func (s *Slots) Add(name string, socket *os.File) error {
	if len(s.names) == s.count {
		return fmt.Errorf("cannot pass socket %q: only %d were reserved", name, s.count)
	}
	if name == "" || strings.ContainsAny(name, ":\x00") {
		return fmt.Errorf("cannot pass a socket by the name %q", name)
	}
	// A new descriptor is inherited: duplicate does not set close-on-exec.
	if err := duplicate(int(socket.Fd()), firstSocket+len(s.names)); err != nil {
		return fmt.Errorf("cannot pass socket %q: %w", name, err)
	}
	s.names = append(s.names, name)
	return nil
}

// passed lists the variables that reach the daemon: where to say that it is ready, and what tunes the Go runtime. All come
// from root.
func passed() []string {
	return []string{"NOTIFY_SOCKET", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
}

// environment is all that the daemon sees of it.
func (s *Slots) environment(who Identity, pid int, lookup func(string) (string, bool)) []string {
	env := []string{
		"PATH=/sbin:/bin:/usr/sbin:/usr/bin", "HOME=/", "USER=" + who.Name, "LOGNAME=" + who.Name,
	}
	for _, name := range passed() {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if len(s.names) > 0 {
		env = append(env, "LISTEN_PID="+strconv.Itoa(pid), "LISTEN_FDS="+strconv.Itoa(len(s.names)),
			"LISTEN_FDNAMES="+strings.Join(s.names, ":"))
	}
	return env
}

// Become drops to who and executes the program, which inherits the standard descriptors and the sockets, and nothing else.
// The process stays the same, so its parent keeps watching the right one. It returns only if something failed; the process
// may have lost its rights by then.
func (s *Slots) Become(who Identity, program string, args ...string) error {
	runtime.LockOSThread() // see noNewPrivileges of Linux
	env := s.environment(who, os.Getpid(), os.LookupEnv)
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("cannot leave the working folder: %w", err)
	}
	unix.Umask(0o077)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("cannot forbid core files: %w", err)
	}
	if err := closeOnExecFrom(firstSocket + len(s.names)); err != nil {
		return fmt.Errorf("cannot keep descriptors from being inherited: %w", err)
	}
	if err := who.drop(); err != nil {
		return err
	}
	return execute(program, append([]string{program}, args...), env)
}

// execute forbids that any later program gets rights by its file's mode, and becomes the program.
func execute(program string, argv, env []string) error {
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("cannot give up gaining rights: %w", err)
	}
	return fault.Wrap(fault.Unavailable, unix.Exec(program, argv, env), "cannot run %s", program).
		WithHint("reinstall the package, or name another program with -program")
}
