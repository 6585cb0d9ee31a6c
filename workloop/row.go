package workloop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"playground/workloop/loop"
)

const (
	defaultRows = 50
	mostRows    = 500
)

// Run returns a run's row.
func (e *Engine) Run(ctx context.Context, thread string) (Row, error) {
	n, ok := e.index.get(thread)
	if !ok {
		return Row{}, notFound("run", thread)
	}
	return e.row(ctx, n)
}

// Runs lists runs, the newest first.
func (e *Engine) Runs(ctx context.Context, f Filter) (RunPage, error) {
	switch f.State {
	case "", Running, WaitingOnYou, Done, Stopped, StoppedShort:
	default:
		return RunPage{}, invalid("state %.40q is unknown; the states are running, waiting_on_you, done, stopped and stopped_short", f.State)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultRows
	}
	limit = min(limit, mostRows)
	found, more := e.index.newest(f.Scan, func(n entry) bool {
		return (f.State == "" || n.state == f.State) && (f.Actor == "" || n.actor == f.Actor || n.principal == f.Actor) &&
			(f.Since.IsZero() || n.started >= f.Since.Unix())
	})
	page := RunPage{Rows: []Row{}, Truncated: more || len(found) > limit}
	for _, n := range found[:min(len(found), limit)] {
		row, err := e.row(ctx, n)
		if err != nil {
			return RunPage{}, err
		}
		page.Rows = append(page.Rows, row)
	}
	return page, nil
}

// row folds a run's anchor, its newest outcome and, while it is going, what the kernel has counted.
func (e *Engine) row(ctx context.Context, n entry) (Row, error) {
	a, err := e.anchorOf(ctx, n)
	if err != nil {
		return Row{}, err
	}
	row := Row{
		Object: "run", Thread: n.thread, Actor: n.actor, ActorName: nameOf(n.actor), Principal: n.principal, Tier: string(a.Tier), Model: a.Model, Goal: a.Goal,
		SourceThread: a.SourceThread, Definition: a.Definition, Prompt: a.Prompt, State: n.state, MaxTurns: a.MaxTurns, CeilingUSD: a.BudgetUSD,
		BudgetUSD: a.BudgetUSD, StartedAt: n.started, Tools: list(a.Tools), Narrowed: list(a.Narrowed), Transport: string(a.Transport),
		Needs: []string{}, Evidence: []string{}, Candidates: []string{},
	}
	if r := e.going(n.thread); r != nil && n.state == Running {
		r.mu.Lock()
		row.Turns, row.ToolCallsOK, row.ToolCallsFailed = r.turns, r.tally.ok, r.tally.failed
		r.mu.Unlock()
		row.SpentUSD = r.spent().CostUSD
		return row, nil
	}
	if n.outcome == "" {
		return row, nil
	}
	rec, err := e.o.Log.Get(ctx, n.outcome)
	if err != nil {
		return Row{}, queryError(err)
	}
	var o outcomeBody
	if err := rec.Decode(&o); err != nil {
		return Row{}, err
	}
	row.Outcome, row.Success, row.Summary = &o.Outcome, &o.Success, &o.Summary
	row.Turns, row.SpentUSD, row.ToolCallsOK, row.ToolCallsFailed = o.Turns, o.SpentUSD, o.OK, o.Failed
	row.Hint = o.Hint
	if o.Reason != "" {
		row.Reason = &o.Reason
	}
	if n.state != WaitingOnYou {
		row.EndedAt = &rec.CreatedAt
		return row, nil
	}
	row.Ask, err = e.ask(ctx, n.request)
	return row, err
}

// anchorOf reads what a run was started with.
func (e *Engine) anchorOf(ctx context.Context, n entry) (anchor, error) {
	rec, err := e.o.Log.Get(ctx, n.anchor)
	if err != nil {
		return anchor{}, queryError(err)
	}
	var a anchor
	return a, rec.Decode(&a)
}

// ask reads a question.
func (e *Engine) ask(ctx context.Context, request string) (*Ask, error) {
	rec, err := e.o.Log.Get(ctx, request)
	if err != nil {
		return nil, queryError(err)
	}
	var q requestBody
	if err := rec.Decode(&q); err != nil {
		return nil, err
	}
	return &Ask{RequestID: request, Question: q.Question, Options: list(q.Options), Context: q.Context, Reason: q.Reason}, nil
}

// nameOf is the last part of a DID.
func nameOf(did string) string { return did[strings.LastIndexByte(did, ':')+1:] }

// hashName is a DID as the name of a folder.
func hashName(did string) string {
	sum := sha256.Sum256([]byte(did))
	return hex.EncodeToString(sum[:16])
}

func list(items []string) []string { return append([]string{}, items...) }

// deny notes in a preview what a start would be refused for.
func (v *Preview) deny(denial error) {
	if refusal, ok := errors.AsType[*loop.Refusal](denial); ok {
		v.WouldBeDenied, v.DenialCode, v.DenialReason = true, refusal.Code, refusal.Message
		v.DenialHint, _ = refusal.Extra[keyHint].(string)
	}
}
