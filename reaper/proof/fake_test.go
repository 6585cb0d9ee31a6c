package proof_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"playground/reaper/bsdproc"
	"playground/reaper/proof"
)

// A proc is one process of the fake kernel.
type proc struct {
	pid, parent int // parent is who waits for it now: its tracer while it is traced
	real        int // the true parent while it is traced
	reaper      int
	subtree     int
	acquired    bool // it is a reaper
	zombie      bool
	killed      bool // a SIGKILL is pending
	stopped     bool
	tracer      int
	otherSignal bool // announces its end with another signal than SIGCHLD: rfork(RFTSIGZMB)
	parked      bool // made by pdfork, the descriptor lies in a socket somewhere
	stuck       bool // in a sleep that nothing ends
	asleep      bool // throttled by rctl: SIGKILL waits
	jailed      bool
	job         bool // descends from the supervisor: what the proof is about
	born        time.Time
}

// maxProcs bounds the model, as a host's limit of processes would.
const maxProcs = 160

const (
	initPid   = 1
	daemonPid = 5  // reaperd
	superPid  = 10 // the job's supervisor
	otherPid  = 20 // the supervisor of another job
	endedPid  = 30 // one that has ended and that somebody else is about to wait for
)

// A fakeKernel is a model of the parts of the FreeBSD kernel that the end of a job meets: reapers and abandonment
// (kern_exit.c, kern_procctl.c), both kinds of waiting, tracing, dying jails and rctl. Between any two calls the job's
// processes act as badly as chance allows.
type fakeKernel struct {
	self  int
	procs map[int]*proc
	order []int // by age, youngest last
	next  int
	now   time.Time
	rng   *rand.Rand

	removed     bool // the jail is dying
	reused      bool // it was seen gone, and its number is another's now
	references  time.Time
	frozen      bool
	calm        bool // the job's processes do nothing by themselves
	truncate    bool // lists lose their oldest entries
	refuse      map[string]int
	wipes       bool // somebody restarts rctl now and then
	throttled   bool // rctl puts processes to sleep
	calls       int
	kills       int
	touched     []string // what the end did to processes that are not the job's
	maxRunnable int
}

func newKernel(seed uint64) *fakeKernel {
	k := &fakeKernel{
		self: superPid, procs: map[int]*proc{}, next: 100, now: time.Unix(1000, 0), rng: rand.New(rand.NewPCG(seed, 1)),
		refuse: map[string]int{}, maxRunnable: 60,
	}
	k.add(&proc{pid: initPid, acquired: true})
	k.add(&proc{pid: daemonPid, parent: initPid, reaper: initPid, acquired: true})
	k.add(&proc{pid: superPid, parent: daemonPid, reaper: daemonPid, subtree: superPid, acquired: true})
	k.add(&proc{pid: otherPid, parent: daemonPid, reaper: daemonPid, subtree: otherPid, acquired: true})
	k.add(&proc{pid: 21, parent: otherPid, reaper: otherPid, subtree: 21})
	k.add(&proc{pid: endedPid, parent: daemonPid, reaper: daemonPid, subtree: endedPid, acquired: true, zombie: true})
	return k
}

func (k *fakeKernel) add(p *proc) *proc {
	p.born = k.now
	k.procs[p.pid] = p
	k.order = append(k.order, p.pid)
	return p
}

// leader starts the job's first process.
func (k *fakeKernel) leader() *proc {
	p := k.fork(k.procs[superPid], forkPlain)
	p.jailed, p.job = true, true
	return p
}

type forkKind int

const (
	forkPlain  forkKind = iota
	forkNoWait          // rfork(RFNOWAIT): the child is the reaper's at once
	forkSignal          // rfork(RFNOWAIT|RFTSIGZMB)
	forkParked          // pdfork
)

