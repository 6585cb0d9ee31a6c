package workloop

import (
	"context"
	"errors"
	"sync"
	"time"

	"playground/inference"
	"playground/workloop/loop"
	"playground/workloop/tier"
	"playground/workloop/tool"
)

const (
	maxMessages = 64       // that wait for a run's next step
	maxMessage  = 16 << 10 // bytes
	maxCalls    = 128      // tool calls on one reply of the model
	maxEntries  = 512      // records that a run writes on one reply of the model
	maxBytes    = 8 << 20  // of what a run writes and proposes on one reply of the model
	maxOpen     = 16       // allowed calls that lack a result
	maxQueries  = 2        // of all runs at once; the log has twice as many readers for what may be slow
	queryTime   = 4 * time.Second
)

// The causes that end what a run is doing.
var (
	errWallClock = errors.New("the wall clock ceiling is reached")
	errKilled    = errors.New("the run was ended")
	errClosing   = errors.New("the daemon is stopping")
)

// A run is one going run, from its anchor to its outcome or to the question that it waits on. It is the Kernel of its loop. Exactly
// one goroutine, the supervisor, ends it and writes the outcome; everybody else only marks what happened.
type run struct {
	e        *Engine
	plan     *plan
	thread   string
	anchor   string // id of the anchor
	account  *inference.Account
	place    *reservation
	tools    *tool.Registry
	pen      *pen
	started  time.Time     // of this stretch
	before   totals        // of the stretches before
	stopping chan struct{} // closed by the first stop
	parking  chan struct{} // closed by the first question
	finished chan struct{} // closed when the outcome is written

	ctx      context.Context // ends with the daemon, and when the run is cut off
	cut      context.CancelCauseFunc
	ops      context.Context // ends model calls and tools; ends with ctx
	endOps   context.CancelCauseFunc
	inflight sync.WaitGroup // of calls into the kernel, while not closed

	mu         sync.Mutex // guards all below
	closed     bool
	credential *credential
	stoppedBy  string
	request    string // id of the question that parked the run
	tally      tally
	messages   []string
	turns      int
	asking     bool   // a model call is going on
	calls      int    // since the last reply
	entries    int    // since the last reply
	bytes      int    // since the last reply
	notes      int    // written, and no result has told of them
	turnOwed   *reply // the last reply, while its turn record is not written
	final      bool   // the last reply called no tool
	cutOff     bool   // the last reply hit the output limit
	exhausted  string // the budget that a model call was refused for
	failed     bool   // a model call failed, which ends the loop: there is no other
	hint       string // what can be done about it
	pid        int
}

// totals are what earlier stretches of a run used.
type totals struct {
	turns      int
	ok, failed int
	usage      inference.Usage
	elapsed    time.Duration
}

// A reply is what the kernel knows of a model's reply.
type reply struct {
	index int
	model string
	usage inference.Usage
	stop  string
}

// newRun returns a run that is not going yet.
func (e *Engine) newRun(p *plan, thread string, place *reservation, before totals) *run {
	r := &run{
		e: e, plan: p, thread: thread, place: place, before: before, started: e.now(), stopping: make(chan struct{}), parking: make(chan struct{}), finished: make(chan struct{}),
		pen: &pen{log: e.o.Log, thread: thread, next: -1}, turns: before.turns,
	}
	r.tally.ok, r.tally.failed = before.ok, before.failed
	r.ctx, r.cut = context.WithCancelCause(e.ctx)
	r.ops, r.endOps = context.WithCancelCause(r.ctx)
	ceiling, tokens := p.budget, p.tokens
	if ceiling != nil {
		left := max(0, *ceiling-before.usage.CostUSD)
		ceiling = &left
	}
	if tokens > 0 {
		tokens = max(1, tokens-before.usage.InputTokens-before.usage.OutputTokens)
	}
	r.account = e.brokerOf(p).Open(ceiling, tokens)
	env := tool.Env{Log: e.o.Log, Kernel: (*view)(r), Actor: p.actor, Memory: p.memory(), DataDir: e.dataFolder(p), Workspace: p.workspace, Sandbox: e.o.Sandbox, Tenant: p.tenant}
	r.tools = tool.New(env, p.granted)
	return r
}

