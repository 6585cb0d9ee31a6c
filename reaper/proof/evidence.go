package proof

import (
	"slices"
	"time"

	"playground/reaper/bsdproc"
)

// empty is the proof about a whole list. All four must agree.
func empty(st bsdproc.Status) bool {
	return st.Owned() && st.Children == 0 && st.Descendants == 0 && st.Pid == -1
}

// proved looks at the list first and at the jail after it: once the list is empty nothing can come to either of them but
// through the jail, and a jail that is dying lets nobody in.
func (e *Ending) proved() bool {
	if e.branch == 0 && !e.listEmpty() {
		return false
	}
	if e.jail != bsdproc.JailGone { // a number that is gone is not asked for again
		state := e.lookAtJail()
		if state != e.jail {
			e.progress()
		}
		e.jail = state
	}
	switch e.jail {
	case bsdproc.JailGone:
		// No credential of the jail is left, so no process. A branch could still have one that was never attached.
		return e.branch <= 0 || e.lookAtBranch() == nothing
	case bsdproc.JailDying:
		return e.onlyReferences()
	case bsdproc.JailAlive:
		e.removed = false
	}
	return false
}

func (e *Ending) lookAtJail() bsdproc.JailState {
	state, err := e.k.JailState()
	e.note("jail state", err)
	if err != nil {
		return bsdproc.JailUnknown
	}
	return state
}

func (e *Ending) listEmpty() bool {
	st, err := e.k.Status()
	e.note("status", err)
	if err != nil {
		return false
	}
	if st.Descendants < e.last {
		e.progress()
	}
	e.last = st.Descendants
	return empty(st)
}

// What a look can show.
type look uint8

const (
	unclear look = iota
	something
	nothing
)

// lookAtBranch says nothing only of a list that was complete: the kernel counted as many entries before and after as it
// gave. An entry of the branch is something in any list.
func (e *Ending) lookAtBranch() look {
	before, err := e.k.Status()
	e.note("status", err)
	if err != nil || !before.Owned() {
		return unclear
	}
	list, err := e.k.Pids(capacity(before, nil))
	e.note("list", err)
	if err != nil {
		return unclear
	}
	if slices.ContainsFunc(list, e.ours) {
		return something
	}
	after, err := e.k.Status()
	e.note("status", err)
	if err != nil || int(before.Descendants) != len(list) || int(after.Descendants) != len(list) {
		return unclear
	}
	return nothing
}

// lookAtTable looks for processes of the jail in the process table.
func (e *Ending) lookAtTable() look {
	n, err := e.k.JailProcesses()
	e.note("process table", err)
	switch {
	case err != nil:
		return unclear
	case n > 0:
		return something
	}
	return nothing
}

// onlyReferences reports whether two looks at the process table, some time apart, showed nothing of a dying jail: then what
// keeps it is a socket or an open file, which runs nothing.
func (e *Ending) onlyReferences() bool {
	seen := e.lookAtTable()
	if seen == nothing && e.branch > 0 {
		seen = e.lookAtBranch()
	}
	switch now := e.k.Now(); {
	case seen == something:
		e.clean = time.Time{}
	case seen == nothing && e.clean.IsZero():
		e.clean = now
	case seen == nothing:
		return now.Sub(e.clean) >= scanGap
	}
	return false
}
