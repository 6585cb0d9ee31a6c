// Package keeper keeps the workers of one daemon: it admits so many, gives each ids that no other has, starts and verifies it
// (package confine), and watches it to its proved end. A worker whose end cannot be proved is a lost proof, like a command's.
package keeper

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"playground/confine"
	"playground/fault"
)

// Limit is how many workers a daemon keeps at most.
const Limit = 64

// Options are a Keeper's. Program is required.
type Options struct {
	Program  string         // path of the worker's program
	Bounds   confine.Bounds // of a worker whose request names none
	UIDBase  int            // root: first of the IDs user and group ids of workers
	Prefix   string         // FreeBSD: of jail names
	Deadline time.Duration  // from the beginning of an end to the proof; 0 = 15 s

	// Admit refuses a start for reasons of the daemon's; nil admits.
	Admit func() error
	// Note writes a worker down before it is told anything, for a later process of the daemon; nil does not. What it returns
	// crosses it out.
	Note func(pid int) (func(), error)
	// Lost is told of a worker whose end could not be proved, and of what may be left; nil is not told.
	Lost func(left []confine.Leftover, reason string)
	// Seen is told of what happens, for the daemon's log; nil is not told.
	Seen func(Event)
}

// An Event is one line for a log.
type Event struct {
	Kind EventKind
	Run  string
	PID  int
	Took time.Duration // Started: from the request to the verified worker
	Exit confine.Exit  // Ended
	Err  error         // Refused; Ended: why its limits could not be kept in force
	Text string        // Ended: the first words on standard error of a worker that did not end well
}

// An EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	Started EventKind = "worker_started"
	Refused EventKind = "worker_refused"
	Ended   EventKind = "worker_ended"
)

// A Keeper keeps workers. Its methods may be called at once from any goroutine.
type Keeper struct {
	opts    Options
	program *confine.Program
	watches sync.WaitGroup
	life    context.Context // of starts: Stop ends it
	stop    context.CancelFunc

	// mu guards what follows.
	mu      sync.Mutex
	closing bool
	used    map[int]bool         // slots
	runs    map[string]bool      // that have a worker or are getting one
	next    int                  // the slot to try first
	workers map[*Worker]struct{} // started ones
}

// New opens the worker's program and returns a Keeper. Close it.
func New(o Options) (*Keeper, error) {
	if o.Deadline == 0 {
		o.Deadline = 15 * time.Second
	}
	o.Bounds = o.Bounds.WithDefaults()
	if err := o.Bounds.Validate(); err != nil {
		return nil, err
	}
	if err := supported(); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 && o.UIDBase <= 0 {
		return nil, fault.New(fault.Internal, "internal error: root's daemon has no user ids for workers")
	}
	program, err := confine.OpenProgram(o.Program)
	if err != nil {
		return nil, err
	}
	k := &Keeper{opts: o, program: program, used: make(map[int]bool), runs: make(map[string]bool), workers: make(map[*Worker]struct{})}
	k.life, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// Start starts a worker for a run. When it returns one, every layer was verified, and the worker has been told nothing yet.
// Kill it in the end. The end of ctx ends the start, and nothing after it.
func (k *Keeper) Start(ctx context.Context, run string, b confine.Bounds) (*Worker, error) {
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.life, cancel)()
	w, err := k.start(ctx, run, b)
	if err != nil {
		if k.life.Err() != nil {
			err = errClosing()
		}
		k.seen(Event{Kind: Refused, Run: run, Err: err, Took: time.Since(begun)})
		return nil, err
	}
	k.seen(Event{Kind: Started, Run: run, PID: w.PID, Took: time.Since(begun)})
	go w.watch()
	return w, nil
}

func (k *Keeper) seen(e Event) {
	if k.opts.Seen != nil {
		k.opts.Seen(e)
	}
}

