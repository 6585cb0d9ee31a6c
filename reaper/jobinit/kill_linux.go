package jobinit

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/procfs"
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
		if ppid, ok := procfs.Parent(pid); ok {
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
