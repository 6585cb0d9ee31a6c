// Package reaper owns one job's process tree: it starts the command inside the tenant's sandbox, hands on its output, ends
// the whole tree and proves that nothing of it is left.
//
// On Linux a job is a pid namespace of its own under a small init (package jobinit). When the init has
// been waited for, the kernel has killed and reaped every process of the namespace first (pid_namespaces(7), kernel
// pid_namespace.c zap_pid_ns_processes), so a readable pidfd of the init is the proof; no list of processes is trusted. A job that
// ended by itself and left nothing is proved without that end: the kernel lists no child of the init, which waits meanwhile,
// and whatever loses its parent in the namespace becomes one. The init is then used again.
//
// On FreeBSD a job has a leaf jail of its own (package leaf) under a supervisor (package supervisor) that is the reaper of all
// it starts, and the proof is the kernel's count of that reaper's descendants (package proof).
package reaper

import (
	"context"
	"os"
	"time"

	"playground/jail"
	"playground/racct"
)

// Jails is who knows the tenants' sandboxes: jaild.
type Jails interface {
	Attachment(ctx context.Context, tenant string) (jail.Attachment, error)
	Connect(ctx context.Context, tenant string) (*os.File, error)
}

// Options configure a Runner.
type Options struct {
	TermGrace     time.Duration // between SIGTERM and SIGKILL when a command must end
	ProofDeadline time.Duration // from the beginning of the end to the proof
	// Journal is the folder in which unproved ends are written down (Linux); "" = nowhere.
	Journal Journal

	// The rest is for FreeBSD; on Linux sandboxes have their own inits.
	Supervise string   // path of the playground-supervise program
	Warm      int      // supervisors kept ready
	Log       *os.File // takes what supervisors tell the operator; nil = nowhere
}

// Vitals are what the kernel says of a running service.
type Vitals struct {
	Pid   int         // of its program, on the host
	Usage racct.Usage // of all its processes, by rctl(8) resource; nil where it could not be read
}

// A Journal is a folder with an empty file for each job whose end is not proved yet, named after its init (Linux; on FreeBSD the
// leaf jails and rules tell). It outlives this process, so that one that dies in the middle of an end leaves word of what may be
// left. It need not outlive the host: a boot leaves no process. "" keeps no journal.
type Journal string
