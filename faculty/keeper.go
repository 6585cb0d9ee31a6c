package faculty

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
)

// Jails is who owns the tenants' sandboxes (jaild).
type Jails interface {
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant string) (jail.Sandbox, error)
	Get(ctx context.Context, tenant string) (jail.Sandbox, error)
}

// Reaper is who owns everything that runs (reaperd).
type Reaper interface {
	Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error)
	Start(ctx context.Context, spec job.ServiceSpec) (job.Service, error)
	Poll(ctx context.Context, id string, cursor int64, wait time.Duration) (job.Page, error)
	Stop(ctx context.Context, id string) (job.Result, error)
	Services(ctx context.Context) ([]Service, error)
}

// A Service is a service of reaperd, as the kernel knows it.
type Service struct {
	job.Service
	Pid   int
	Usage map[string]int64
}

// How a keeper deals with daemons that do not answer.
const (
	againAfter   = 500 * time.Millisecond
	pollWait     = 20 * time.Second
	startLimit   = 30 * time.Second // of one start, once it has its place
	releaseLimit = 5 * time.Second  // of each step
	startsAtOnce = 8                // of all tenants, one of each: every start takes a place among the commands
	answerLimit  = 20 * time.Second // of a call that must not be cut off, or nobody would know what it did
)

// A keeper keeps one worker. Its loop alone changes the machine; what takes time happens in goroutines that report back.
type keeper struct {
	host   *host
	id     string
	log    *logFile
	wishes chan wish
	events chan func(time.Time) Act
	work   sync.WaitGroup
	over   chan struct{}      // closed when the loop has ended
	stop   context.CancelFunc // of the start that goes on

	// mu guards what follows, which List reads.
	mu      sync.Mutex
	def     Definition
	machine Machine
	service job.Service // of the life that goes on; ID "" when there is none
	exit    *Exit
	health  *Health
	problem string // of a life that goes on: why nothing is known of it
	changed chan struct{}
}

// A host is what all keepers have in common.
type host struct {
	jails  Jails
	reaper Reaper
	token  func(path string) ([]byte, error)
	path   string
	marks  marks
	failed func(id string, err error) // tells of what the operator of the host must know
	note   func(id, text string)      // tells what a worker does
	places *places
}

func newKeeper(h *host, def Definition) *keeper {
	return &keeper{
		host: h, id: def.ID(), def: def, log: newLog(h.marks.path(logs, def.ID()) + ".log"),
		wishes: make(chan wish), events: make(chan func(time.Time) Act), changed: make(chan struct{}), over: make(chan struct{}),
	}
}

// run is the keeper's loop. When ctx ends it ends the worker, and returns when nothing of that is left, or when giveUp ends.
func (k *keeper) run(ctx, giveUp context.Context) {
	defer close(k.over)
	defer k.log.close()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer k.work.Wait()
	defer cancel()
	defer context.AfterFunc(giveUp, cancel)()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	state := Stopped
	for {
		act := ActNone
		select {
		case w := <-k.wishes:
			act = k.change(w.change)
			close(w.taken)
		case event := <-k.events:
			act = k.change(func(_ *Machine, now time.Time) Act { return event(now) })
		case <-timer.C:
			act = k.change((*Machine).Tick)
		case <-done:
			done = nil
			act = k.change((*Machine).Stop)
		case <-giveUp.Done():
			return
		}
		k.do(life, act)
		k.mu.Lock()
		before, def := state, k.def
		state = k.machine.State()
		due := k.machine.Due()
		k.mu.Unlock()
		if state == Stopped && before != Stopped {
			// Here, and not beside the loop: a start that follows must not find it half done.
			k.release(life, def)
		}
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		if done == nil && state == Stopped {
			return
		}
	}
}

// change changes the machine and tells those who wait for it.
func (k *keeper) change(event func(*Machine, time.Time) Act) Act {
	k.mu.Lock()
	defer k.mu.Unlock()
	act := event(&k.machine, time.Now())
	close(k.changed)
	k.changed = make(chan struct{})
	return act
}

// do begins what a change asks for.
func (k *keeper) do(ctx context.Context, act Act) {
	switch act {
	case ActStart:
		k.mu.Lock()
		def := k.def
		k.mu.Unlock()
		startCtx, stop := context.WithCancel(ctx)
		k.stop = stop
		k.work.Go(func() {
			defer stop()
			k.start(startCtx, ctx, def)
		})
	case ActStop:
		k.mu.Lock()
		id := k.service.ID
		k.mu.Unlock()
		if id == "" {
			k.stop() // the start, which then reports
			return
		}
		k.work.Go(func() { k.end(ctx, id) })
	}
}

// tell hands an event to the loop, which may have given up.
func (k *keeper) tell(life context.Context, event func(now time.Time) Act) {
	select {
	case k.events <- event:
	case <-life.Done():
	}
}

// end asks for the life's end until reaperd has heard it. How it ended is for watch to find.
func (k *keeper) end(ctx context.Context, id string) {
	for ctx.Err() == nil {
		_, err := k.host.reaper.Stop(ctx, id)
		if err == nil || errors.Is(err, fault.NotFound) {
			return
		}
		k.trouble(err)
		pause(ctx, againAfter)
	}
}

// watch keeps what a life writes, and reports its end.
func (k *keeper) watch(ctx context.Context, service job.Service) {
	cursor, told := service.Cursor, time.Time{}
	for ctx.Err() == nil {
		page, err := k.host.reaper.Poll(ctx, service.ID, cursor, pollWait)
		switch {
		case errors.Is(err, fault.NotFound):
			// All services end with reaperd, and are proved gone before it serves again.
			k.finish(ctx, service, job.Result{Outcome: job.Failed, Error: "playground-reaperd was started anew", Cleanup: job.Cleanup{Proven: true}}, false)
			return
		case err != nil:
			k.trouble(err)
			pause(ctx, againAfter)
			continue
		}
		k.trouble(nil)
		if page.Gap && time.Since(told) >= time.Minute {
			told = time.Now()
			k.note("%d bytes of output were not kept: it writes faster than its log", page.DroppedBytes)
		}
		for _, chunk := range page.Chunks {
			k.say(k.log.write(chunk.Data))
		}
		cursor = page.NextCursor
		if len(page.Chunks) > 0 && page.Result == nil {
			pause(ctx, logPace)
		}
		if page.Result != nil {
			// One that the host has cancelled, as when the tenant is taken away, says nothing about the worker.
			k.finish(ctx, service, *page.Result, page.Result.Outcome != job.Cancelled)
			return
		}
	}
}

// finish reports a life's end; own: by itself.
func (k *keeper) finish(ctx context.Context, service job.Service, result job.Result, own bool) {
	exit := &Exit{Run: service.ID, At: time.Now(), Result: result}
	k.note("%s ended: %s (killed %d, proven %v)", service.ID, exit, result.Cleanup.Killed, result.Cleanup.Proven)
	k.tell(ctx, func(now time.Time) Act {
		k.service, k.exit, k.health, k.problem = job.Service{}, exit, nil, ""
		return k.machine.Ended(now, own, exit.String())
	})
}

// trouble notes that nothing can be learned of a life that goes on, and nil that it can.
func (k *keeper) trouble(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = ""
	if err != nil {
		k.problem = err.Error()
	}
}

// note puts a line into the worker's log, and into the daemon's.
func (k *keeper) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	k.say(k.log.note(time.Now(), text))
	k.host.note(k.id, text)
}

// say tells the operator of the host.
func (k *keeper) say(err error) {
	if err != nil {
		k.host.failed(k.id, err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