// fork makes a child, nil if the kernel refuses. In a dying jail it ends before its first instruction.
func (k *fakeKernel) fork(p *proc, kind forkKind) *proc {
	if p.zombie || p.jailed && k.frozen || len(k.procs) > maxProcs {
		return nil
	}
	k.next++
	c := &proc{pid: k.next, parent: p.pid, jailed: p.jailed, job: p.job}
	c.reaper, c.subtree = p.reaper, p.subtree
	if kind == forkNoWait || kind == forkSignal {
		c.parent = p.reaper
	} else if p.acquired {
		c.reaper, c.subtree = p.pid, c.pid
	}
	c.otherSignal, c.parked = kind == forkSignal, kind == forkParked
	k.add(c)
	if c.jailed && k.removed {
		k.exit(c)
	}
	return c
}

func (k *fakeKernel) acquire(p *proc) { p.acquired = true }

// trace makes t the tracer of p and stops it.
func (k *fakeKernel) trace(t, p *proc) {
	if p.tracer != 0 || p.zombie || t.zombie || t == p {
		return
	}
	for a := t; a != nil && a.tracer != 0; a = k.procs[a.tracer] { // tracing an ancestor while traced is refused
		if a.tracer == p.pid {
			return
		}
	}
	p.real, p.parent, p.tracer, p.stopped = p.parent, t.pid, t.pid, true
}

// exit ends p. Its children go to their reaper, which changes nothing where that is p itself.
func (k *fakeKernel) exit(p *proc) {
	p.zombie, p.killed, p.stopped = true, false, false
	for _, pid := range k.order {
		c := k.procs[pid]
		if c == p {
			continue
		}
		switch {
		case c.tracer == p.pid: // its tracer is gone: it is killed and returns to its own parent
			c.parent, c.real, c.tracer, c.stopped, c.killed = c.real, 0, 0, false, true
			if c.parent == p.pid {
				c.parent = c.reaper
			}
		case c.parent == p.pid:
			c.parent = c.reaper
		}
		if c.real == p.pid {
			c.real = c.reaper
		}
	}
}

// initCollects is what process 1 does with all that comes to it.
func (k *fakeKernel) initCollects() {
	for _, pid := range slices.Clone(k.order) {
		if p := k.procs[pid]; p != nil && p.zombie && p.parent == initPid {
			k.collected(p)
		}
	}
}

// collected takes a zombie away; only now are its descendants its reaper's.
func (k *fakeKernel) collected(p *proc) {
	for _, pid := range k.order {
		c := k.procs[pid]
		if c.reaper == p.pid && c != p {
			c.reaper, c.subtree = p.reaper, p.subtree
			if c.parent == p.pid {
				c.parent = c.reaper
			}
			if c.real == p.pid {
				c.real = c.reaper
			}
		}
	}
	delete(k.procs, p.pid)
	k.order = slices.DeleteFunc(k.order, func(pid int) bool { return pid == p.pid })
}

// signal kills p, now or as soon as it can be. One that is about to fork finishes that first.
func (k *fakeKernel) signal(p *proc) {
	if p.zombie {
		return
	}
	if !k.calm && !p.stopped && k.rng.IntN(4) == 0 {
		k.fork(p, forkKind(k.rng.IntN(4)))
	}
	p.killed = true
	if p.tracer == 0 {
		p.stopped = false // SIGKILL ends a stop, but not that of a tracer
	}
}

// run lets one process act.
func (k *fakeKernel) run() {
	var runnable []*proc
	for _, pid := range k.order {
		if p := k.procs[pid]; !p.zombie && !p.stuck && !p.stopped && !p.asleep && (p.jailed || p.job) {
			runnable = append(runnable, p)
		}
	}
	if len(runnable) == 0 {
		return
	}
	p := runnable[k.rng.IntN(len(runnable))]
	if p.killed {
		k.exit(p)
		return
	}
	if k.calm {
		return
	}
	any := k.procs[k.order[k.rng.IntN(len(k.order))]]
	switch k.rng.IntN(12) {
	case 0, 1:
		if len(runnable) < k.maxRunnable {
			k.fork(p, forkKind(k.rng.IntN(4)))
		}
	case 2:
		k.acquire(p)
	case 3:
		k.exit(p)
	case 4: // acquire, fork, die first
		k.acquire(p)
		if len(runnable) < k.maxRunnable {
			k.fork(p, forkPlain)
		}
		k.exit(p)
	case 5:
		if any.jailed {
			k.trace(p, any)
		}
	case 6:
		if any.jailed && !any.zombie && any.tracer == 0 {
			any.stopped = true
		}
	case 7:
		if any.jailed && any.tracer == p.pid {
			any.parent, any.real, any.tracer, any.stopped = any.real, 0, 0, false
		}
	case 8: // collects its own children
		k.waitFor(p.pid, -1, k.rng.IntN(2) == 0)
	case 9:
		if k.throttled {
			p.asleep = true
		}
	}
}

