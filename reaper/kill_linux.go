package reaper

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/job"
)

// killAll signals every process of the job but the init. In a pid namespace kill(-1) is exactly that, atomically against
// forks (kernel/signal.c kill_something_info holds the task list lock that fork needs). Without one the descendants are
// looked up, and callers repeat until wait4 has no child left.
func killAll(sig syscall.Signal, isolated bool) {
	if isolated {
		unix.Kill(-1, sig)
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		unix.Kill(pid, sig)
	}
}

// descendants lists the processes below root, from one reading of /proc.
func descendants(root int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := make(map[int][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if ppid, ok := parentOf(pid); ok {
			children[ppid] = append(children[ppid], pid)
		}
	}
	var found []int
	queue := []int{root}
	for len(queue) > 0 {
		next := children[queue[0]]
		queue = append(queue[1:], next...)
		found = append(found, next...)
	}
	return found
}

func parentOf(pid int) (int, bool) {
	fields, ok := statFields(pid)
	if !ok || len(fields) < 2 {
		return 0, false
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	return ppid, err == nil
}

// statFields returns the fields of /proc/PID/stat from the state on (proc_pid_stat(5), field 3). The command's name before
// it may hold spaces and brackets.
func statFields(pid int) ([][]byte, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, false
	}
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return nil, false
	}
	return bytes.Fields(data[end+1:]), true
}

// startTime returns a process's start in clock ticks since boot (field 22), which tells it from a later user of its pid.
func startTime(pid int) (uint64, bool) {
	fields, ok := statFields(pid)
	if !ok || len(fields) < 20 {
		return 0, false
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return start, err == nil
}

// pidOf finds the process id in a pidfd's fdinfo.
func pidOf(fdinfo []byte) (int, error) {
	for line := range bytes.Lines(fdinfo) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			return strconv.Atoi(string(bytes.TrimSpace(rest)))
		}
	}
	return 0, errors.New("no Pid line")
}

// Gone reports whether every process of the list has ended; a later process with the same pid does not count.
func Gone(pids []job.Leftover) bool {
	for _, p := range pids {
		if start, ok := startTime(p.Pid); ok && start == p.Start {
			return false
		}
	}
	return true
}
