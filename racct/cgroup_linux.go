package racct

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroups makes a cgroup v2 for each job, below one that was delegated to the daemon (cgroups(7); systemd's Delegate=yes). It
// bounds the job as a whole, which rlimits cannot.
type Cgroups struct {
	dir string
}

// jobPrefix begins the names of jobs' cgroups.
const jobPrefix = "job-"

// needed are the controllers without which a cgroup would bound nothing that matters.
var needed = []string{"memory", "pids"}

// OpenCgroups takes over the daemon's own cgroup if it is delegated. The error says why not; the daemon then has rlimits only.
func OpenCgroups() (*Cgroups, error) {
	dir, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	return openCgroups(dir, os.Getpid())
}

func openCgroups(dir string, pid int) (*Cgroups, error) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, name := range needed {
		if !bytes.Contains(have, []byte(name)) {
			return nil, fmt.Errorf("the %s controller is not delegated", name)
		}
	}
	// A cgroup with processes cannot hand controllers down (no internal processes), so the daemon steps aside first.
	own := filepath.Join(dir, "daemon")
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the cgroup is not delegated: %w", err)
	}
	if err := write(own, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return nil, errors.Join(err, os.Remove(own))
	}
	if err := write(dir, "cgroup.subtree_control", "+memory +pids"); err != nil {
		return nil, errors.Join(fmt.Errorf("the cgroup has other processes: %w", err), write(dir, "cgroup.procs", strconv.Itoa(pid)), os.Remove(own))
	}
	write(dir, "cgroup.subtree_control", "+cpu") // welcome, not needed
	stale, _ := filepath.Glob(filepath.Join(dir, jobPrefix+"*"))
	for _, path := range stale {
		os.Remove(path) // of an earlier daemon; one with processes stays
	}
	return &Cgroups{dir: dir}, nil
}

// ownCgroup returns the folder of this process's cgroup v2.
func ownCgroup() (string, error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupDir(string(self), string(mounts))
}

// cgroupDir joins the cgroup2 mount with the process's path in it.
func cgroupDir(self, mountinfo string) (string, error) {
	for line := range strings.Lines(self) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for mount := range strings.Lines(mountinfo) {
			// ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG ...] - TYPE SOURCE OPTIONS (proc_pid_mountinfo(5))
			before, after, ok := strings.Cut(mount, " - ")
			fields := strings.Fields(before)
			if ok && len(fields) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
				return filepath.Join(fields[4], path), nil
			}
		}
	}
	return "", errors.New("there is no cgroup v2 here")
}

// A Cgroup is one job's.
type Cgroup struct {
	dir string
}

// New makes the cgroup of the job with this unique name.
func (c *Cgroups) New(name string, l Limits) (*Cgroup, error) {
	g := &Cgroup{dir: filepath.Join(c.dir, jobPrefix+name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	for _, limit := range limitFiles(l) {
		if err := write(g.dir, limit.file, limit.value); err != nil && !(limit.optional && errors.Is(err, fs.ErrNotExist)) {
			return nil, errors.Join(err, g.Remove())
		}
	}
	return g, nil
}

type limitFile struct {
	file, value string
	optional    bool // depends on the host's controllers
}

// limitFiles says what is written where (kernel Documentation/admin-guide/cgroup-v2.rst). One job over its memory is ended
// as a whole, not robbed of a process.
func limitFiles(l Limits) []limitFile {
	files := []limitFile{{"memory.oom.group", "1", false}}
	if l.MemoryBytes > 0 {
		files = append(files, limitFile{"memory.max", strconv.FormatInt(l.MemoryBytes, 10), false})
		swap := max(0, l.SwapBytes-l.MemoryBytes)
		files = append(files, limitFile{"memory.swap.max", strconv.FormatInt(swap, 10), true})
	}
	if l.Threads > 0 {
		files = append(files, limitFile{"pids.max", strconv.FormatInt(l.Threads, 10), false})
	}
	if l.CPUPercent > 0 {
		const period = 100_000 // microseconds, the kernel's default
		files = append(files, limitFile{"cpu.max", fmt.Sprintf("%d %d", l.CPUPercent*period/100, period), true})
	}
	return files
}

// Add moves a process, with all that it will start, into the cgroup.
func (g *Cgroup) Add(pid int) error { return write(g.dir, "cgroup.procs", strconv.Itoa(pid)) }

// Hints says which limits the job ran into.
func (g *Cgroup) Hints() []string {
	var hints []string
	if g.counted("memory.events", "oom_kill") {
		hints = append(hints, "the memory limit was hit")
	}
	if g.counted("pids.events", "max") {
		hints = append(hints, "the process limit was hit")
	}
	return hints
}

func (g *Cgroup) counted(file, key string) bool {
	data, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == key && fields[1] != "0" {
			return true
		}
	}
	return false
}

// Remove removes the cgroup, whose processes have ended; the kernel may need a moment to notice.
func (g *Cgroup) Remove() error {
	var err error
	for range 50 {
		if err = os.Remove(g.dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return err
}

func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0) // these files are never made, only written
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