// tick is time and everybody else between two calls of the one under test.
func (k *fakeKernel) tick(d time.Duration) {
	k.calls++
	k.now = k.now.Add(d)
	for range k.rng.IntN(3) + int(min(d/(200*time.Microsecond), 100)) {
		k.run()
	}
	k.initCollects()
	if k.wipes && k.rng.IntN(50) == 0 {
		k.frozen = false
	}
}

func (k *fakeKernel) refused(what string) error {
	if n := k.refuse[what]; n != 0 {
		k.refuse[what] = max(n-1, -1)
		return errors.New("refused")
	}
	return nil
}

// What follows is proof.Kernel.

func (k *fakeKernel) Status() (bsdproc.Status, error) {
	k.tick(20 * time.Microsecond)
	if err := k.refused("status"); err != nil {
		return bsdproc.Status{}, err
	}
	return k.status(), nil
}

func (k *fakeKernel) status() bsdproc.Status {
	st := bsdproc.Status{Reaper: int32(k.self), Pid: -1}
	if k.procs[k.self].acquired {
		st.Flags = bsdproc.StatusOwned
	}
	for _, pid := range k.order {
		p := k.procs[pid]
		if p.reaper != k.self {
			continue
		}
		st.Descendants++
		st.Pid = int32(p.pid)
		if p.trueParent() == k.self {
			st.Children++
		}
	}
	return st
}

func (p *proc) trueParent() int {
	if p.tracer != 0 {
		return p.real
	}
	return p.parent
}

func (k *fakeKernel) Pids(capacity int) ([]bsdproc.PidInfo, error) {
	counted := int(k.status().Descendants) // in an earlier lock section
	k.tick(20 * time.Microsecond)
	if err := k.refused("pids"); err != nil {
		return nil, err
	}
	var list []bsdproc.PidInfo
	for _, pid := range slices.Backward(k.order) {
		p := k.procs[pid]
		if p.reaper != k.self || len(list) == min(capacity, counted) {
			continue
		}
		info := bsdproc.PidInfo{Pid: int32(p.pid), Subtree: int32(p.subtree), Flags: bsdproc.PidValid}
		if p.trueParent() == k.self {
			info.Flags |= bsdproc.PidChild
		}
		if p.acquired {
			info.Flags |= bsdproc.PidReaper
		}
		list = append(list, info)
	}
	if k.truncate && len(list) > 0 {
		list = list[:k.rng.IntN(len(list)+1)]
	}
	return list, nil
}

func (k *fakeKernel) Kill(branch int) error {
	k.tick(20 * time.Microsecond)
	k.kills++
	if err := k.refused("kill"); err != nil {
		return err
	}
	k.killList(k.self, branch)
	return nil
}

// killList is PROC_REAP_KILL: it enters living nested reapers and passes over those that are zombies.
func (k *fakeKernel) killList(reaper, branch int) {
	for _, pid := range slices.Clone(k.order) {
		p := k.procs[pid]
		if p == nil || p.reaper != reaper || branch != 0 && p.subtree != branch {
			continue
		}
		if !p.job {
			k.touched = append(k.touched, "killed")
			continue
		}
		if p.acquired && !p.zombie {
			k.killList(p.pid, 0)
		}
		k.signal(p)
	}
}

