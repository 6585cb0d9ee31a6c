package workloop

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"playground/fault"
	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

var _ loop.Kernel = (*run)(nil)

// Propose implements loop.Kernel: it judges a call, and records the call and the judgment before it answers.
func (r *run) Propose(ctx context.Context, p loop.Proposal) (loop.Verdict, error) {
	if err := r.enter(); err != nil {
		return loop.Verdict{}, err
	}
	defer r.leave()
	if err := r.admitCall(len(p.Args)); err != nil {
		return loop.Verdict{}, err
	}
	if !json.Valid(p.Args) {
		return loop.Verdict{}, invalid("the arguments are not JSON")
	}
	if (p.Truncated || r.wasCut()) && r.stopped() == "" {
		return r.truncated(ctx, p)
	}
	j, err := r.judge(ctx, p)
	if err != nil {
		return loop.Verdict{}, unwritten(err)
	}
	lines := []line{r.callLine(p), verdictLine(p.Tool, j)}
	if j.decision != loop.Allow {
		status, code := loop.StatusDenied, "denied_"+j.layer
		if j.decision == loop.Stop {
			status, code = loop.StatusStopped, "stopped"
		}
		lines = append(lines, refusedLine(p, status, code, j.reason))
	}
	ids, err := r.pen.write(ctx, lines...)
	if err != nil {
		return loop.Verdict{}, unwritten(err)
	}
	r.mu.Lock()
	if j.decision == loop.Allow {
		definition, _ := r.plan.granting(p.Tool)
		r.tally.allow(ids[0], &call{tool: p.Tool, args: slices.Clone(p.Args), domain: definition.Domain, turn: p.TurnIndex})
	} else {
		r.tally.refused()
	}
	r.mu.Unlock()
	r.announce(p.Tool, j)
	return loop.Verdict{Decision: j.decision, Layer: j.layer, Rule: j.rule, Reason: j.reason, Change: j.change,
		Call: ids[0], Verdict: ids[1], Messages: r.heard()}, nil
}

// announce tells the daemon's log of what an operator looks for there.
func (r *run) announce(name string, j judgment) {
	if j.decision == loop.Deny {
		r.e.notify(Notice{Event: NoticeDenied, Thread: r.thread, Principal: r.plan.principal, Actor: r.plan.actor, Tool: name, Rule: j.rule})
	}
	for _, rule := range j.skipped {
		r.e.notify(Notice{Event: NoticeRule, Thread: r.thread, Rule: rule, Tool: name})
	}
}

// admitCall counts a proposal. Calls come from replies of the model, so that their number is bounded by what the model may say.
func (r *run) admitCall(bytes int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.request != "":
		return loop.ErrRefused
	case r.turns == r.before.turns:
		return refuse(CodeFlood, http.StatusTooManyRequests, "a tool call needs a reply of the model")
	case r.calls >= maxCalls:
		return refuse(CodeFlood, http.StatusTooManyRequests, "%d tool calls on one reply are too many", maxCalls)
	case len(r.tally.open) >= maxOpen:
		return refuse(CodeFlood, http.StatusTooManyRequests, "%d allowed calls lack a result", maxOpen)
	case r.bytes+bytes > maxBytes:
		return refuse(CodeFlood, http.StatusTooManyRequests, "more than %d bytes on one reply are too many", maxBytes)
	}
	r.calls++
	r.bytes += bytes
	return nil
}

// wasCut reports whether the last reply hit the output limit: the kernel has seen that itself, whatever a worker says of its call.
func (r *run) wasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cutOff
}

// truncated records a call that came on a reply that was cut, and its result. Nothing is judged: it cannot be carried out.
func (r *run) truncated(ctx context.Context, p loop.Proposal) (loop.Verdict, error) {
	const reason = "the reply that the call came in was cut at the output limit"
	ids, err := r.pen.write(ctx, r.callLine(p), refusedLine(p, loop.StatusTruncated, "reply_truncated", "Not run: "+reason+"."))
	if err != nil {
		return loop.Verdict{}, unwritten(err)
	}
	r.mu.Lock()
	r.tally.refused()
	r.mu.Unlock()
	return loop.Verdict{Decision: loop.Deny, Reason: reason, Call: ids[0], Messages: r.heard()}, nil
}

func (r *run) callLine(p loop.Proposal) line {
	return line{record.ActCall, func([]string) (any, []string) {
		return callBody{Kind: loop.KindToolCall, Tool: p.Tool, Args: p.Args, ArgsHash: loop.ArgsHash(p.Args), TurnIndex: p.TurnIndex, CallID: p.CallID}, []string{r.anchor}
	}}
}

