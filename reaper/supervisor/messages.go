// Package supervisor is the process above one job on FreeBSD: "playground-supervise", one per job and gone after it. It lives on
// the host, where nothing in a jail can see or touch it. It is the reaper of all that it starts, starts one command in the
// job's leaf jail, and ends and proves the end of whatever the command left. When whoever started it goes away it does
// the same by itself.
//
// It is a program of its own because attaching to a jail is refused to a process that has any folder open (jail_attach(2)): it
// opens no folder, is a fresh exec without its parent's descriptors, and takes no descriptors but a job's three files.
package supervisor

import "time"

// A Ready is the supervisor's first message: it is a reaper, holds no folder, and waits for its job.
type Ready struct {
	Error string `json:"error,omitempty"` // why it cannot be used
}

// A Start is the one message it is given, with three descriptors: standard input, output and error. Strings are bytes because
// a command may hold any of them but NUL.
type Start struct {
	Argv [][]byte `json:"argv"` // Argv[0] is an absolute path inside the jail
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir"` // absolute, inside the jail

	JID    int      `json:"jid"`
	Jail   string   `json:"jail"`   // the leaf's full name, which its limits are keyed by
	Limits []string `json:"limits"` // rctl(8) rules, which the supervisor keeps in force while the job runs

	Grace    time.Duration `json:"grace_ns"`    // between SIGTERM and the end, when the job is cancelled
	Deadline time.Duration `json:"deadline_ns"` // from the beginning of the end to the proof
}

// An Order asks the supervisor to end the job.
type Order struct {
	End bool `json:"end"`
}

// A Word is what the supervisor says of a job's end: one with Leader as soon as the command itself has ended, one with Final
// when clean-up is proved or its deadline is over. After a Final that is not Proven there is another if it is proved later.
type Word struct {
	Refused string `json:"refused,omitempty"` // the command was not started: why, in words for the tenant

	Leader bool   `json:"leader,omitempty"`
	Status uint32 `json:"status"` // of the leader, as wait4(2) gives it

	Final     bool          `json:"final,omitempty"`
	Proven    bool          `json:"proven,omitempty"`
	Killed    int           `json:"killed"`
	Survivors int           `json:"survivors"`
	Pids      []Process     `json:"pids,omitempty"`
	Elapsed   time.Duration `json:"elapsed_ns"`
}

// A Process is a survivor, beyond reuse of its number.
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}
