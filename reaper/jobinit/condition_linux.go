package jobinit

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A condition is what a job, whose uid is its init's, may change of the init without any capability, and what the next job
// would inherit: limits, by prlimit(2), and each thread's share of processor and disk, by sched(7) and ioprio_set(2).
type condition struct {
	limits [16]unix.Rlimit // by resource; RLIM_NLIMITS of asm-generic/resource.h
	thread share
}

type share struct {
	sched unix.SchedAttr
	cpus  unix.CPUSet
	disk  uintptr
}

// conditionNow is that of the calling thread, and so of all others while no job has run.
func conditionNow() (condition, error) {
	c := condition{}
	for i := range c.limits {
		if err := unix.Getrlimit(i, &c.limits[i]); err != nil {
			return c, os.NewSyscallError("getrlimit", err)
		}
	}
	var err error
	c.thread, err = shareOf(0)
	return c, err
}

func shareOf(tid int) (share, error) {
	const process = 1 // IOPRIO_WHO_PROCESS of linux/ioprio.h; it means one thread
	s := share{}
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return s, os.NewSyscallError("sched_getattr", err)
	}
	s.sched = *attr
	if err := unix.SchedGetaffinity(tid, &s.cpus); err != nil {
		return s, os.NewSyscallError("sched_getaffinity", err)
	}
	disk, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, process, uintptr(tid), 0)
	if errno != 0 {
		return s, os.NewSyscallError("ioprio_get", errno)
	}
	s.disk = disk
	return s, nil
}

// holds reports whether the limits and every thread are still as they were. Nobody can change them any more when no process
// of the job is left.
func (c condition) holds() bool {
	now, err := conditionNow()
	if err != nil || now.limits != c.limits {
		return false
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return false
		}
		if s, err := shareOf(tid); err != nil || s != c.thread {
			return false
		}
	}
	return true
}
