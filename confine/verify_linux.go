package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/procfs"
)

// A mark is by what a process of this worker is known after its end.
type mark struct {
	userNS string // the user namespace that nobody else is in
	uid    int    // or the user id that nobody else has; 0: not its own
}

// A firstView is what is read of a worker before it closes itself to its user.
type firstView struct {
	environ    string
	namespaces map[string]string
	mark       mark
}

func (w *Process) first(expect expectation) (firstView, error) {
	ids, err := namespaces(strconv.Itoa(w.PID))
	if err != nil {
		return firstView{}, err
	}
	w.mark = mark{uid: expect.start.UID}
	if ids["user"] != expect.orders.Namespaces["user"] {
		w.mark.userNS = ids["user"]
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.PID))
	return firstView{string(environ), ids, w.mark}, err
}

// A look is at one worker. Each method returns what it saw, and an error that says what is wrong.
type look struct {
	pid    int
	expect expectation
	first  firstView
}

// verify looks at every layer from outside, and puts the worker's own attempts beside. Both must hold.
func verify(pid int, expect expectation, first firstView, attempts []Attempt) Report {
	l := look{pid, expect, first}
	ids, nsErr := namespaces(strconv.Itoa(pid))
	apart := func(name string) func() (string, error) {
		return func() (string, error) {
			if nsErr != nil {
				return "", nsErr
			}
			if ids[name] == expect.orders.Namespaces[name] || ids[name] == "" {
				return "", fmt.Errorf("it shares the daemon's %s namespace", name)
			}
			return "own namespace", nil
		}
	}
	both := func(checks ...func() (string, error)) func() (string, error) {
		return func() (string, error) {
			var seen []string
			for _, check := range checks {
				text, err := check()
				if err != nil {
					return "", err
				}
				seen = append(seen, text)
			}
			return strings.Join(seen, ", "), nil
		}
	}
	checks := map[Layer]func() (string, error){
		User: both(apart("user"), l.user), Network: both(apart("net"), l.network), Root: both(apart("mnt"), l.root),
		IPC: apart("ipc"), Host: apart("uts"), Privileges: l.privileges, Syscalls: l.syscalls, Limits: l.limits,
		Environment: l.environment, Descriptors: l.descriptors, Tracing: l.tracing, Lifetime: l.lifetime, Image: l.imageOf,
	}
	return combine(checks, attempts, expect.orders.unverified)
}

// file reads a file of the worker's folder in /proc.
func (l look) file(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(l.pid), name))
	return string(data), err
}

