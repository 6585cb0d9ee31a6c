package workloop

import (
	"maps"
	"slices"
	"sync"
)

// An index knows where the records of each run are, so that a list of runs need not read the log whole.
type index struct {
	mu       sync.Mutex // guards what follows
	byThread map[string]*entry
	order    []*entry                 // the oldest first
	lives    map[string]string        // principal -> id of the record that retired the last bearer of its name; "" for the first one
	moving   map[string]chan struct{} // by thread: closed when a move is over
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

// move announces a record that changes the state of a run. Until done is called whoever asks for the run waits, so that nobody who has
// seen the record is told of the state before it.
func (x *index) move(thread string) (done func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	moved := make(chan struct{})
	x.moving[thread] = moved
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.moving[thread] == moved { // the next one may have begun: a run can end before its start has returned
			delete(x.moving, thread)
		}
		close(moved)
	}
}

// still waits for the moves that are under way: that of a thread, or all where thread is "". A move takes as long as a record.
func (x *index) still(thread string) {
	x.mu.Lock()
	moves := []chan struct{}{}
	if thread == "" {
		moves = slices.Collect(maps.Values(x.moving))
	} else if moved, ok := x.moving[thread]; ok {
		moves = append(moves, moved)
	}
	x.mu.Unlock()
	for _, moved := range moves {
		<-moved
	}
}

// get returns a copy of a run's entry.
func (x *index) get(thread string) (entry, bool) {
	x.still(thread)
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

// claim takes a waiting run for one caller, who settles it or gives it back. request is the question that it must wait with; "" is any.
func (x *index) claim(thread, request string) (n entry, err error) {
	x.still(thread)
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.byThread[thread]
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
// older ones that were not looked at. matches is called while mu is held.
func (x *index) newest(scan int, matches func(entry) bool) (found []entry, more bool) {
	x.still("")
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