func (k *fakeKernel) Wait(pid int, linuxClone bool) (int, syscall.WaitStatus, error) {
	k.tick(20 * time.Microsecond)
	if err := k.refused("wait"); err != nil {
		return 0, 0, err
	}
	return k.waitFor(k.self, pid, linuxClone)
}

func (k *fakeKernel) waitFor(caller, pid int, linuxClone bool) (int, syscall.WaitStatus, error) {
	found := false
	for _, id := range k.order {
		p := k.procs[id]
		if pid > 0 && p.pid != pid || pid < 0 && p.parked {
			continue
		}
		if p.parent != caller {
			found = found || p.real == caller // traced by somebody else
			continue
		}
		if p.otherSignal != linuxClone {
			continue
		}
		found = true
		if !p.zombie {
			continue
		}
		if p.tracer == caller && p.real != caller { // the tracer has seen it: now it is its parent's
			p.parent, p.real, p.tracer = p.real, 0, 0
			return p.pid, 9, nil
		}
		if caller == k.self && !p.job {
			k.touched = append(k.touched, "waited for")
		}
		k.collected(p)
		return p.pid, 9, nil
	}
	if !found {
		return 0, 0, proof.ErrNoChild
	}
	return 0, 0, nil
}

func (k *fakeKernel) RemoveJail() error {
	k.tick(20 * time.Microsecond)
	if err := k.refused("remove"); err != nil {
		return err
	}
	if k.reused {
		k.touched = append(k.touched, "removed another's jail")
	}
	k.removed = true
	for _, pid := range slices.Clone(k.order) {
		if p := k.procs[pid]; p != nil && p.jailed {
			k.signal(p)
		}
	}
	return nil
}

func (k *fakeKernel) JailState() (bsdproc.JailState, error) {
	k.tick(20 * time.Microsecond)
	if err := k.refused("state"); err != nil {
		return bsdproc.JailUnknown, err
	}
	if k.reused {
		return bsdproc.JailAlive, nil
	}
	state := k.jailState()
	k.reused = state == bsdproc.JailGone
	return state, nil
}

func (k *fakeKernel) jailState() bsdproc.JailState {
	switch {
	case !k.removed:
		return bsdproc.JailAlive
	case k.inJail() > 0 || k.now.Before(k.references):
		return bsdproc.JailDying
	}
	return bsdproc.JailGone
}

func (k *fakeKernel) inJail() (n int) {
	for _, p := range k.procs {
		if p.jailed {
			n++
		}
	}
	return n
}

// JailProcesses misses what was born a moment ago.
func (k *fakeKernel) JailProcesses() (int, error) {
	k.tick(100 * time.Microsecond)
	if err := k.refused("scan"); err != nil {
		return 0, err
	}
	n := 0
	for _, p := range k.procs {
		if p.jailed && k.now.Sub(p.born) > time.Millisecond {
			n++
		}
	}
	return n, nil
}

func (k *fakeKernel) Freeze() error {
	k.tick(20 * time.Microsecond)
	if err := k.refused("freeze"); err != nil {
		return err
	}
	k.frozen = true
	return nil
}

func (k *fakeKernel) Wake() error {
	k.tick(20 * time.Microsecond)
	if err := k.refused("wake"); err != nil {
		return err
	}
	k.throttled = false
	for _, p := range k.procs {
		p.asleep = false
	}
	return nil
}

func (k *fakeKernel) Unlimit() error {
	k.tick(20 * time.Microsecond)
	k.frozen = false
	return k.refused("unlimit")
}

func (k *fakeKernel) Now() time.Time        { return k.now }
func (k *fakeKernel) Pause(d time.Duration) { k.tick(d) }

// loseSupervisor kills the job's supervisor and has reaperd wait for it; the end is reaperd's then.
func (k *fakeKernel) loseSupervisor() {
	s := k.procs[superPid]
	k.exit(s)
	k.collected(s)
	k.self = daemonPid
}

// left counts what the job has left, the living and the dead, and what else is in its jail.
func (k *fakeKernel) left() (n int) {
	for _, p := range k.procs {
		if p.job || p.jailed {
			n++
		}
	}
	return n
}
