// Package escape tries to get out of a work-loop worker. It runs inside of one, in place of the loop, when the handoff asks for
// it: it reaches for what the plan names on the host, for the network, for the kernel, and for more than the doors give, and
// records the error that each attempt got. A layer that stops working turns its rows red.
package escape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"playground/confine"
)

// The shapes of a suite that runs.
const (
	SameUser   = "same-user"   // all daemons are an ordinary user's, and so are workers, in namespaces of their own
	RootDaemon = "root-daemon" // playground-reaperd is root, and each worker has a user id of its own
)

// A Plan is what to reach for. It is the handoff's field "escape".
type Plan struct {
	Shape     string            `json:"shape"`     // what the daemon runs as, such as SameUser; it is repeated in every row
	Processes []int             `json:"processes"` // the daemons: looked at, traced, signalled
	Ports     []int             `json:"ports"`     // of 127.0.0.1, where something listens
	Sockets   []string          `json:"sockets"`   // paths where something listens
	Files     []string          `json:"files"`     // that exist, and are not for a worker: databases, tokens, the configuration
	Folders   []string          `json:"folders"`   // to list, and to create something in
	Programs  []string          `json:"programs"`  // to execute
	Other     string            `json:"other"`     // a thread that is not the run's
	Ended     string            `json:"ended"`     // the credential of a run that has ended; "" = none is at hand
	UseUp     string            `json:"use_up"`    // "cpu", "memory" or "threads": use that up, which ends the worker; "" = nothing
	Thread    string            `json:"-"`         // the run's own
	Bearer    string            `json:"-"`         // its credential
	Doors     net.Conn          `json:"-"`         // where the doors are; nil = they are not tried
	Start     []confine.Attempt `json:"-"`         // what the worker tried while it was confined
}

// Parse reads a plan.
func Parse(text json.RawMessage) (Plan, error) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	var p Plan
	if err := dec.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("cannot read the plan of the escape suite: %w", err)
	}
	if p.Shape == "" {
		return Plan{}, errors.New("cannot read the plan of the escape suite: it names no shape")
	}
	if !slices.Contains([]string{"", "cpu", "memory", "threads"}, p.UseUp) {
		return Plan{}, fmt.Errorf("cannot use up %q: want cpu, memory or threads", p.UseUp)
	}
	return p, nil
}

// Doors is the layer of rows about what the doors refuse. It is the daemon's, not one around the process.
const Doors confine.Layer = "doors"

// A Row is one attempt and what came of it.
type Row struct {
	Shape string `json:"shape"`
	Row   int    `json:"row"`
	confine.Attempt
}

// Run makes every attempt and gives each row to emit. It returns how many were made and how many of them did not fail as they must.
func Run(p Plan, emit func(Row) error) (made, red int, err error) {
	attempts := slices.Concat(p.Start, again(p), targets(p))
	if p.Doors != nil {
		attempts = append(attempts, doors(p)...)
	}
	for i, a := range attempts {
		if !a.Pass {
			red++
		}
		if err := emit(Row{p.Shape, i + 1, a}); err != nil {
			return i, red, err
		}
	}
	return len(attempts), red, nil
}

// again makes the attempts of the start anew, now that a run holds a credential.
func again(p Plan) []confine.Attempt {
	var all []confine.Attempt
	for _, pid := range p.Processes {
		for _, a := range confine.Refused(pid) {
			a.Name = fmt.Sprintf("%s (running, process %d)", a.Name, pid)
			all = append(all, a)
		}
	}
	return all
}

// Used is the row of a worker that used something up, from how it ended.
func Used(shape string, row int, what string, exit confine.Exit) Row {
	a := confine.Attempt{Layer: confine.Limits, Name: "use up: " + what, Expect: "an end", Errno: fmt.Sprintf("exit %d", exit.Status)}
	if exit.Signal != "" {
		a.Errno = exit.Signal
	}
	switch what {
	case "cpu":
		a.Expect = "SIGKILL"
		a.Pass = exit.Signal == "SIGKILL"
	default:
		const crashed = 2 // a Go program that gets no memory or thread; 1 is a worker that had a complaint before
		a.Pass = exit.Signal != "" || exit.Status == crashed
	}
	a.Pass = a.Pass && exit.Cleanup.Proven
	return Row{shape, row, a}
}

// Write renders rows as a table, red ones first, and then how many there are of each layer.
func Write(w io.Writer, rows []Row) error {
	var b strings.Builder
	type tally struct{ made, red int }
	tallies := make(map[confine.Layer]tally)
	for _, r := range rows {
		t := tallies[r.Layer]
		t.made++
		if !r.Pass {
			t.red++
			fmt.Fprintf(&b, "RED  %s %d  %-13s %s: %s, want %s\n", r.Shape, r.Row, r.Layer, r.Name, r.Errno, r.Expect)
		}
		tallies[r.Layer] = t
	}
	for _, layer := range append(confine.Layers(), Doors) {
		t, ok := tallies[layer]
		if !ok {
			continue
		}
		word := "ok "
		if t.red > 0 {
			word = "RED"
		}
		fmt.Fprintf(&b, "%s  %-13s %3d attempts, %d red\n", word, layer, t.made, t.red)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// RowOf reads a row from the text of a note that a worker left; false if the note is another.
func RowOf(text string) (Row, bool) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	var r Row
	err := dec.Decode(&r)
	return r, err == nil && r.Shape != "" && r.Row > 0 && r.Layer != ""
}
