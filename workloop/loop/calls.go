package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The codes of results that the loop itself gives.
const (
	codeUnavailable = "tool_unavailable"
	codeInvalid     = "input_invalid"
	codeGuardrail   = "guardrail_blocked"
	codeTruncated   = "reply_truncated"
)

// calls runs the calls of a reply in order.
func (r *run) calls(ctx context.Context, reply reply) (claim Claim, ended bool) {
	if reply.cut {
		return r.truncated(ctx, reply)
	}
	var reasons, missing []string
	for _, c := range reply.calls {
		result, claim, ended := r.call(ctx, c)
		if ended {
			return claim, true
		}
		reason := reasonOf(result)
		reasons = append(reasons, reason)
		if reason == ReasonToolUnavailable && !slices.Contains(missing, c.tool) {
			missing = append(missing, c.tool)
		}
	}
	return r.progress(ctx, reasons, missing)
}

// reasonOf returns why a result brought nothing, or "".
func reasonOf(result Result) string {
	switch strings.ToLower(result.Code) {
	case codeUnavailable:
		return ReasonToolUnavailable
	case codeInvalid:
		return ReasonInputInvalid
	case "internal", "unavailable":
		return ReasonInternalError
	case "precondition_failed":
		return ReasonPreconditionFailed
	}
	return ""
}

// progress ends a run whose last turns brought nothing but one kind of failure, for which no other model reply will help.
func (r *run) progress(ctx context.Context, reasons, missing []string) (claim Claim, ended bool) {
	reason := reasons[0]
	if slices.ContainsFunc(reasons, func(other string) bool { return other == "" || other != reason }) {
		r.stuck = streak{}
		return Claim{}, false
	}
	if r.stuck.add(reason) < patience {
		return Claim{}, false
	}
	narrative := fmt.Sprintf("all tool calls of %d turns in a row failed: %s", patience, strings.ReplaceAll(reason, "_", " "))
	if len(missing) > 0 {
		narrative += ": " + strings.Join(missing, ", ")
	}
	return r.blocked(ctx, reason, narrative, missing), true
}

// truncated answers the calls of a reply that was cut: arguments cut in the middle can parse and still be incomplete, so
// none is run.
func (r *run) truncated(ctx context.Context, reply reply) (claim Claim, ended bool) {
	for i, c := range reply.calls {
		verdict, err := r.propose(ctx, c, true)
		if err != nil {
			return endOf(ctx, err), true
		}
		if verdict.Decision == Stop {
			return Claim{Outcome: Cancelled, Summary: "the run was stopped"}, true
		}
		result := Result{Status: StatusTruncated, Code: codeTruncated, Content: "Not run: the reply that this call came in was cut at the output limit."}
		var extra []observation
		if i == 0 {
			extra = []observation{truncatedObservation(len(reply.calls))}
		}
		if claim, ended := r.finish(ctx, c, verdict, result, extra); ended {
			return claim, true
		}
	}
	return Claim{}, false
}

// propose tells the kernel of a call and takes in what a person said meanwhile.
func (r *run) propose(ctx context.Context, c call, truncated bool) (Verdict, error) {
	verdict, err := r.kernel.Propose(ctx, Proposal{CallID: c.id, TurnIndex: r.turn - 1, Tool: c.tool, Args: c.args, Truncated: truncated})
	for _, text := range verdict.Messages {
		r.talk.person(text)
	}
	return verdict, err
}

// call proposes one call, runs it if it may run, and takes its result into the conversation.
func (r *run) call(ctx context.Context, c call) (result Result, claim Claim, ended bool) {
	verdict, err := r.propose(ctx, c, false)
	if err != nil {
		return result, endOf(ctx, err), true
	}
	switch verdict.Decision {
	case Allow:
		if result, err = r.allowed(ctx, c, verdict); err != nil {
			return result, endOf(ctx, err), true
		}
	case Deny:
		result = r.denied(c, verdict)
	case Stop:
		return result, Claim{Outcome: Cancelled, Summary: "the run was stopped"}, true
	default:
		return result, Claim{Outcome: Failed, Error: fmt.Sprintf("the kernel's decision %q is none", printable(verdict.Decision, maxName))}, true
	}
	result.Content = Bound(result.Content, MaxContent)
	claim, ended = r.finish(ctx, c, verdict, result, nil)
	return result, claim, ended
}

// denied is what the model is told of a denied call. The kernel has recorded its result.
func (r *run) denied(c call, v Verdict) Result {
	if _, known := r.tools[c.tool]; !known && v.Layer == LayerGrant {
		return Result{Status: StatusDenied, Code: codeUnavailable, Content: r.missingText(c.tool)}
	}
	text := "Denied by the " + printable(v.Layer, maxName) + " layer"
	if v.Rule != "" {
		text += ", rule " + printable(v.Rule, maxName)
	}
	text += "."
	if v.Reason != "" {
		text += " Reason: " + v.Reason
	}
	if v.Change != "" {
		text += " What would change it: " + v.Change
	}
	return Result{Status: StatusDenied, Code: "denied_" + printable(v.Layer, maxName), Content: text}
}

