package workloop

import (
	"slices"
	"sync"
)

// An index knows where the records of each run are, so that a list of runs need not read the log whole.
type index struct {
	mu       sync.Mutex // guards what follows
	byThread map[string]*entry
	order    []*entry          // the oldest first
	lives    map[string]string // principal -> id of the record that retired the last bearer of its name; "" for the first one
}

// An entry is one run.
type entry struct {
	thread    string
	principal string
	life      string // of the principal, when the run was started
	actor     string
	anchor    string // id
	started   int64  // Unix seconds
	state     string
	outcome   string // id of the newest outcome, "" before there is one
	request   string // id of the question that a waiting run has
	claimed   bool   // somebody is answering or stopping the waiting run
}

// add enters a run.
func (x *index) add(n *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n.life = x.lives[n.principal]
	x.byThread[n.thread] = n
	x.order = append(x.order, n)
}

// retire begins the next life of a principal's name.
func (x *index) retire(principal, record string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lives[principal] = record
}

// life returns the present life of a principal's name.
func (x *index) life(principal string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lives[principal]
}

// owns reports whether a run is of the plan's principal, and not of an earlier bearer of its name.
func (p *plan) owns(n entry) bool { return n.principal == p.principal && n.life == p.life }

// get returns a copy of a run's entry.
func (x *index) get(thread string) (entry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.byThread[thread]
	if n == nil {
		return entry{}, false
	}
	return *n, true
}

// settle notes a run's newest outcome.
func (x *index) settle(thread, state, outcome, request string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.byThread[thread]; n != nil {
		n.state, n.request, n.claimed = state, request, false
		if outcome != "" {
			n.outcome = outcome
		}
	}
}

// claim takes a waiting run for one caller, who settles it or gives it back. A run is taken by its thread or by its question.
func (x *index) claim(thread, request string) (n entry, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.byThread[thread]
	if thread == "" {
		i := slices.IndexFunc(x.order, func(n *entry) bool { return n.request == request && request != "" })
		if i >= 0 {
			found = x.order[i]
		}
	}
	switch {
	case found == nil:
		return entry{}, notFound("run", thread)
	case found.state != WaitingOnYou || request != "" && found.request != request:
		return entry{}, notWaiting()
	case found.claimed:
		return entry{}, answered()
	}
	found.claimed = true
	return *found, nil
}

// giveBack ends a claim that came to nothing.
func (x *index) giveBack(thread string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.byThread[thread]; n != nil {
		n.claimed = false
	}
}

// newest returns copies of the entries that match, the newest first, looking at scan of them at most; more says that there are
// older ones that were not looked at.
func (x *index) newest(scan int, matches func(entry) bool) (found []entry, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, n := range slices.Backward(x.order) {
		if scan > 0 && len(x.order)-i > scan {
			return found, true
		}
		if matches(*n) {
			found = append(found, *n)
		}
	}
	return found, false
}