// enter lets a call into the kernel while the run is not over. Every nil is followed by leave.
func (r *run) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return loop.ErrRefused
	}
	r.inflight.Add(1)
	return nil
}

func (r *run) leave() { r.inflight.Done() }

// close ends the run for everybody: no call enters any more, the credential is void, and those inside have left. After it only the
// supervisor touches the run.
func (r *run) close() {
	r.mu.Lock()
	r.closed = true
	r.credential = nil
	r.mu.Unlock()
	r.endOps(errKilled)
	r.cut(errKilled)
	r.inflight.Wait()
}

// over waits for the outcome of a run that takes nothing more, and reports whether the run is over.
func (r *run) over(ctx context.Context) bool {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if !closed {
		return false
	}
	select {
	case <-r.finished:
		return true
	case <-ctx.Done():
		return false
	}
}

// matches reports whether bearer is the run's credential.
func (r *run) matches(bearer string) bool {
	r.mu.Lock()
	c := r.credential
	r.mu.Unlock()
	return c.matches(bearer, r.e.now())
}

// operation returns a context that ends with the caller, and with what ends the run's work.
func (r *run) operation(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ops, func() { cancel(context.Cause(r.ops)) })
	return ctx, func() { stop(); cancel(nil) }
}

// stop marks the run as stopped by a person, and records it. On a full disk it is stopped too: it may be what fills it. The outcome then
// is the only record of who stopped it.
func (r *run) stop(ctx context.Context, by string) error {
	if err := r.enter(); err != nil {
		return ended()
	}
	defer r.leave()
	if r.stopped() != "" {
		return nil
	}
	if err := r.e.writeCancel(ctx, r.thread, r.anchor, by); err != nil {
		r.e.notify(Notice{Event: NoticeError, Thread: r.thread, Err: err})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stoppedBy == "" {
		r.stoppedBy = by
		close(r.stopping)
	}
	return nil
}

func (r *run) stopped() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stoppedBy
}

// say gives the run what a person says; its loop hears it with the next step.
func (r *run) say(ctx context.Context, by, text string) error {
	if err := r.enter(); err != nil {
		return ended()
	}
	defer r.leave()
	r.mu.Lock()
	full, parked := len(r.messages) >= maxMessages, r.request != ""
	r.mu.Unlock()
	switch {
	case parked:
		return waiting()
	case full:
		return refuse(CodeFlood, 429, "%d messages wait for the run's next step already", maxMessages)
	}
	if err := r.e.writeMessage(ctx, r.thread, r.anchor, by, text); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, text)
	return nil
}

// heard takes the messages that wait.
func (r *run) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := r.messages
	r.messages = nil
	return messages
}

// turnsLeft reports whether the ceiling allows one more model call.
func (r *run) turnsLeftLocked() bool {
	return r.plan.maxTurns == tier.None || r.turns < r.plan.maxTurns
}

// spent is what all stretches of the run used.
func (r *run) spent() inference.Usage {
	now := r.account.Spent()
	return inference.Usage{
		InputTokens: r.before.usage.InputTokens + now.InputTokens, OutputTokens: r.before.usage.OutputTokens + now.OutputTokens,
		CostUSD: r.before.usage.CostUSD + now.CostUSD, Calls: r.before.usage.Calls + now.Calls,
	}
}

// wallClock is what is left of the ceiling for this stretch; 0 is no ceiling.
func (r *run) wallClock() time.Duration {
	if r.plan.wallClock == 0 {
		return 0
	}
	return max(time.Second, r.plan.wallClock-r.before.elapsed)
}