// missingText tells of a tool that is not there and of those that are.
func (r *run) missingText(name string) string {
	if slices.Contains(r.spec.Narrowed, name) {
		return fmt.Sprintf("The tool %s is withheld from this run: the place where it runs cannot serve it.", name)
	}
	names := make([]string, 0, len(r.spec.Tools))
	for _, t := range r.spec.Tools {
		names = append(names, t.Name)
	}
	return fmt.Sprintf("There is no tool %s in this run. Its tools are: %s.", name, strings.Join(names, ", "))
}

// allowed runs an allowed call. What the loop answers itself it also records; the kernel records what it runs.
func (r *run) allowed(ctx context.Context, c call, v Verdict) (Result, error) {
	begin := time.Now()
	result, local, err := r.execute(ctx, c, v)
	if err != nil {
		return result, err
	}
	result.Content = Bound(result.Content, MaxContent)
	if !local {
		return result, nil
	}
	err = r.append(ctx, KindToolResult, ToolResultBody{Fulfills: v.Call, Tool: c.tool, TurnIndex: r.turn - 1, Status: result.Status, Code: result.Code,
		Content: result.Content, Data: result.Data, DurationMS: time.Since(begin).Milliseconds()})
	return result, err
}

// execute runs a call; local says that the result is the loop's own to record.
func (r *run) execute(ctx context.Context, c call, v Verdict) (result Result, local bool, err error) {
	tool, known := r.tools[c.tool]
	switch {
	case !known:
		return Result{Status: StatusError, Code: codeUnavailable, Content: r.missingText(c.tool)}, true, nil
	case c.problem != "":
		return Result{Status: StatusError, Code: codeInvalid, Content: "Not run: " + c.problem + "."}, true, nil
	case r.rail.blocks(railKey(c)):
		return Result{Status: StatusError, Code: codeGuardrail, Content: fmt.Sprintf("Not run: this call has failed %d times in the same way "+
			"and is blocked. Repeating it ends the run.", BlockThreshold)}, true, nil
	case tool.Domain == Sandboxed:
		result, err = r.local(ctx, c)
		return result, true, err
	}
	result, err = r.kernel.Call(ctx, v.Call)
	if soft, ok := soften(err); ok {
		return Result{Status: StatusError, Code: soft.code, Content: soft.message}, false, nil
	}
	return result, false, err
}

func railKey(c call) string { return c.tool + "\x00" + ArgsHash(c.args) }

// finish takes a call's result into the conversation, with what was noticed about it, and applies the guardrail.
func (r *run) finish(ctx context.Context, c call, v Verdict, result Result, seen []observation) (claim Claim, ended bool) {
	hash := ArgsHash(c.args)
	r.talk.result(c.id, result.Content, result.Status != StatusOK)
	seen = append(seen, r.watch.see(c.tool, hash, result)...)
	seen = append(seen, r.hooks.see(r.spec.Hooks, c.tool, json.RawMessage(c.args), result)...)
	for _, o := range seen {
		body := ObservationBody{Rule: o.rule, Text: o.text, LoopThread: r.spec.Thread, Tool: c.tool, Call: v.Call, TurnIndex: r.turn - 1, Source: o.source}
		if err := r.append(ctx, KindObservation, body); err != nil {
			return endOf(ctx, err), true
		}
		r.talk.remark(o.text)
	}
	if result.Park {
		return Claim{Outcome: AwaitingActor, Summary: Bound(result.Content, maxSummary)}, true
	}
	return r.guard(ctx, c, hash, result)
}

// guard counts a failure and, at its thresholds, tells the model that the call is blocked, or ends the run.
func (r *run) guard(ctx context.Context, c call, hash string, result Result) (claim Claim, ended bool) {
	body := GuardrailBody{Tool: c.tool, ArgsHash: hash, TurnIndex: r.turn - 1, Count: r.rail.count(railKey(c), result)}
	switch body.Count {
	case BlockThreshold:
		body.Verdict, body.Threshold = GuardrailVerdictBlock, BlockThreshold
	case HaltThreshold:
		body.Verdict, body.Threshold = GuardrailVerdictHalt, HaltThreshold
	default:
		return Claim{}, false
	}
	if err := r.append(ctx, KindGuardrail, body); err != nil {
		return endOf(ctx, err), true
	}
	if body.Verdict == GuardrailVerdictBlock {
		return Claim{}, false
	}
	return Claim{Outcome: GuardrailHalt, Tool: c.tool, ArgsHash: hash, Count: body.Count,
		Summary: fmt.Sprintf("%s failed %d times in the same way with the same arguments", c.tool, body.Count)}, true
}