// user looks at the ids: all of them, of every thread, and what they are outside of the namespace.
func (l look) user() (string, error) {
	uid, gid := l.expect.uid(), l.expect.gid()
	err := l.everyTask(func(s procfs.Status) error {
		if want := fmt.Sprintf("%d %d %d %d", uid, uid, uid, uid); s.Words("Uid") != want {
			return fmt.Errorf("its user ids are %s, want %s", s.Words("Uid"), want)
		}
		if want := fmt.Sprintf("%d %d %d %d", gid, gid, gid, gid); s.Words("Gid") != want {
			return fmt.Errorf("its group ids are %s, want %s", s.Words("Gid"), want)
		}
		if l.expect.start.UID != 0 && s.Words("Groups") != "" {
			return fmt.Errorf("it has the groups %s", s.Words("Groups"))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for name, id := range map[string]int{"uid_map": uid, "gid_map": gid} {
		text, err := l.file(name)
		if err != nil {
			return "", err
		}
		if got, want := strings.Join(strings.Fields(text), " "), fmt.Sprintf("%d %d 1", workerID, id); got != want {
			return "", fmt.Errorf("its %s is %q, want %q", name, got, want)
		}
	}
	return fmt.Sprintf("uid %d", uid), nil
}

// everyTask looks at each thread.
func (l look) everyTask(f func(procfs.Status) error) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", l.pid))
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return errors.New("it has no thread")
	}
	for _, task := range tasks {
		s, err := procfs.StatusOf(filepath.Join(strconv.Itoa(l.pid), "task", task.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // a thread may end; one that begins inherits all from another
		}
		if err != nil {
			return err
		}
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

func (l look) privileges() (string, error) {
	err := l.everyTask(func(s procfs.Status) error {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if strings.Trim(s.Words(set), "0") != "" || s.Words(set) == "" {
				return fmt.Errorf("%s is %s", set, s.Words(set))
			}
		}
		if s.Words("NoNewPrivs") != "1" {
			return errors.New("no_new_privs is not set")
		}
		return nil
	})
	return "no capability, no_new_privs", err
}

func (l look) syscalls() (string, error) {
	filters := ""
	err := l.everyTask(func(s procfs.Status) error {
		if s.Words("Seccomp") != "2" {
			return fmt.Errorf("seccomp mode is %q, want 2", s.Words("Seccomp"))
		}
		filters = s.Words("Seccomp_filters")
		return nil
	})
	return "seccomp filters: " + filters, err
}

// network looks at what the kernel says of the worker's network namespace. Loopback that is up has addresses and routes.
func (l look) network() (string, error) {
	dev, err := l.file("net/dev")
	if err != nil {
		return "", err
	}
	for i, line := range strings.Split(strings.TrimSpace(dev), "\n") {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); i >= 2 && name != "lo" { // two lines of headings
			return "", fmt.Errorf("it has the interface %q", name)
		}
	}
	for _, name := range []string{"net/if_inet6", "net/fib_trie"} {
		text, err := l.file(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without that protocol
		}
		if err != nil {
			return "", err
		}
		if strings.Contains(text, "LOCAL") || name == "net/if_inet6" && text != "" {
			return "", errors.New("an interface is up")
		}
	}
	return "no interface up", nil
}

// root looks into the worker's root, through the kernel's own link to it.
func (l look) root() (string, error) {
	dir := fmt.Sprintf("/proc/%d/root", l.pid)
	entries, err := os.ReadDir(dir + "/")
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("its root holds %q", entries[0].Name())
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir+"/", &fs); err != nil {
		return "", err
	}
	if fs.Flags&unix.ST_RDONLY == 0 || int64(fs.Type) != unix.TMPFS_MAGIC {
		return "", errors.New("its root is not an empty read-only file system")
	}
	mounts, err := l.file("mountinfo")
	if err != nil {
		return "", err
	}
	if lines := strings.Split(strings.TrimSpace(mounts), "\n"); len(lines) != 1 {
		return "", fmt.Errorf("it sees %d mounts, want 1", len(lines))
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", l.pid)); err != nil || cwd != "/" {
		return "", fmt.Errorf("its folder is %q (%v)", cwd, err)
	}
	return "empty, read-only", nil
}

func (l look) limits() (string, error) {
	text, err := l.file("limits")
	if err != nil {
		return "", err
	}
	for _, want := range linuxRlimits(l.expect.orders.Bounds) {
		line, ok := lineOf(text, want.name)
		if !ok {
			return "", fmt.Errorf("%q is not told", want.name)
		}
		fields := strings.Fields(line)
		value := strconv.FormatUint(want.value, 10)
		if len(fields) < 2 || fields[0] != value || fields[1] != value {
			return "", fmt.Errorf("%q is %q, want %s", want.name, strings.Join(fields, " "), value)
		}
	}
	b := l.expect.orders.Bounds
	return fmt.Sprintf("%d MiB of data, %d threads, %d s of processor time", b.DataBytes>>20, b.Threads, b.CPUSeconds), nil
}

// lineOf returns the rest of the line that begins with prefix.
func lineOf(text, prefix string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func (l look) environment() (string, error) {
	if l.first.environ != workerEnv+"\x00" {
		return "", fmt.Errorf("it has %d variables, want %s alone", bytes.Count([]byte(l.first.environ), []byte{0}), workerEnv)
	}
	return workerEnv, nil
}

// tracing looks at whom the worker's files in /proc belong to: root, once it is undumpable (proc(5)).
func (l look) tracing() (string, error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", l.pid))
	if err != nil {
		return "", err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		return "", errors.New("it is dumpable")
	}
	err = l.everyTask(func(s procfs.Status) error {
		if s.Words("TracerPid") != "0" {
			return errors.New("it is traced")
		}
		return nil
	})
	return "undumpable, no core file", err
}

func (l look) lifetime() (string, error) {
	parent, ok := procfs.Parent(l.pid)
	if !ok || parent != os.Getpid() {
		return "", errors.New("it is not the daemon's child")
	}
	all, err := l.first.mark.processes()
	if err != nil {
		return "", err
	}
	if l.expect.orders.off(User) {
		all = []Leftover{{PID: l.pid}} // it cannot be told from others
	}
	if len(all) != 1 || all[0].PID != l.pid {
		return "", fmt.Errorf("it is %d processes", len(all))
	}
	return "ends with the daemon", nil
}

func (l look) imageOf() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/exe", l.pid), &st); err != nil {
		return "", err
	}
	if st.Dev != l.expect.image.Dev || st.Ino != l.expect.image.Ino {
		return "", errors.New("it runs another program")
	}
	return "the daemon's own", nil
}
