// Package procfs reads what proc_pid_stat(5) says of a process.
package procfs

import (
	"bytes"
	"os"
	"strconv"
)

// Parent returns a process's parent; false if there is no such process.
func Parent(pid int) (int, bool) {
	ppid, ok := field(pid, 4)
	return int(ppid), ok
}

// StartTime returns a process's start in clock ticks since boot, which tells it from a later user of its pid.
func StartTime(pid int) (uint64, bool) { return field(pid, 22) }

// field returns the n-th field of /proc/PID/stat, n >= 4. The second, the command's name, may hold spaces and brackets.
func field(pid, n int) (uint64, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= n-3 {
		return 0, false
	}
	value, err := strconv.ParseUint(string(fields[n-3]), 10, 64)
	return value, err == nil
}