// verdictLine is the verdict on the call before it.
func verdictLine(name string, j judgment) line {
	return line{record.ActKnow, func(before []string) (any, []string) {
		body := verdictBody{Kind: KindToolVerdict, Tool: name, Fulfills: before[0], Decision: j.decision, Layer: j.layer, Reason: j.reason, Change: j.change, Skipped: j.skipped}
		if j.rule != "" {
			body.Rule, body.Version = &j.rule, &j.version
		}
		return body, before[:1]
	}}
}

// refusedLine is the result of a call that is not carried out.
func refusedLine(p loop.Proposal, status, code, text string) line {
	return line{record.ActKnow, func(before []string) (any, []string) {
		return resultBody{loop.KindToolResult, loop.ToolResultBody{Fulfills: before[0], Tool: p.Tool, TurnIndex: p.TurnIndex, Status: status, Code: code, Content: text}}, before
	}}
}

// Call implements loop.Kernel: it carries out a call that was allowed and that only the kernel can, once.
func (r *run) Call(ctx context.Context, id string) (loop.Result, error) {
	if err := r.enter(); err != nil {
		return loop.Result{}, err
	}
	defer r.leave()
	c, err := r.begin(id)
	if err != nil {
		return loop.Result{}, err
	}
	ctx, cancel := r.operation(ctx)
	defer cancel()
	began := time.Now()
	result := r.carryOut(ctx, id, c)
	result.Content = loop.Bound(result.Content, loop.MaxContent)
	_, err = r.pen.write(ctx, line{record.ActKnow, func([]string) (any, []string) {
		return resultBody{loop.KindToolResult, loop.ToolResultBody{Fulfills: id, Tool: c.tool, TurnIndex: c.turn, Status: result.Status, Code: result.Code,
			Content: result.Content, Data: result.Data, DurationMS: time.Since(began).Milliseconds()}}, []string{id}
	}})
	if err != nil {
		return loop.Result{}, unwritten(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.finish(id, result.Status)
	return result, nil
}

// begin takes an allowed call for carrying it out.
func (r *run) begin(id string) (call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, open := r.tally.open[id]
	switch {
	case !open || c.domain == loop.Sandboxed:
		return call{}, refuse(loop.CodeNotFound, http.StatusNotFound, "there is no allowed call of that id for the kernel to carry out")
	case c.running || r.request != "":
		return call{}, refuse(loop.CodeConflict, http.StatusConflict, "the call is being carried out, or the run waits")
	}
	c.running = true
	return *c, nil
}

// carryOut runs a tool, unless the run was stopped since the call was allowed. A tool that panics must not take the daemon with it, nor
// its text into a record.
func (r *run) carryOut(ctx context.Context, id string, c call) (result loop.Result) {
	defer func() {
		if p := recover(); p != nil {
			r.e.notify(Notice{Event: NoticeError, Thread: r.thread, Tool: c.tool, Err: errPanic(p)})
			result = loop.Result{Status: loop.StatusError, Code: "internal", Content: "The tool failed."}
		}
	}()
	if by := r.stopped(); by != "" {
		return loop.Result{Status: loop.StatusStopped, Code: "stopped", Content: "Not run: the run was stopped by " + by + "."}
	}
	return r.tools.Call(ctx, id, c.tool, c.args)
}

// Query implements loop.Kernel.
func (r *run) Query(ctx context.Context, q record.Query) (record.Page, error) {
	if err := r.enter(); err != nil {
		return record.Page{}, err
	}
	defer r.leave()
	all := r.plan.operator && r.plan.transport == tier.InProcess
	if q.Thread == "" || !all && q.Thread != r.thread && !slices.Contains(r.plan.reads, q.Thread) {
		return record.Page{}, refuse(loop.CodeReadsNotCovered, http.StatusForbidden, "the run may read its own thread and those it was started with, not %.80q", q.Thread)
	}
	r.mu.Lock()
	called := r.plan.escape != nil || r.tally.waiting(loop.ToolQueryThread, loop.ToolReadRecord) > 0
	r.mu.Unlock()
	if !called { // a rule that denies the tools holds for a worker too that does not ask
		return record.Page{}, uncalled(loop.ToolQueryThread, loop.ToolReadRecord)
	}
	return r.query(ctx, q)
}

// query carries out a query that a run thought of: it may take long, and must not hold up what the kernel itself has to read.
func (r *run) query(ctx context.Context, q record.Query) (record.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	select {
	case r.e.queries <- struct{}{}:
		defer func() { <-r.e.queries }()
	case <-ctx.Done():
		return record.Page{}, tooSlow(ctx)
	}
	page, err := r.e.o.Log.Query(ctx, q)
	if err != nil && ctx.Err() != nil {
		err = tooSlow(ctx)
	}
	return page, queryError(err)
}

// tooSlow is the error of a query that ctx ended.
func tooSlow(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return hinted(refuse(loop.CodeInvalidQuery, http.StatusBadRequest, "the query took longer than %s", queryTime), "ask with fewer patterns")
	}
	return context.Cause(ctx)
}

// Complete implements loop.Kernel: it relays a model call within what the run may still use.
func (r *run) Complete(ctx context.Context, q inference.Request) (loop.Completion, error) {
	if err := r.enter(); err != nil {
		return loop.Completion{}, err
	}
	defer r.leave()
	if err := r.beginReply(); err != nil {
		return loop.Completion{}, err
	}
	ctx, cancel := r.operation(ctx)
	defer cancel()
	q.Model, q.MaxTokens = r.plan.model, min(q.MaxTokens, r.e.o.MaxTokens) // what was resolved, whatever a worker asks for
	before := r.account.Spent()
	response, err := r.account.Complete(ctx, q, nil)
	took := inference.Usage{InputTokens: response.InputTokens, OutputTokens: response.OutputTokens, CostUSD: response.CostUSD}
	if err != nil { // a call that failed may have been paid for too
		now := r.account.Spent()
		took = inference.Usage{InputTokens: now.InputTokens - before.InputTokens, OutputTokens: now.OutputTokens - before.OutputTokens, CostUSD: now.CostUSD - before.CostUSD}
	}
	if took != (inference.Usage{}) {
		if unpaid := r.place.spend(context.WithoutCancel(ctx), r.thread, took); unpaid != nil && err == nil {
			err = unwritten(unpaid)
		}
	}
	r.endReply(response, took, err)
	if err != nil {
		return loop.Completion{}, r.completionError(ctx, err)
	}
	total := r.spent().CostUSD
	return loop.Completion{Response: response, SpentUSD: &total, RemainingUSD: r.account.RemainingUSD(), Messages: r.heard()}, nil
}

// beginReply checks all ceilings that the kernel itself keeps.
func (r *run) beginReply() error {
	if r.plan.transport == tier.Sandboxed && r.account.RemainingUSD() == nil { // each is minted with one
		return refuse(loop.CodeBudgetRequired, http.StatusForbidden, "a credential without a ceiling asks no model")
	}
	if r.place.exhausted() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exhausted = loop.BudgetUSD
		return loop.ErrBudget(loop.BudgetUSD)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.request != "":
		return loop.ErrRefused
	case r.stoppedBy != "":
		return loop.ErrStopped
	case context.Cause(r.ops) != nil && errors.Is(context.Cause(r.ops), errWallClock):
		r.exhausted = loop.BudgetWallClock
		return loop.ErrBudget(loop.BudgetWallClock)
	case !r.turnsLeftLocked():
		return refuse(CodeMaxTurns, http.StatusForbidden, "the run has had its %d turns", r.plan.maxTurns)
	case r.failed:
		return refuse(CodeProvider, http.StatusConflict, "a model call of the run has failed, and there is no other after it")
	case r.asking:
		return refuse(loop.CodeConflict, http.StatusConflict, "a model call is going on")
	}
	r.asking = true
	return nil
}

