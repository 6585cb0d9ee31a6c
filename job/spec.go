// Package job is what reaperd does with commands: it admits them within limits, runs them through a Runner, keeps their output
// for polling, cancels them, and stops admitting anything once a clean-up was not proved. It has no platform code.
package job

import (
	"context"
	"errors"
	"time"

	"playground/ring"
)

// A Mode says what shell runs the command.
type Mode string

const (
	// Login is "sh -lc COMMAND": profiles are read. Used by exec and jobs.
	Login Mode = "login"
	// Clean is "sh -c COMMAND sh ARGS...": an empty environment but for a fixed PATH. Used by file exchange.
	Clean Mode = "clean"
	// Program executes Argv without a shell, with exactly Env as its environment. Services only.
	Program Mode = "program"
)

// A Spec is one command of one tenant.
type Spec struct {
	Tenant  string `json:"tenant"`
	Command []byte `json:"command"` // shell text, any byte but NUL; at most Limits.CommandBytes
	// Args are the command's positional parameters ($1 and on), for clean scripts that must not quote paths.
	Args [][]byte `json:"args,omitempty"`
	Mode Mode     `json:"mode"`
	Cwd  string   `json:"cwd,omitempty"` // inside the sandbox; empty = the session's
	// Stdin is fed to the command and then closed; nil = no input (an immediate end of file).
	Stdin   []byte        `json:"stdin,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"` // 0 = the manager's default for the kind of run

	// The rest is a service's, and cannot be sent as part of a command: StartService sets it.
	Argv    [][]byte `json:"-"` // Argv[0] is an absolute path inside the sandbox
	Env     [][]byte `json:"-"` // NAME=value
	Service string   `json:"-"` // its id, by which the Runner can be asked for its processes
}

// An Outcome is how a command ended, as the kernel knows it.
type Outcome string

// The outcomes.
const (
	Exited    Outcome = "exited"    // it returned ExitCode
	Signalled Outcome = "signalled" // a signal that we did not send ended it
	TimedOut  Outcome = "timed_out" // its time was over; killed with its tree
	Cancelled Outcome = "cancelled" // somebody cancelled it; killed with its tree
	Failed    Outcome = "failed"    // it could not be started, or its supervisor was lost
)

// A Cleanup is the receipt for what a command left behind.
type Cleanup struct {
	Killed    int   `json:"killed"`    // processes that outlived the leader, or were killed with it
	Survivors int   `json:"survivors"` // 0 when proven
	Proven    bool  `json:"proven"`    // the kernel confirmed that nothing is left
	ElapsedMS int64 `json:"elapsed_ms"`
	// Pids are host process ids that could not be proved gone; for the operator's log only, never for a tenant.
	Pids []Leftover `json:"-"`
}

// A Leftover names a process beyond pid reuse.
type Leftover struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // start time in the platform's unit (Linux: clock ticks since boot)
}

// A Result is a command's end.
type Result struct {
	Outcome     Outcome  `json:"outcome"`
	ExitCode    *int     `json:"exit_code,omitempty"` // only for Exited
	Signal      string   `json:"signal,omitempty"`    // "SIGKILL", for Signalled
	Error       string   `json:"error,omitempty"`     // for Failed: a text for the tenant
	Hints       []string `json:"hints,omitempty"`     // what else was seen: memory limit, disk full, ...
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	DurationMS  int64    `json:"duration_ms"`
	Cleanup     Cleanup  `json:"cleanup"`
}

// Causes of a run's context, so that a Runner knows why it must stop.
var (
	ErrTimedOut  = errors.New("time limit reached")
	ErrCancelled = errors.New("cancelled")
)

// Output takes a command's output. Write never blocks and never fails; it copies p.
type Output interface {
	Write(stream ring.Stream, p []byte)
}

// A Runner runs one command to its proven end. When ctx ends (its context.Cause is ErrTimedOut, ErrCancelled or another
// error) the Runner kills the whole tree, first gently, and still returns only when clean-up is proved or the proof's
// deadline is over (Cleanup.Proven false). The error is a *fault.Error for a start that was refused, with no process
// left; a nil error means the Result is true. Run leaves StdoutBytes, StderrBytes and DurationMS to the Manager.
type Runner interface {
	Run(ctx context.Context, spec Spec, out Output) (Result, error)
}
