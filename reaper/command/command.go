// Package command is what is alike on every platform around one running command: how it is called, its standard files, and
// why it had to end.
package command

import (
	"context"
	"errors"
	"strings"

	"playground/jail"
	"playground/job"
)

// A Command is what is executed inside the sandbox.
type Command struct {
	Argv [][]byte // Argv[0] is an absolute path
	Env  [][]byte
	Dir  []byte // absolute
}

// Of says how a job's command is run: a login shell with the session's environment, a clean shell with next to none, or a
// service's program with its own.
func Of(spec job.Spec, att jail.Attachment) Command {
	c := Command{Dir: []byte(att.Cwd)}
	if strings.HasPrefix(spec.Cwd, "/") {
		c.Dir = []byte(spec.Cwd)
	} else if spec.Cwd != "" {
		c.Dir = []byte(att.Cwd + "/" + spec.Cwd) // not cleaned: a link before ".." means what it means to cd
	}
	if spec.Mode == job.Program {
		c.Argv, c.Env = spec.Argv, spec.Env
		return c
	}
	if spec.Mode == job.Clean {
		c.Argv = append([][]byte{[]byte("/bin/sh"), []byte("-c"), spec.Command, []byte("sh")}, spec.Args...)
		c.Env = [][]byte{[]byte(cleanPath)}
		return c
	}
	c.Argv = [][]byte{[]byte("/bin/sh"), []byte("-lc"), spec.Command}
	for _, e := range att.Env {
		c.Env = append(c.Env, []byte(e))
	}
	return c
}

// cleanPath is the whole environment of file exchange, whatever the tenant's profile says.
const cleanPath = "PATH=/usr/bin:/bin:/usr/sbin:/sbin"

// OutcomeOf says why a run whose context has ended had to end.
func OutcomeOf(ctx context.Context) job.Outcome {
	if errors.Is(context.Cause(ctx), job.ErrTimedOut) {
		return job.TimedOut
	}
	return job.Cancelled
}
