// Package workerapi is playground-reaperd's route for work-loop workers, and the client of it. A start is an upgrade: reaperd
// starts a confined worker, verifies every layer from outside, and sends its descriptors. The raw connection is the worker's
// life: closing it kills the worker, and at its end reaperd says how it ended and closes.
package workerapi

import (
	"strings"

	"playground/confine"
	"playground/fault"
)

// A Request asks for a worker.
type Request struct {
	Run    string         `json:"run"`    // names the run in the daemon's log: its thread
	Bounds confine.Bounds `json:"limits"` // what is zero, or above the daemon's, gets the daemon's
}

// check refuses a name that would make a log hard to read.
func (r Request) check() error {
	const most = 128
	bad := strings.ContainsFunc(r.Run, func(c rune) bool { return c <= ' ' || c > '~' })
	if r.Run == "" || len(r.Run) > most || bad {
		return fault.New(fault.Invalid, "run must be 1 to %d printable characters without a space", most)
	}
	return nil
}

// started is the first message on the raw connection; the descriptors of the doors, standard input and output ride on it.
type started struct {
	PID      int               `json:"pid"`
	Report   confine.Report    `json:"report"`
	Attempts []confine.Attempt `json:"attempts"`
}
