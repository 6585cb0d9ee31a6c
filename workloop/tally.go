package workloop

import (
	"slices"

	"playground/workloop/loop"
)

// A call is a tool call that was allowed and whose result is not known yet.
type call struct {
	tool    string
	args    []byte
	domain  loop.Domain
	turn    int
	running bool // a mediated call that the kernel is carrying out
}

// A tally is the kernel's own count of what a run's tools did. A worker cannot add to it: a call enters when the kernel
// judges it, and leaves with its one result.
type tally struct {
	ok, failed int
	open       map[string]*call // by the id of the tool_call record
}

// allow enters a call that may be carried out.
func (t *tally) allow(id string, c *call) {
	if t.open == nil {
		t.open = map[string]*call{}
	}
	t.open[id] = c
}

// refused counts a call that was denied, stopped or cut off.
func (t *tally) refused() { t.failed++ }

// finish counts the result of an open call, and reports whether there was one.
func (t *tally) finish(id, status string) bool {
	if _, open := t.open[id]; !open {
		return false
	}
	delete(t.open, id)
	if status == loop.StatusOK {
		t.ok++
	} else {
		t.failed++
	}
	return true
}

// waiting returns how many open calls of tools nobody carries out yet.
func (t *tally) waiting(tools ...string) (n int) {
	for _, c := range t.open {
		if !c.running && slices.Contains(tools, c.tool) {
			n++
		}
	}
	return n
}

// close counts every call that never had a result as failed.
func (t *tally) close() {
	t.failed += len(t.open)
	t.open = nil
}

// fruitless reports whether there were calls and not one of them did what it should.
func (t *tally) fruitless() bool { return t.ok == 0 && t.failed > 0 }
