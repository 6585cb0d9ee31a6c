package confine

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// An Exit is how a worker ended.
type Exit struct {
	Status  int     `json:"exit"`             // exit status; -1 if a signal ended it
	Signal  string  `json:"signal,omitempty"` // "SIGKILL"
	Cleanup Cleanup `json:"cleanup"`
}

// A Cleanup is the proof that nothing of a worker is left.
type Cleanup struct {
	Proven    bool  `json:"proven"`
	Survivors int   `json:"survivors"`
	ElapsedMS int64 `json:"elapsed_ms"` // from the end, or from the order to end, to the proof
}

// A Leftover is a process that is left of a worker.
type Leftover struct {
	PID   int
	Start uint64 // as the kernel counts, which tells it from a later user of its pid
}

// ExitOf is the exit of a process that was waited for, without its clean-up.
func ExitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Status: -1, Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Status: status.ExitStatus()}
}
