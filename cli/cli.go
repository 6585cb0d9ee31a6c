// Package cli holds the operator's commands as functions, one file per command: what cmd/playground's flags call, and what
// tests call without a process. A command talks to the daemon that owns the thing it changes, writes what the operator
// asked for to Stdout and news to Stderr, and returns an error whose text and hint Report shows.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"playground/config"
	"playground/fault"
)

// An Env is what a command may use of the world around it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // data: what a script reads
	Stderr io.Writer // news: what a person reads
	Getenv func(string) string
	Uid    int
	Bin    string // the folder of this program, where the daemons lie too
	Config string // the configuration file named with -c, or ""
	JSON   bool   // -o json or -o stream-json
	Stream bool   // -o stream-json: one line for each thing
	Screen Screen // what Stdout is
}

// A UsageError is a command line that cannot be understood.
type UsageError struct{ Err error }

// Error returns the text.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// A StatusError ends the program with a status of its own and without a text: the command has already said everything.
type StatusError int

// Error returns a text for logs and tests.
func (e StatusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitCode returns the program's exit status for a command's error: 0 done, 1 failed, 2 misused.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[StatusError](err); ok {
		return int(status)
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return 2
	}
	return 1
}

// Report shows an error to the operator: what is wrong, and the next step where one is known.
func Report(w io.Writer, err error) {
	if err == nil {
		return
	}
	if _, ok := errors.AsType[StatusError](err); ok {
		return
	}
	text, hint := err.Error(), fault.HintOf(err)
	switch {
	case errors.Is(err, context.Canceled):
		text, hint = "interrupted", ""
	case errors.Is(err, context.DeadlineExceeded):
		text = "no answer in time"
	}
	fmt.Fprintf(w, "playground: %s\n", strings.Join(lines(text), "\n"))
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", strings.Join(lines(hint), "\n"))
	}
}

// load reads the configuration that the operator meant: -c, then PLAYGROUND_CONFIG, then the state folder of "playground
// up", then the system's file.
func (e *Env) load() (config.Config, error) {
	path, err := e.ConfigPath()
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Load(path)
	if e, ok := errors.AsType[*fault.Error](err); ok && errors.Is(err, fs.ErrPermission) {
		_ = e.WithHint("run this as the user that the daemons run as, or name another file with -c")
	}
	return c, err
}
