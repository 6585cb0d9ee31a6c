package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"playground/procfs"
)

// Left looks for processes of this worker, by the ids or the user namespace that nobody else has. Call it after Wait. A worker
// cannot start any; this is the look that says so.
func (w *Process) Left() ([]Leftover, error) { return w.mark.processes() }

// processes lists those of a worker.
func (m mark) processes() ([]Leftover, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var left []Leftover
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		ours, err := m.of(name)
		if err != nil {
			return nil, err
		}
		if start, ok := procfs.StartTime(pid); ours && ok {
			left = append(left, Leftover{pid, start})
		}
	}
	return left, nil
}

// of reports whether a process is the worker's.
func (m mark) of(pid string) (bool, error) {
	if m.uid != 0 {
		s, err := procfs.StatusOf(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		return !ended(s) && strings.HasPrefix(s.Words("Uid"), fmt.Sprintf("%d ", m.uid)), err
	}
	// A process of another user cannot be in it, and its namespaces are not for us to see; one that has ended has none.
	ns, err := os.Readlink("/proc/" + pid + "/ns/user")
	return err == nil && m.userNS != "" && ns == m.userNS, nil
}

// ended reports whether a process runs no more, and only waits to be waited for.
func ended(s procfs.Status) bool {
	return strings.HasPrefix(s.Words("State"), "Z") || strings.HasPrefix(s.Words("State"), "X")
}

// Started returns when the worker was started, as the kernel counts.
func (w *Process) Started() uint64 {
	start, _ := procfs.StartTime(w.PID)
	return start
}

// End kills a process that is left, if it still is that process.
func (l Leftover) End() {
	if start, ok := procfs.StartTime(l.PID); ok && start == l.Start {
		_ = unix.Kill(l.PID, unix.SIGKILL) // it may have ended
	}
}
