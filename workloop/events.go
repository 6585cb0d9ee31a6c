package workloop

import (
	"context"
	"errors"
	"strings"
	"time"

	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

// Event tells a run what a person says: to stop, a message, or the answer to its question. nil means that it was accepted.
func (e *Engine) Event(ctx context.Context, thread string, event Event) error {
	by := event.Actor
	if by == "" {
		by = e.o.Operator
	}
	if err := record.ValidActor(by); err != nil {
		return invalid("%s", err.Error())
	}
	n, ok := e.index.get(thread)
	if !ok {
		return notFound("run", thread)
	}
	switch event.Type {
	case EventStop:
		return e.stop(ctx, n, by)
	case EventMessage:
		switch {
		case strings.TrimSpace(event.Text) == "":
			return invalid("a message needs a text")
		case len(event.Text) > maxMessage:
			return invalid("a message has at most %d bytes", maxMessage)
		}
		return e.say(ctx, n, by, event.Text)
	case EventDecision:
		event.Actor = by
		_, err := e.decide(ctx, thread, event.RequestID, event)
		return err
	}
	return invalid("type %.40q is unknown; the types are stop, message and decision", event.Type)
}

// say gives a message to a going run.
func (e *Engine) say(ctx context.Context, n entry, by, text string) error {
	if r := e.going(n.thread); r != nil {
		if err := r.say(ctx, by, text); err == nil || !r.over(ctx) {
			return err
		}
	}
	if n, _ = e.index.get(n.thread); n.state == WaitingOnYou {
		return waiting()
	}
	return ended()
}

// stop stops a run: at its next step if it is going, at once if it waits.
func (e *Engine) stop(ctx context.Context, n entry, by string) error {
	if r := e.going(n.thread); r != nil {
		if err := r.stop(ctx, by); err == nil || !r.over(ctx) {
			return err
		}
	}
	claimed, err := e.index.claim(n.thread, "")
	if err == nil {
		return e.stopWaiting(ctx, claimed, by)
	}
	if n, _ = e.index.get(n.thread); n.state == WaitingOnYou || n.state == Running {
		return err // it is just going on with an answer
	}
	return ended()
}

// stopWaiting ends a run that waits. It has no worker, so the outcome is written here; the claim on it keeps everybody else away.
func (e *Engine) stopWaiting(ctx context.Context, n entry, by string) error {
	if err := e.writeCancel(ctx, n.thread, n.anchor, by); err != nil {
		e.index.giveBack(n.thread)
		return err
	}
	rec, err := e.o.Log.Get(ctx, n.outcome)
	var o outcomeBody
	if err == nil {
		err = rec.Decode(&o)
	}
	if err != nil {
		e.index.giveBack(n.thread)
		return queryError(err)
	}
	o.Outcome, o.Success, o.State, o.Fulfills, o.Request = loop.Cancelled, false, Stopped, n.anchor, ""
	o.Reason, o.Summary, o.StoppedBy, o.Exit = "a person stopped the run while it waited", "stopped by "+by, by, nil
	defer e.index.move(n.thread)()
	ids, err := (&pen{log: e.o.Log, thread: n.thread, next: -1}).write(ctx, outcomeLine(n.anchor, o))
	if err != nil {
		e.index.giveBack(n.thread)
		return unwritten(err)
	}
	e.index.settle(n.thread, Stopped, ids[0], "")
	e.notify(Notice{Event: NoticeEnded, Thread: n.thread, Principal: n.principal, Actor: n.actor, Outcome: o.Outcome})
	return nil
}

// writeCancel records that a person stops a run.
func (e *Engine) writeCancel(ctx context.Context, thread, anchor, by string) error {
	return e.writeAs(ctx, record.Draft{Thread: thread, Actor: by, Act: record.ActDo, Parents: []string{anchor},
		Body: cancelBody{Kind: KindCancel, Cancels: anchor, Reason: "stopped by " + by}})
}

// writeMessage records what a person says to a run.
func (e *Engine) writeMessage(ctx context.Context, thread, anchor, by, text string) error {
	return e.writeAs(ctx, record.Draft{Thread: thread, Actor: by, Act: record.ActKnow, Parents: []string{anchor}, Body: messageBody{Kind: KindMessage, Text: text}})
}

func (e *Engine) writeAs(ctx context.Context, d record.Draft) error {
	if _, err := e.o.Log.Append(context.WithoutCancel(ctx), d); err != nil {
		return unwritten(err)
	}
	return nil
}

// totals are what the stretches up to an outcome used.
func (o outcomeBody) totals() totals {
	return totals{turns: o.Turns, ok: o.OK, failed: o.Failed, elapsed: time.Duration(o.ElapsedMS) * time.Millisecond,
		usage: inference.Usage{InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, CostUSD: o.SpentUSD}}
}

// Retire ends a principal that is no more, such as a tenant that was destroyed: its tier is taken back, its runs are stopped, and whoever
// bears its name later sees none of its runs, memories and files. It returns when nothing of the runs goes on, without the grace that a
// stop has otherwise, or with ctx's error.
func (e *Engine) Retire(ctx context.Context, principal string) error {
	if err := record.ValidActor(principal); err != nil || principal == e.o.Operator {
		return invalid("%.80q cannot be retired", principal)
	}
	if err := e.beginLife(ctx, principal); err != nil {
		return err
	}
	left, _ := e.index.newest(0, func(n entry) bool { return n.principal == principal && (n.state == Running || n.state == WaitingOnYou) })
	var errs []error
	var going []*run
	for _, n := range left {
		r := e.going(n.thread)
		if err := e.stop(ctx, n, e.o.Operator); err != nil && !errors.Is(err, ended()) && !errors.Is(err, answered()) {
			errs = append(errs, err)
		}
		if r != nil {
			r.cut(errKilled)
			going = append(going, r)
		}
	}
	for _, r := range going {
		select {
		case <-r.finished:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// beginLife begins the next life of a principal's name. No run is being started meanwhile: each belongs to one life as a whole.
func (e *Engine) beginLife(ctx context.Context, principal string) error {
	e.names.Lock()
	defer e.names.Unlock()
	records, err := e.o.Log.Append(context.WithoutCancel(ctx),
		record.Draft{Thread: record.ActorRegistryThread, Actor: record.EngineDID, Act: record.ActLearn, Body: retiredBody{Kind: KindRetired, Principal: principal}},
		record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn,
			Body: map[string]string{"topic": tier.TopicActor, "actor": principal, "tier": ""}})
	if err != nil {
		return unwritten(err)
	}
	e.index.retire(principal, records[0].ID)
	return nil
}

// Remains reports whether a principal had runs that Retire has not ended: of an earlier bearer of its name, where it is new.
func (e *Engine) Remains(principal string) bool {
	found, _ := e.index.newest(0, func(n entry) bool { return n.principal == principal && n.life == e.index.lives[principal] })
	return len(found) > 0
}
