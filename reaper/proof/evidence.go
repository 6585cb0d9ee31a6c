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
		return e.branch <= 0 || e.branchEmpty()
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

// branchEmpty reports whether a list that was complete shows nothing of the branch. It is complete when the kernel counted
// as many entries before and after as it gave.
func (e *Ending) branchEmpty() bool {
	before, err := e.k.Status()
	e.note("status", err)
	if err != nil || !before.Owned() {
		return false
	}
	list, err := e.k.Pids(capacity(before, nil))
	e.note("list", err)
	if err != nil {
		return false
	}
	after, err := e.k.Status()
	e.note("status", err)
	if err != nil || int(before.Descendants) != len(list) || int(after.Descendants) != len(list) {
		return false
	}
	return !slices.ContainsFunc(list, e.ours)
}

// onlyReferences reports whether two looks at the process table, some time apart, showed nothing of a dying jail: then what
// keeps it is a socket or an open file, which runs nothing.
func (e *Ending) onlyReferences() bool {
	n, err := e.k.JailProcesses()
	e.note("process table", err)
	if err != nil || n > 0 || e.branch > 0 && !e.branchEmpty() {
		e.clean = time.Time{}
		return false
	}
	now := e.k.Now()
	if e.clean.IsZero() {
		e.clean = now
		return false
	}
	return now.Sub(e.clean) >= scanGap
}