// endReply takes a model's reply into the count of turns.
func (r *run) endReply(response inference.Response, took inference.Usage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = false
	if err != nil {
		return
	}
	r.turnOwed = &reply{index: r.turns, model: response.Model, usage: took, stop: response.StopReason}
	r.turns++
	r.calls, r.entries, r.bytes = 0, 0, 0
	r.cutOff = response.StopReason == inference.MaxTokens
	r.final = !slices.ContainsFunc(response.Content, func(b inference.Block) bool { return b.Type == inference.ToolUse })
}

// completionError turns the error of a model call into what the loop is told, and notes a budget that ran out.
func (r *run) completionError(ctx context.Context, err error) error {
	kind := ""
	if budget, ok := errors.AsType[*inference.BudgetError](err); ok {
		kind = budget.Kind
	} else if errors.Is(context.Cause(ctx), errWallClock) {
		kind = loop.BudgetWallClock
	}
	if kind != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exhausted = kind
		return loop.ErrBudget(kind)
	}
	if _, ok := errors.AsType[*loop.Refusal](err); ok {
		return err
	}
	hint := fault.HintOf(err)
	if hint != "" && !r.plan.operator { // it may name files of the host
		hint = "the log of playgroundd says what can be done"
	}
	r.mu.Lock()
	r.failed, r.hint = true, hint
	r.mu.Unlock()
	r.e.notify(Notice{Event: NoticeError, Thread: r.thread, Err: err})
	return providerError(err)
}
