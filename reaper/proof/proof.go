// Package proof ends a job's process tree on FreeBSD and proves that nothing of it is left.
//
// Every job has a leaf jail of its own and a supervisor that is the reaper (procctl(2)) of all it starts. The end is: wake
// sleepers and freeze (rctl(8)), remove the leaf jail, which kills all in it and lets nothing new run, and then collect the dead
// until the kernel's own count is zero. Neither a list of pids, nor "no such process", nor "no child" is ever taken as a proof:
// nested reapers that are zombies hide their descendants from all three, and a list may be cut short while somebody forks.
//
// Why a count of zero is a proof: a new process is put on a reaper's list inside fork(2), before its parent can end. It leaves
// that list only by being collected, or upwards, when its own reaper is collected, in the same critical section. So a living
// descendant always implies an entry on the list of the reaper that everything came from.
package proof

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"playground/reaper/bsdproc"
)

// ErrNoChild is returned by Kernel.Wait when the caller has no such child (ECHILD).
var ErrNoChild = errors.New("no such child")

// A Kernel is what the end of one job asks of the operating system. The caller is the reaper: the job's supervisor, or
// whoever is the supervisor's reaper after it was lost.
type Kernel interface {
	// Status is PROC_REAP_STATUS of the caller: one consistent moment.
	Status() (bsdproc.Status, error)
	// Pids is PROC_REAP_GETPIDS: at most capacity entries of the caller's list, of which some may be missing.
	Pids(capacity int) ([]bsdproc.PidInfo, error)
	// Kill is PROC_REAP_KILL with SIGKILL of the whole list, or of one branch. It may return before it is done.
	Kill(branch int) error
	// Wait collects one ended child without waiting, any for pid -1: its pid, or 0 when there is none to collect. With
	// linuxClone it sees only the children that announce their end with another signal than SIGCHLD, and else only the rest.
	Wait(pid int, linuxClone bool) (got int, status syscall.WaitStatus, err error)

	// RemoveJail is jail_remove(2) of the job's leaf jail, no error if it is gone.
	RemoveJail() error
	JailState() (bsdproc.JailState, error)
	// JailProcesses counts the processes of the leaf jail in one walk of the process table, which may miss new ones.
	JailProcesses() (int, error)

	// Freeze makes every fork in the leaf jail fail.
	Freeze() error
	// Wake takes away the limits that put processes into a sleep which SIGKILL does not end.
	Wake() error
	// Unlimit takes away all limits of the leaf jail.
	Unlimit() error

	Now() time.Time
	Pause(d time.Duration)
}

const (
	// patience is how long the end may stand still before PROC_REAP_KILL is used as well. On FreeBSD 13 that call may take
	// seconds while many processes die, so it is not the first means.
	patience = 100 * time.Millisecond
	// scanGap is between two looks at the process table. A process that the first missed because it was being created has
	// ended by then, since in a dying jail no new one reaches user code.
	scanGap  = 50 * time.Millisecond
	minPause = 200 * time.Microsecond
	maxPause = 20 * time.Millisecond
	// listAfter is the pause at which the wait for any child is not relied on any more. While many processes die it finds them,
	// and asking for each by pid would take the time that they need.
	listAfter = time.Millisecond
	// maxPasses and maxCollect bound one round, so that a tree that never stops dying cannot hide the deadline.
	maxPasses  = 64
	maxCollect = 4096
)

// A Report is what is known at the end, or at the deadline.
type Report struct {
	Proven    bool
	Killed    int   // processes that died of a signal since the end began
	Survivors int   // at least; 0 if proven
	Pids      []int // what could be listed of the survivors: never all, by intent
	Jail      bsdproc.JailState
	Elapsed   time.Duration
	Doubts    []string // what the kernel refused on the way
}

