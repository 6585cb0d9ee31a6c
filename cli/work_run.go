package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"playground/fault"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/loop"
)

// The statuses of "playground run" beside 0.
const (
	runOther      = 1 // another end than done, or no end in time
	runRefused    = 2
	runUnanswered = 3 // it asks, and there was no answer
)

const (
	lastWord = 10 * time.Second // for the daemon to tell how a run ended
	comeBack = 30 * time.Second // for a daemon to be there again
)

// A RunSpec is what "playground run" starts. Nil and zero values take the tier's defaults.
type RunSpec struct {
	Goal      string
	Member    string // tenant that the run is for; "" is the operator
	Actor     string
	MaxTurns  *int
	BudgetUSD *float64
	Tokens    *int64
	WallClock time.Duration
	Tools     []string
	Forbidden []string
	Reads     []string
	Workspace string
	Model     string
	Answer    string        // to the first question
	Timeout   time.Duration // of following; 0: none
	Detach    bool
}

func (s RunSpec) request() (workloop.StartRequest, error) {
	principal, err := didOf(s.Member)
	r := workloop.StartRequest{Principal: principal, Actor: s.Actor, Goal: s.Goal, MaxTurns: s.MaxTurns, BudgetUSD: s.BudgetUSD, TokenBudget: s.Tokens,
		Tools: s.Tools, Forbidden: s.Forbidden, Reads: s.Reads, Workspace: s.Workspace, Model: s.Model}
	if least := min(s.WallClock, s.Timeout); least < 0 && err == nil {
		err = fault.New(fault.Invalid, "%s is no time that a run may take", least).WithHint("leave it out, or write it like 90s or 10m")
	}
	if s.WallClock > 0 {
		seconds := int64((s.WallClock + time.Second - 1) / time.Second)
		r.WallClockSecs = &seconds
	}
	return r, err
}

// Run starts a run and follows it to its end. Leaving does not end it.
func (e *Env) Run(ctx context.Context, s RunSpec) error {
	request, err := s.request()
	if err != nil {
		return err
	}
	return e.works(func(client *workapi.Client) error {
		started, err := client.Start(ctx, request)
		if _, refused := errors.AsType[*workapi.Error](err); refused {
			Report(e.Stderr, err)
			return StatusError(runRefused)
		}
		if err != nil {
			return err
		}
		if s.Detach {
			if e.JSON {
				return e.printJSON(started)
			}
			fmt.Fprintf(e.Stdout, "run %s\n", safe(started.Thread))
			e.sayHow(started.Thread)
			return nil
		}
		if !e.JSON {
			fmt.Fprintf(e.Stdout, "%s %s\n", e.Screen.paint(bold, "run"), safe(started.Thread))
		}
		return e.follow(ctx, client, following{thread: started.Thread, answer: s.Answer, timeout: s.Timeout, replay: true})
	})
}

// RunsTail follows a run from its beginning, or from a clock on.
func (e *Env) RunsTail(ctx context.Context, thread string, sinceClock int64) error {
	return e.works(func(client *workapi.Client) error {
		if _, err := client.Run(ctx, thread); err != nil {
			return err
		}
		if !e.JSON {
			fmt.Fprintf(e.Stdout, "%s %s\n", e.Screen.paint(bold, "run"), safe(thread))
		}
		return e.follow(ctx, client, following{thread: thread, replay: true, sinceClock: sinceClock})
	})
}

func (e *Env) sayHow(thread string) {
	fmt.Fprintf(e.Stderr, "it goes on by itself; follow it: playground runs tail %s\nstop it: playground runs stop %s\n", safe(thread), safe(thread))
}

// A following says which run to follow, and what to do on the way.
type following struct {
	thread     string
	answer     string
	timeout    time.Duration
	replay     bool
	sinceClock int64
}

