// Package reaper owns one job's process tree: it starts the command inside the tenant's sandbox, hands on its output, ends
// the whole tree and proves that nothing of it is left.
//
// On Linux a job is a pid namespace of its own under a small init (Init, run by playground-supervise). When the init has
// been waited for, the kernel has killed and reaped every process of the namespace first (pid_namespaces(7), kernel
// pid_namespace.c zap_pid_ns_processes), so a readable pidfd of the init is the proof; no list of processes is trusted.
package reaper

import (
	"context"
	"os"
	"time"

	"playground/jail"
)

// startMessage is the first message on a job's connection. It comes with three descriptors: standard input, output and
// error. Strings are bytes because a command may hold any of them but NUL.
type startMessage struct {
	Argv [][]byte `json:"argv"` // Argv[0] is an absolute path inside the sandbox
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir"` // absolute
}

// A killMessage asks the init to signal everything in the job, itself excepted.
type killMessage struct {
	Signal int `json:"signal"`
}

// An endMessage is what the init says of the end. The first, with Leader set, comes as soon as the leader has ended and the
// rest is being killed; the last when no process is left. A command that could not be started has one with Refused alone.
type endMessage struct {
	Leader   bool   `json:"leader,omitempty"`
	Refused  string `json:"refused,omitempty"` // why, in words for the tenant
	Status   uint32 `json:"status"`            // as wait4(2) gives it
	Killed   int    `json:"killed"`            // processes that had to be killed
	DiskFull bool   `json:"disk_full,omitempty"`
	// Empty: the init had no child left. Where no pid namespace gives the proof, this is it.
	Empty bool `json:"empty,omitempty"`
}

// Jails is who knows the tenants' sandboxes: jaild.
type Jails interface {
	Attachment(ctx context.Context, tenant string) (jail.Attachment, error)
	Connect(ctx context.Context, tenant string) (*os.File, error)
}

// Options configure a Runner.
type Options struct {
	TermGrace     time.Duration // between SIGTERM and SIGKILL when a command must end
	ProofDeadline time.Duration // from the beginning of the end to the proof
}
