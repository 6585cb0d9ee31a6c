package workloop

import (
	"context"
	"errors"

	"playground/record"
	"playground/workloop/loop"
)

// restartPage is how many records are read at once.
const restartPage = 1000

// restart folds the log into the index and gives every run that was going an outcome. Only what the engine itself wrote counts.
func (e *Engine) restart(ctx context.Context) error {
	after := int64(0)
	answered := map[string]bool{} // questions that have an answer
	for {
		records, err := e.o.Log.List(ctx, record.ListQuery{Kinds: []string{KindLoop, KindOutcome, KindDecision, KindRetired}, After: after, Limit: restartPage})
		if err != nil {
			return err
		}
		for _, rec := range records {
			after = rec.Sequence
			if err := e.fold(rec, answered); err != nil {
				return err
			}
		}
		if len(records) < restartPage {
			break
		}
	}
	broken, _ := e.index.newest(0, func(n entry) bool {
		abandoned := answered[n.request] || n.life != e.index.lives[n.principal] // nobody goes on with it, or may answer it
		return n.state == Running || n.state == WaitingOnYou && abandoned
	})
	for _, n := range broken {
		err := e.endInterrupted(ctx, n)
		if errors.Is(err, record.ErrDamaged) { // it has no outcome until the log is whole; what is wrong must be possible to ask
			e.index.settle(n.thread, StoppedShort, "", "")
			e.notify(Notice{Event: NoticeError, Thread: n.thread, Err: err})
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fold takes one record of a run into the index.
func (e *Engine) fold(rec record.Record, answered map[string]bool) error {
	switch record.Kind(rec) {
	case KindLoop:
		if rec.Actor != record.EngineDID {
			return nil
		}
		var a anchor
		if err := rec.Decode(&a); err != nil {
			return err
		}
		e.index.add(&entry{thread: rec.Thread, principal: a.Principal, actor: a.Actor, anchor: rec.ID, started: rec.CreatedAt, state: Running})
	case KindOutcome:
		if rec.Actor != record.EngineDID {
			return nil
		}
		var o outcomeBody
		if err := rec.Decode(&o); err != nil {
			return err
		}
		e.index.settle(rec.Thread, o.State, rec.ID, o.Request)
	case KindRetired:
		var body retiredBody
		if rec.Actor == record.EngineDID && rec.Decode(&body) == nil {
			e.index.retire(body.Principal, rec.ID)
		}
	case KindDecision:
		var d decisionBody
		if err := rec.Decode(&d); err != nil {
			return err
		}
		answered[d.Fulfills] = true
	}
	return nil
}

// endInterrupted writes the outcome of a run that the daemon before did not end. The tally is that of the thread.
func (e *Engine) endInterrupted(ctx context.Context, n entry) error {
	a, err := e.anchorOf(ctx, n)
	if err != nil {
		return err
	}
	records, err := e.o.Log.List(ctx, record.ListQuery{Thread: n.thread})
	if err != nil {
		return err
	}
	o := outcomeBody{Kind: KindOutcome, Outcome: loop.Failed, State: StoppedShort, Transport: a.Transport, Fulfills: n.anchor,
		Reason: "the daemon restarted while the run was going", Summary: "the daemon restarted while the run was going"}
	o.recount(records)
	ids, err := (&pen{log: e.o.Log, thread: n.thread, next: -1}).write(ctx, outcomeLine(n.anchor, o))
	if err != nil {
		return err
	}
	e.index.settle(n.thread, StoppedShort, ids[0], "")
	e.notify(Notice{Event: NoticeEnded, Thread: n.thread, Principal: n.principal, Actor: n.actor, Outcome: o.Outcome})
	return nil
}

// recount sets the figures of an outcome from the records of a thread: a call without a result has failed.
func (o *outcomeBody) recount(records []record.Record) {
	calls := map[string]bool{}
	for _, rec := range records {
		switch record.Kind(rec) {
		case loop.KindToolCall:
			calls[rec.ID] = true
			o.Failed++
		case loop.KindToolResult:
			var body loop.ToolResultBody
			if rec.Decode(&body) == nil && calls[body.Fulfills] && body.Status == loop.StatusOK {
				delete(calls, body.Fulfills)
				o.OK++
				o.Failed--
			}
		case loop.KindTurn:
			var body loop.TurnBody
			if rec.Decode(&body) == nil {
				o.Turns++
				o.InputTokens += body.InputTokens
				o.OutputTokens += body.OutputTokens
				o.SpentUSD += body.CostUSD
			}
		}
	}
}