func (k *Keeper) start(ctx context.Context, run string, b confine.Bounds) (*Worker, error) {
	b = merge(b, k.opts.Bounds)
	if err := b.Validate(); err != nil {
		return nil, err
	}
	if k.opts.Admit != nil {
		if err := k.opts.Admit(); err != nil {
			return nil, err
		}
	}
	slot, err := k.admit(run)
	if err != nil {
		return nil, err
	}
	defer k.watches.Done() // of the start alone
	ground, err := k.prepare(slot, b)
	if err != nil {
		k.release(slot, run)
		return nil, err
	}
	w := &Worker{keeper: k, run: run, slot: slot, ground: ground, ordered: make(chan struct{}), done: make(chan struct{}), forget: func() {}}
	w.proc, err = k.program.Start(ctx, confine.Start{Bounds: b, UID: ground.uid, GID: ground.gid, JID: ground.jid, Jail: sync.OnceValues(ground.look)})
	if err == nil {
		err = w.note()
	}
	if err != nil {
		w.abandon()
		return nil, err
	}
	w.PID, w.Report, w.Attempts = w.proc.PID, w.proc.Report, w.proc.Attempts
	w.Stdin, w.Stdout, w.Doors = w.proc.Stdin, w.proc.Stdout, w.proc.Doors
	if !k.enter(w) {
		w.abandon()
		return nil, errClosing()
	}
	return w, nil
}

// enter puts a worker on the list, which Close goes through.
func (k *Keeper) enter(w *Worker) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing {
		return false
	}
	k.watches.Add(1)
	k.workers[w] = struct{}{}
	return true
}

// merge takes what a request leaves open from the daemon's bounds; a request may ask for less, never for more.
func merge(b, most confine.Bounds) confine.Bounds {
	for _, f := range []struct{ value, most *int64 }{
		{&b.AddressBytes, &most.AddressBytes}, {&b.DataBytes, &most.DataBytes}, {&b.Threads, &most.Threads},
		{&b.CPUSeconds, &most.CPUSeconds}, {&b.Files, &most.Files},
	} {
		if *f.value == 0 || *f.value > *f.most {
			*f.value = *f.most
		}
	}
	return b
}

func errClosing() error {
	return fault.New(fault.Unavailable, "playground-reaperd is stopping").WithHint("try again once it has been started anew")
}

// admit takes a slot: the one that was free for longest, so that its ids are not used again at once.
func (k *Keeper) admit(run string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing {
		return 0, errClosing()
	}
	if k.runs[run] {
		return 0, fault.New(fault.Exists, "run %q has a worker already", run)
	}
	if len(k.used) >= Limit {
		return 0, fault.New(fault.Limit, "%d workers are running, and no more are possible", len(k.used)).
			WithHint("wait for a run to end, or stop one")
	}
	for k.used[k.next] {
		k.next = (k.next + 1) % IDs
	}
	slot := k.next
	k.used[slot], k.runs[run] = true, true
	k.next = (k.next + 1) % IDs
	k.watches.Add(1)
	return slot, nil
}

// IDs is how many user ids, from Options.UIDBase on, are for workers: more than there are workers, so that none is used again soon.
const IDs = 4 * Limit

func (k *Keeper) release(slot int, run string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.used, slot)
	delete(k.runs, run)
}

// Count is how many workers there are, those that are being started included.
func (k *Keeper) Count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.used)
}

// Close is Stop, and lets go of the program. It is the last call.
func (k *Keeper) Close(ctx context.Context) error {
	err := k.Stop(ctx)
	if err == nil {
		k.program.Close()
	}
	return err
}

// Stop refuses later starts, kills every worker and waits for the proofs, as long as ctx does.
func (k *Keeper) Stop(ctx context.Context) error {
	k.mu.Lock()
	k.closing = true
	k.stop()
	for w := range k.workers {
		w.Kill()
	}
	k.mu.Unlock()
	done := make(chan struct{})
	go func() {
		k.watches.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Busy, "cannot stop %d workers: %v", k.Count(), ctx.Err())
	}
}

// uid returns a slot's user id; 0 where the daemon has only its own.
func (k *Keeper) uid(slot int) int {
	if os.Geteuid() != 0 {
		return 0
	}
	return k.opts.UIDBase + slot
}

// note writes the worker down.
func (w *Worker) note() error {
	if w.keeper.opts.Note == nil {
		return nil
	}
	forget, err := w.keeper.opts.Note(w.proc.PID)
	if err != nil {
		return fault.Hide(fault.Unavailable, err, "cannot write down a worker")
	}
	w.forget = forget
	return nil
}

// text is the beginning of what a worker wrote on standard error, fit for a log.
func text(b []byte) string {
	return fmt.Sprintf("%q", b)
}
