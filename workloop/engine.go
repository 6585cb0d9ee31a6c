package workloop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"playground/fault"
	"playground/workloop/loop"
	"playground/workloop/tier"
	"playground/workloop/tool"
)

const defaultGrace = 30 * time.Second

// An Engine runs work loops. It is safe for concurrent use.
type Engine struct {
	o        Options
	settings *settings
	ledger   *ledger
	slots    *slots
	index    *index
	queries  chan struct{} // one value for each query of a run that goes on

	ctx  context.Context // of everything that goes on; ends with Close
	end  context.CancelCauseFunc
	wait sync.WaitGroup // of the supervisors

	names sync.RWMutex // held while a run is given to a principal; Retire takes it for itself

	mu      sync.Mutex // guards what follows
	live    map[string]*run
	closing bool
}

// New returns an Engine over a log. Runs that were going when the daemon before ended get their outcome first: failed, because it
// stopped. Runs that wait for a decision go on waiting.
func New(ctx context.Context, o Options) (*Engine, error) {
	if o.Log == nil || o.Rules == nil {
		return nil, fault.New(fault.Internal, "the engine needs a log and an evaluator")
	}
	if o.StopGrace <= 0 {
		o.StopGrace = defaultGrace
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = loop.DefaultMaxTokens
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{
		o:        o,
		settings: &settings{log: o.Log, operator: o.Operator},
		ledger:   &ledger{log: o.Log, now: o.Now, books: map[string]*book{}},
		slots:    &slots{capacity: hostCapacity(o.Capacity)},
		index:    &index{byThread: map[string]*entry{}, lives: map[string]string{}, moving: map[string]chan struct{}{}},
		queries:  make(chan struct{}, maxQueries),
		live:     map[string]*run{},
	}
	e.ctx, e.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := e.restart(ctx); err != nil {
		e.end(err)
		return nil, fmt.Errorf("cannot take up the runs of the log: %w", err)
	}
	return e, nil
}

func (e *Engine) now() time.Time { return e.o.Now() }

func (e *Engine) notify(n Notice) {
	if e.o.Notify != nil {
		e.o.Notify(n)
	}
}

// dataFolder is the folder of a run's data tools. A tenant has one of its own, so that no run looks into another's.
func (e *Engine) dataFolder(p *plan) string {
	switch {
	case e.o.DataDir == "" || p.operator:
		return e.o.DataDir
	case p.tenant != "" && p.life == "":
		return filepath.Join(e.o.DataDir, memberFolder, p.tenant)
	}
	return filepath.Join(e.o.DataDir, memberFolder, "did-"+hashName(p.principal+" "+p.life))
}

// Close refuses new runs and ends those that go: first their work, then their workers, and last each gets its outcome. Runs that wait
// stay answerable after a restart. It returns when the last has ended, or with ctx's error when ctx ends before; the log must stay
// open until then.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	e.end(errClosing)
	done := make(chan struct{})
	go func() {
		e.wait.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// going returns the run of a thread while it is going.
func (e *Engine) going(thread string) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[thread]
}

func (e *Engine) forget(thread string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, thread)
}

// Health returns the figures of the work loop, as the service took them.
func (e *Engine) Health(ctx context.Context) (Health, error) {
	own, err := e.settings.transport(ctx, true)
	if err != nil {
		return Health{}, err
	}
	members, err := e.settings.transport(ctx, false)
	if err != nil {
		return Health{}, err
	}
	hooks, err := e.settings.hooksInForce(ctx)
	if err != nil {
		return Health{}, err
	}
	return Health{Transport: string(own), MemberTransport: string(members), Capacity: e.slots.capacity, Available: e.slots.free(), HooksLoaded: len(hooks)}, nil
}

// Usage returns what a principal used on a day ("2006-01-02" in UTC; "" is today).
func (e *Engine) Usage(ctx context.Context, principal, day string) (Usage, error) {
	if day == "" {
		day = e.ledger.today()
	}
	if _, err := time.Parse(dayForm, day); err != nil {
		return Usage{}, invalid("day %.20q is not a date like 2006-01-02", day)
	}
	usage, err := e.ledger.load(ctx, principal, day)
	return usage, queryError(err)
}

// Tools lists the tools of this instance, and of those that no run can have, why.
func (e *Engine) Tools() []ToolInfo {
	why := map[tool.Set]string{}
	if e.o.DataDir == "" {
		why[tool.Data] = "the instance has no data folder"
	}
	if !e.o.HostTools {
		why[tool.Host] = "host tools are not allowed on this instance"
	}
	if e.o.Sandbox == nil {
		why[tool.Tenant] = "the instance has no sandboxes"
	}
	var infos []ToolInfo
	for _, d := range tool.Definitions() {
		infos = append(infos, ToolInfo{Object: "tool", ID: d.ID(), Name: d.Name, Description: d.Description, Schema: d.Schema,
			Domain: string(d.Domain), Runnable: why[d.Set] == "", Reason: why[d.Set]})
	}
	return infos
}

// Preview says what Start would do. It takes no slot and writes nothing.
func (e *Engine) Preview(ctx context.Context, q StartRequest) (Preview, error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return Preview{}, err
	}
	usage, left, denial, err := e.ledger.peek(ctx, p.principal, p.limits)
	if err != nil {
		return Preview{}, err
	}
	if e.o.Broker == nil {
		denial = noProvider()
	}
	if p.budget != nil {
		*p.budget = min(*p.budget, max(0, left))
	}
	config := p.config()
	v := Preview{
		Object: "work_loop_preview", Principal: p.principal, Tier: string(p.tier), MaxTurns: config.MaxTurns, WallClockSecs: config.WallClockSecs,
		TokenBudget: config.TokenBudget, LoopCount: usage.LoopCount, CostUSD: usage.CostUSD, EstimatedCost: p.estimate(), Grants: e.grants(p),
		Transport: string(p.transport), Narrowed: p.narrowed, BudgetUSD: p.budget,
	}
	if p.limits.DailyCostCapUSD != tier.None {
		v.DailyCostCap = &p.limits.DailyCostCapUSD
	}
	if p.limits.DailyLoopCap != tier.None {
		v.DailyLoopCap = &p.limits.DailyLoopCap
	}
	if denial == nil && p.transport == tier.Sandboxed {
		switch {
		case e.slots.free() <= 0:
			denial = e.slots.refusal()
		case e.o.Starter == nil:
			denial = noStarter()
		}
	}
	v.deny(denial)
	return v, nil
}

// grants are the tools that a principal is offered, and those it may be given.
func (e *Engine) grants(p *plan) Grants {
	g := Grants{Default: []string{}, Requestable: []string{}}
	for _, d := range tool.Available(e.facts(p)) {
		switch {
		case slices.Contains(p.limits.Forbidden, d.Name):
		case d.OnRequest:
			g.Requestable = append(g.Requestable, d.Name)
		default:
			g.Default = append(g.Default, d.Name)
		}
	}
	return g
}
