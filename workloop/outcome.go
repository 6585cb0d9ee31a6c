package workloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"playground/record"
	"playground/workloop/loop"
)

const maxSummary = 8 << 10

// weigh compares how the loop ended with what the kernel has seen, and returns the outcome. What the kernel knows wins: a stop, the
// daemon's end, a question, the wall clock, a worker that did not end well, and then the claim where nothing contradicts it. The run
// is closed, so nothing changes meanwhile; only rows look at it.
func (r *run) weigh(end ending, cause error) outcomeBody {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.close()
	spent := r.spent()
	o := outcomeBody{
		Kind: KindOutcome, Transport: r.plan.transport, OK: r.tally.ok, Failed: r.tally.failed, Turns: r.turns, SpentUSD: spent.CostUSD,
		InputTokens: spent.InputTokens, OutputTokens: spent.OutputTokens, Exit: end.exit, Fulfills: r.anchor,
		ElapsedMS: (r.before.elapsed + r.e.now().Sub(r.started)).Milliseconds(), Summary: loop.Bound(end.claim.Summary, maxSummary),
	}
	completed := end.claimed && end.problem == "" && end.claim.Outcome == loop.Completed
	switch {
	case r.stoppedBy != "":
		o.Outcome, o.StoppedBy = loop.Cancelled, r.stoppedBy
		o.Reason, o.Summary = "a person stopped the run", "stopped by "+r.stoppedBy
	case r.request != "":
		o.Outcome, o.Request, o.Fulfills = loop.AwaitingActor, r.request, ""
		o.Summary = "the run waits for a decision"
	case errors.Is(cause, errClosing):
		o.Outcome, o.Reason = loop.Failed, "the daemon stopped while the run was going"
	case errors.Is(cause, errWallClock) && !completed:
		o.Outcome, o.BudgetKind, o.Reason = loop.BudgetExhausted, loop.BudgetWallClock, errWallClock.Error()
	case end.problem != "":
		o.Outcome, o.Reason = loop.Failed, end.problem
	case !end.claimed:
		o.Outcome, o.Reason = loop.Failed, "the worker ended without saying how"
	default:
		r.believe(&o, end.claim)
	}
	if o.Outcome != loop.AwaitingActor && end.claimed && end.claim.Outcome != o.Outcome {
		o.Claimed = loop.Bound(end.claim.Outcome, 64)
	}
	o.finish(r.tally.fruitless())
	return o
}

// believe takes a claim over where nothing that the kernel has seen contradicts it.
func (r *run) believe(o *outcomeBody, c loop.Claim) {
	contradiction := ""
	switch c.Outcome {
	case loop.Completed:
		if r.plan.escape == nil && (r.turns == r.before.turns || !r.final) {
			contradiction = "the model's last reply was not an end"
		}
	case loop.MaxTurns:
		if r.turnsLeftLocked() {
			contradiction = fmt.Sprintf("only %d turns were taken", r.turns)
		}
	case loop.BudgetExhausted:
		o.BudgetKind = r.exhausted
		if r.exhausted == "" && c.BudgetKind == loop.BudgetWallClock && r.nearWallClock() {
			o.BudgetKind = loop.BudgetWallClock
		}
		if o.BudgetKind == "" {
			contradiction = "no budget ran out"
		}
	case loop.GuardrailHalt:
		o.Tool, o.ArgsHash, o.Count = loop.Bound(c.Tool, 128), loop.Bound(c.ArgsHash, 128), c.Count
	case loop.Blocked:
		o.Tool = loop.Bound(c.Tool, 128)
	case loop.Failed:
		o.Reason, o.Hint = loop.Bound(c.Error, maxSummary), r.hint
	default: // cancelled by nobody, waiting for nothing, or no word that is known
		contradiction = "nothing that the kernel has seen agrees"
	}
	o.Outcome = c.Outcome
	if contradiction != "" {
		o.Outcome = loop.Failed
		o.Reason = fmt.Sprintf("the loop claims %q, but %s", loop.Bound(c.Outcome, 64), contradiction)
	}
}

// nearWallClock reports whether the ceiling is so near that the loop's own clock may have rung first.
func (r *run) nearWallClock() bool {
	return r.plan.wallClock > 0 && r.e.now().Sub(r.started) >= r.wallClock()-time.Second
}

// finish sets success and state. A run whose every call failed is not a success, whatever its last words are.
func (o *outcomeBody) finish(fruitless bool) {
	switch o.Outcome {
	case loop.Completed:
		o.Success = !fruitless
		o.State = Done
		if fruitless {
			o.State = StoppedShort
			o.Reason = fmt.Sprintf("not a success: all %d tool calls failed", o.Failed)
		}
	case loop.Cancelled:
		o.State = Stopped
	case loop.AwaitingActor:
		o.State = WaitingOnYou
	default:
		o.State = StoppedShort
	}
	switch {
	case o.Reason == "", o.Outcome == loop.Cancelled:
	case o.Summary == "":
		o.Summary = o.Reason
	default:
		o.Summary = o.Reason + ". The loop said: " + o.Summary
	}
}

// outcomeTries and outcomeWait bound how long an outcome that cannot be written is tried. After that the run has none until the
// daemon's next start finds it.
const (
	outcomeTries = 5
	outcomeWait  = 50 * time.Millisecond
)

// conclude writes a run's outcome. A run without one counts as stopped short, whatever it came to: it is what the next start finds.
func (e *Engine) conclude(r *run, o outcomeBody) {
	defer e.index.move(r.thread)()
	var ids []string
	var err error
	for try := range outcomeTries {
		if try > 0 {
			time.Sleep(outcomeWait << try)
		}
		ids, err = r.pen.write(context.WithoutCancel(e.ctx), outcomeLine(r.anchor, o))
		if err == nil {
			break
		}
	}
	id := ""
	if err == nil {
		id = ids[0]
	} else {
		o.Outcome, o.State, o.Request = loop.Failed, StoppedShort, ""
	}
	e.index.settle(r.thread, o.State, id, o.Request)
	e.notify(Notice{Event: NoticeEnded, Thread: r.thread, Principal: r.plan.principal, Actor: r.plan.actor, PID: r.pid, Outcome: o.Outcome, Err: err})
}

func outcomeLine(anchor string, o outcomeBody) line {
	return line{record.ActKnow, func([]string) (any, []string) { return o, []string{anchor} }}
}

// text is a worker's unclean end in words.
func (e Exit) text() string {
	if e.Signal != "" {
		return "the worker was ended by " + e.Signal
	}
	return fmt.Sprintf("the worker ended with status %d", e.Code)
}