// An Ending is the end of one job. It is used by one goroutine.
type Ending struct {
	k      Kernel
	branch int
	reaped func(pid int, status syscall.WaitStatus)

	begun, moved time.Time // moved: the last time that something was seen to change
	last         uint32    // the last count of descendants
	pressed      time.Time // the last PROC_REAP_KILL
	jail         bsdproc.JailState
	removed      bool // the kernel took the jail's removal
	frozen       bool
	clean        time.Time // when the process table first showed nothing of the jail
	pause        time.Duration
	killed       int
	doubts       map[string]string
}

// New prepares the end of all that the caller has ever started, which is called by the job's supervisor. Reaped, if not
// nil, is told of every process collected.
func New(k Kernel, reaped func(pid int, status syscall.WaitStatus)) *Ending {
	return newEnding(k, 0, reaped)
}

// NewBranch prepares the end of what a lost supervisor left. The supervisor itself must have been waited for: that is what
// moves its descendants to the caller's list, where they keep its pid as the name of their branch. The caller must not start
// another supervisor while Run runs, or completeness of a list cannot be judged.
func NewBranch(k Kernel, supervisor int) (*Ending, error) {
	if supervisor <= 1 {
		return nil, fmt.Errorf("internal error: process %d was no supervisor", supervisor)
	}
	return newEnding(k, supervisor, nil), nil
}

// NewJail prepares the end of a leaf jail whose processes are not the caller's: what an earlier daemon left. They are on the
// lists of others, so the jail alone is looked at.
func NewJail(k Kernel) *Ending { return newEnding(k, jailOnly, nil) }

// jailOnly is the branch of no list.
const jailOnly = -1

func newEnding(k Kernel, branch int, reaped func(int, syscall.WaitStatus)) *Ending {
	if reaped == nil {
		reaped = func(int, syscall.WaitStatus) {}
	}
	return &Ending{k: k, branch: branch, reaped: reaped, doubts: make(map[string]string)}
}

// Run ends the job and returns when that is proved or the deadline is over. It may be called again with a later deadline.
func (e *Ending) Run(deadline time.Time) Report {
	if e.begun.IsZero() {
		e.begin()
	}
	for {
		e.collect(deadline)
		if e.proved() {
			e.note("remove limits", e.k.Unlimit())
			return e.report(true)
		}
		now := e.k.Now()
		if !now.Before(deadline) {
			return e.report(false)
		}
		e.press(now)
		e.k.Pause(min(e.nextPause(), deadline.Sub(now)))
	}
}

// begin wakes, freezes and removes. A step that the kernel refuses is tried again in press; it is never a reason to stop.
func (e *Ending) begin() {
	e.begun = e.k.Now()
	e.moved = e.begun
	if st, err := e.k.Status(); e.branch == 0 && err == nil && empty(st) {
		e.frozen = true // nothing is left that could fork
	} else {
		e.freeze()
	}
	e.remove()
}

func (e *Ending) remove() {
	err := e.k.RemoveJail()
	e.note("remove jail", err)
	e.removed = err == nil
}

func (e *Ending) freeze() {
	wakeErr, freezeErr := e.k.Wake(), e.k.Freeze()
	e.note("wake", wakeErr)
	e.note("freeze", freezeErr)
	e.frozen = wakeErr == nil && freezeErr == nil
}

// press does again what has not worked, and more.
func (e *Ending) press(now time.Time) {
	still := now.Sub(e.moved) >= patience && now.Sub(e.pressed) >= patience
	if still || !e.frozen {
		e.freeze() // also after somebody brought the limits back
	}
	if still && e.removed && e.jail != bsdproc.JailGone {
		e.jail = e.lookAtJail()
		e.removed = e.jail != bsdproc.JailAlive
	}
	// The number of a jail that is gone may be another's by now.
	if !e.removed && e.jail != bsdproc.JailGone {
		e.remove()
	}
	if still || !e.removed {
		e.pressed = now
		if e.branch != jailOnly {
			e.note("kill", e.k.Kill(e.branch))
		}
	}
}

