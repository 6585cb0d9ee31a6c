package reaper

import (
	"bytes"
	"errors"
	"strconv"

	"playground/job"
	"playground/procfs"
)

// Gone reports whether every process of the list has ended; a later process with the same pid does not count.
func Gone(pids []job.Leftover) bool {
	for _, p := range pids {
		if start, ok := procfs.StartTime(p.Pid); ok && start == p.Start {
			return false
		}
	}
	return true
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