// follow shows a run until its end and returns the status that its end stands for. A daemon that is started anew meanwhile is
// waited for: it knows how the run ended.
func (e *Env) follow(ctx context.Context, client *workapi.Client, f following) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if f.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, f.timeout)
	}
	defer cancel()
	view := newRunView(e.Stdout, e.Screen, time.Now())
	var last int64
	var lost time.Time // when the daemon was last heard of, if it is away
	for {
		h, err := e.watch(limited, client, f, view, last)
		view.clear()
		if h.last > last {
			last, lost = h.last, time.Time{}
		}
		if limited.Err() != nil {
			return e.left(ctx, f)
		}
		var row workloop.Row
		if err == nil {
			row, err = e.row(ctx, client, f.thread)
		}
		cut := err == nil && !h.ended && h.asked == "" && row.State == workloop.Running
		if cut || errors.Is(err, fault.Unavailable) && last > 0 {
			if lost.IsZero() {
				lost = time.Now()
				fmt.Fprintln(e.Stderr, "the daemon is away; waiting for it")
			}
			if time.Since(lost) < comeBack {
				wait(limited, comeBack/60)
				continue
			}
		}
		if err != nil {
			return err
		}
		if h.asked != "" && (row.State != workloop.WaitingOnYou || row.Ask == nil || row.Ask.RequestID != h.asked) {
			continue // this question has its answer already; the run went on
		}
		if h.asked != "" && f.answer != "" {
			if _, err := client.Decide(ctx, h.asked, answerTo(*row.Ask, f.answer)); err != nil {
				return err
			}
			f.answer = ""
			continue
		}
		return e.ended(row)
	}
}

// left says that the run goes on: after Ctrl-C, or after the time for following.
func (e *Env) left(ctx context.Context, f following) error {
	if ctx.Err() == nil {
		fmt.Fprintf(e.Stderr, "not at its end after %s\n", f.timeout)
	}
	e.sayHow(f.thread)
	return StatusError(runOther)
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// answerTo is an option where text is one, else a value.
func answerTo(ask workloop.Ask, text string) workapi.Answer {
	if slices.Contains(ask.Options, text) || text == workloop.AnswerAck {
		return workapi.Answer{Decision: text}
	}
	value, _ := json.Marshal(text) // a string always marshals
	return workapi.Answer{Decision: workloop.AnswerProvide, Value: value}
}

// row returns the run's row. Whoever has seen an outcome is not told of the state before it, so one look is enough; it is taken even
// where the time for following is over.
func (e *Env) row(ctx context.Context, client *workapi.Client, thread string) (workloop.Row, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	return client.Run(ctx, thread)
}

// ended prints the last word and returns the status of a run's end.
func (e *Env) ended(row workloop.Row) error {
	if e.JSON {
		if err := e.printJSON(row); err != nil {
			return err
		}
	}
	switch row.State {
	case workloop.Done:
		return nil
	case workloop.WaitingOnYou:
		if row.Ask != nil && !e.JSON {
			fmt.Fprintf(e.Stderr, "it waits for an answer; choose an option: playground decisions choose %s OPTION\nor give a value: playground decisions provide %s VALUE\n",
				safe(row.Ask.RequestID), safe(row.Ask.RequestID))
		}
		return StatusError(runUnanswered)
	}
	return StatusError(runOther)
}

// heard is what watching a run came to.
type heard struct {
	last  int64  // id of the last event
	asked string // the question that the run waits with
	ended bool   // its outcome was there
}

// watch shows events until the run ends, waits for a person, ctx is done, or the daemon ends the stream.
func (e *Env) watch(ctx context.Context, client *workapi.Client, f following, view *runView, after int64) (h heard, err error) {
	ctx, leave := context.WithCancel(ctx)
	events := make(chan workapi.StreamEvent)
	var reading sync.WaitGroup
	var failed error // read after the channel is closed
	reading.Go(func() {
		defer close(events)
		for event, err := range client.RunEvents(ctx, f.thread, f.replay, after) {
			if err != nil {
				failed = err
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	})
	defer reading.Wait()
	defer leave()
	ticker := time.NewTicker(120 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case event, open := <-events:
			if !open {
				return h, failed
			}
			h.last = event.ID
			if err := e.show(view, event, f.sinceClock); err != nil {
				return h, err
			}
			if h.asked, h.ended = end(event.Record); h.asked != "" {
				return h, nil
			}
		case now := <-ticker.C:
			if !e.JSON {
				view.tick(now)
			}
		case <-ctx.Done():
			return h, ctx.Err()
		}
	}
}

// show prints one event: a record's line with -o stream-json, nothing with -o json, else what a person reads.
func (e *Env) show(view *runView, event workapi.StreamEvent, sinceClock int64) error {
	switch {
	case event.Record.Clock < sinceClock:
	case e.Stream:
		return e.printJSON(event.Record)
	case !e.JSON:
		view.event(event)
	}
	return nil
}

// end returns the id of the question that a run waits with, or whether it is over, if a record says so. A run cannot write such a
// record itself.
func end(r record.Record) (asked string, over bool) {
	if record.Kind(r) != workloop.KindOutcome || r.Actor != record.EngineDID {
		return "", false
	}
	b := body[struct {
		Outcome string
		Request string `json:"decision_request"`
	}](r)
	if b.Outcome == loop.AwaitingActor {
		return b.Request, false
	}
	return "", true
}
