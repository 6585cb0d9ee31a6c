package workloop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"playground/policy"
	"playground/record"
	"playground/workloop/doors"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

// Bounds of what an actor is told of its memory.
const (
	toldMemories = 20
	toldBytes    = 8 << 10
)

// A hold is what a start has taken and must give back: a place among the going runs, a slot, a worker, and the engine's patience at
// its close.
type hold struct {
	place  *reservation
	slot   func()
	worker *Worker
	done   func()
}

// drop gives everything back: the start came to nothing.
func (h *hold) drop() {
	if h.worker != nil {
		h.worker.discard()
	}
	h.free()
	h.done()
}

// free gives the slot and the place back.
func (h *hold) free() {
	if h.slot != nil {
		h.slot()
	}
	if h.place != nil {
		h.place.release()
	}
}

// discard ends a worker that was handed nothing.
func (w *Worker) discard() {
	w.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), closeDrain)
	defer cancel()
	_, _ = w.Wait(ctx) // the starter answers for the proof
	_ = w.Doors.Close()
	_ = w.Stdin.Close()
	_ = w.Stdout.Close()
}

// Start starts a run: it resolves what the run may do, takes its place and its slot, has the worker confined and verified, and only
// then opens the thread and hands the credential over. What fails before leaves nothing anywhere.
func (e *Engine) Start(ctx context.Context, q StartRequest) (started Started, err error) {
	if e.o.Broker == nil && q.Escape == nil {
		return Started{}, noProvider()
	}
	e.names.RLock()
	defer e.names.RUnlock()
	p, err := e.resolve(ctx, q)
	if err != nil {
		return Started{}, err
	}
	thread := record.NewThread()
	h, err := e.take(ctx, p, thread, totals{}, true)
	if err != nil {
		return Started{}, err
	}
	defer func() {
		if err != nil {
			h.drop()
		}
	}()
	opening, err := e.memories(ctx, p)
	if err != nil {
		return Started{}, unwritten(err)
	}
	hooks, err := e.settings.hooksInForce(ctx)
	if err != nil {
		return Started{}, unwritten(err)
	}
	defer e.index.move(thread)()
	records, err := h.place.start(context.WithoutCancel(ctx), thread, record.Draft{Thread: thread, Actor: record.EngineDID, Act: record.ActIntend, Body: p.anchor()})
	if err != nil {
		return Started{}, unwritten(err)
	}
	r := e.newRun(p, thread, h.place, totals{})
	r.anchor, r.pen.next = records[0].ID, records[0].Clock+1
	e.register(r)
	e.index.add(&entry{thread: thread, principal: p.principal, actor: p.actor, anchor: r.anchor, started: records[0].CreatedAt, state: Running})
	go e.supervise(r, h, e.spec(r, opening, hooks))
	return Started{Object: "work_loop", Status: "started", Thread: thread, Tier: string(p.tier), Config: p.config(), Watch: "/v1/runs/" + thread + "/events",
		Transport: string(p.transport), Narrowed: p.narrowed, BudgetUSD: p.budget}, nil
}

// take takes what a run of p needs before it may touch its thread. It sets the plan's budget to what the day leaves of it.
func (e *Engine) take(ctx context.Context, p *plan, thread string, before totals, fresh bool) (held *hold, err error) {
	done, err := e.enter()
	if err != nil {
		return nil, err
	}
	h := &hold{done: done}
	defer func() {
		if err != nil {
			h.drop()
		}
	}()
	ceiling := p.budget
	if ceiling != nil {
		left := max(0, *ceiling-before.usage.CostUSD)
		ceiling = &left
	}
	if h.place, ceiling, err = e.ledger.admit(ctx, p.principal, p.limits, ceiling, fresh); err != nil {
		return nil, err
	}
	if ceiling != nil {
		total := *ceiling + before.usage.CostUSD
		p.budget = &total
	}
	if p.transport != tier.Sandboxed {
		return h, nil
	}
	if h.slot, err = e.slots.take(); err != nil {
		return nil, err
	}
	if e.o.Starter == nil {
		return nil, noStarter()
	}
	worker, err := e.o.Starter.Start(ctx, p.worker(thread))
	if err != nil {
		e.notify(Notice{Event: NoticeIsolation, Thread: thread, Principal: p.principal, Actor: p.actor, Err: err})
		return nil, isolation(err)
	}
	h.worker = &worker
	return h, nil
}

// enter makes Close wait until done is called.
func (e *Engine) enter() (done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, refuse(CodeShuttingDown, http.StatusServiceUnavailable, "the daemon is stopping")
	}
	e.wait.Add(1)
	return sync.OnceFunc(e.wait.Done), nil
}

// register makes a run known to those who ask for it.
func (e *Engine) register(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[r.thread] = r
}

// spec is what the loop is told.
func (e *Engine) spec(r *run, opening string, hooks []policy.Hook) loop.Spec {
	p := r.plan
	s := loop.Spec{
		Thread: r.thread, Actor: p.actor, Goal: p.goal, Opening: opening, Model: p.model, Tools: p.offered(), Narrowed: p.narrowed, Hooks: hooks,
		MaxTurns: max(0, p.maxTurns), MaxTokens: e.o.MaxTokens, BudgetUSD: p.budget, WallClock: r.wallClock(), Reads: p.reads, FirstTurn: r.before.turns,
	}
	if p.transport == tier.InProcess {
		s.LiveHooks = func() []policy.Hook {
			if live, err := e.settings.hooksInForce(r.ops); err == nil {
				hooks = live
			}
			return hooks
		}
	}
	return s
}

// handoff mints the run's credential and returns the line that its worker is given.
func (r *run) handoff(spec loop.Spec) ([]byte, error) {
	h := doors.Handoff{Thread: r.thread, Spec: spec}
	if r.plan.escape != nil {
		ended := r.renew()
		h.Credential = r.renew()
		var err error
		if h.Escape, err = r.plan.escape.Plan(ended); err != nil {
			return nil, err
		}
	} else {
		h.Credential = r.renew()
	}
	text, err := json.Marshal(h)
	return append(text, '\n'), err
}

// renew gives the run a credential. The one before, if there is one, holds no longer.
func (r *run) renew() (secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	secret, r.credential = mint(r.e.now(), r.wallClock())
	return secret
}

// memory is the thread of what the actor remembers. Two principals may have agents of one name, and a name may have two bearers.
func (p *plan) memory() string { return record.NewThread("memory", p.principal, p.life, p.actor) }

// memories is what an actor kept of its earlier runs, as its loop is told.
func (e *Engine) memories(ctx context.Context, p *plan) (string, error) {
	page, err := e.o.Log.Query(ctx, record.Query{Thread: p.memory(), Sort: record.Sort{{Field: "clock", Descending: true}}, Limit: toldMemories})
	if err != nil || len(page.Data) == 0 {
		return "", err
	}
	text := ""
	for _, rec := range page.Data {
		var body struct {
			Text string `json:"text"`
		}
		if rec.Decode(&body) != nil || len(text)+len(body.Text) > toldBytes {
			continue
		}
		text += fmt.Sprintf("\n- %s", body.Text)
	}
	if text == "" {
		return "", nil
	}
	return "What you kept from earlier runs, newest first:" + text, nil
}
