package procfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Children returns the children of all of a process's threads (proc_pid_task(5), children). While they come and go one may be
// missing: it is a view for people, not a proof.
func Children(pid int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	var pids []int
	for _, task := range tasks {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", task.Name(), "children"))
		if err != nil {
			continue
		}
		for _, word := range bytes.Fields(data) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// Usage is what one process uses.
type Usage struct {
	Threads       int64
	ResidentBytes int64
	CPUSeconds    int64 // in user and system mode since its start
}

// userHZ is the unit of times in /proc, whatever the kernel's own clock is (time(7)).
const userHZ = 100

// UsageOf returns what a process uses; false if there is no such process.
func UsageOf(pid int) (Usage, bool) {
	var values [4]uint64
	for i, n := range []int{14, 15, 20, 24} {
		value, ok := field(pid, n)
		if !ok {
			return Usage{}, false
		}
		values[i] = value
	}
	return Usage{
		Threads:       int64(values[2]),
		ResidentBytes: int64(values[3]) * int64(os.Getpagesize()),
		CPUSeconds:    int64((values[0] + values[1]) / userHZ),
	}, true
}