// collect takes the dead off the list until a pass finds none. Each pass takes away one layer of zombie reapers, whose
// descendants come to light with it.
func (e *Ending) collect(deadline time.Time) {
	if e.branch == jailOnly {
		return
	}
	for range maxPasses {
		st, err := e.k.Status()
		e.note("status", err)
		if err == nil && empty(st) {
			return
		}
		n := 0
		if e.branch == 0 { // for a branch it would take the caller's other children away from whoever waits for them
			n = e.collectAny(false) + e.collectAny(true)
		}
		if n == 0 && (e.branch != 0 || e.pause >= listAfter) {
			n = e.collectListed(st, err)
		}
		if n == 0 {
			return
		}
		e.progress()
		if !e.k.Now().Before(deadline) {
			return
		}
	}
}

// collectListed waits by pid: the wait for any child does not see those whose process descriptor is open somewhere.
func (e *Ending) collectListed(st bsdproc.Status, statusErr error) (n int) {
	for _, p := range e.list(st, statusErr) {
		if p.Flags&bsdproc.PidChild != 0 && (e.wait(int(p.Pid), false) || e.wait(int(p.Pid), true)) {
			n++
		}
	}
	return n
}

func (e *Ending) collectAny(linuxClone bool) (n int) {
	for n < maxCollect && e.wait(-1, linuxClone) {
		n++
	}
	return n
}

// wait reports whether it collected a process.
func (e *Ending) wait(pid int, linuxClone bool) bool {
	got, status, err := e.k.Wait(pid, linuxClone)
	if err != nil && !errors.Is(err, ErrNoChild) {
		e.note("wait", err)
	}
	if err != nil || got <= 0 {
		return false
	}
	if status.Signaled() {
		e.killed++
	}
	e.reaped(got, status)
	return true
}

// list returns the entries of the branch, as far as the kernel shows them.
func (e *Ending) list(st bsdproc.Status, statusErr error) []bsdproc.PidInfo {
	all, err := e.k.Pids(capacity(st, statusErr))
	e.note("list", err)
	if e.branch == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(p bsdproc.PidInfo) bool { return !e.ours(p) })
}

// ours reports whether an entry belongs to the branch. The supervisor itself has its own pid as branch; once waited for
// it cannot be listed, and its pid is not used again while the branch lives.
func (e *Ending) ours(p bsdproc.PidInfo) bool { return e.branch == 0 || int(p.Subtree) == e.branch }

// capacity leaves room for what is forked meanwhile.
func capacity(st bsdproc.Status, err error) int {
	const unknown, most = 4096, 1 << 18
	if err != nil {
		return unknown
	}
	return int(min(2*uint64(st.Descendants)+64, most))
}

func (e *Ending) progress() {
	e.moved = e.k.Now()
	e.pause = 0
}

// nextPause grows while nothing changes.
func (e *Ending) nextPause() time.Duration {
	e.pause = min(max(minPause, 2*e.pause), maxPause)
	return e.pause
}

func (e *Ending) note(what string, err error) {
	if err != nil {
		e.doubts[what] = err.Error()
	}
}

func (e *Ending) report(proven bool) Report {
	r := Report{Proven: proven, Killed: e.killed, Jail: e.jail, Elapsed: e.k.Now().Sub(e.begun)}
	for _, what := range slices.Sorted(maps.Keys(e.doubts)) {
		r.Doubts = append(r.Doubts, what+": "+e.doubts[what])
	}
	if proven {
		return r
	}
	r.Survivors = 1
	if e.branch == jailOnly {
		return r
	}
	st, err := e.k.Status()
	for _, p := range e.list(st, err) {
		r.Pids = append(r.Pids, int(p.Pid))
	}
	r.Survivors = max(1, len(r.Pids))
	if e.branch == 0 && err == nil {
		r.Survivors = max(r.Survivors, int(st.Descendants))
	}
	return r
}
