package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"playground/fault"
	"playground/inference"
)

// DefaultMaxTokens bounds one reply where the Spec does not.
const DefaultMaxTokens = 8192

// patience is how many turns in a row may bring nothing for one and the same reason before the run ends.
const patience = 3

// errWallClock is the cause of a context that the run's own clock ended.
var errWallClock = errors.New("the wall clock ceiling of the run is reached")

// Run runs the loop to its end. It returns when the run is over, waits for a person, or ctx ends; it does not panic on
// anything a model, a tool or a kernel answers.
func Run(ctx context.Context, s Spec, k Kernel) Claim {
	if s.WallClock > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, s.WallClock, errWallClock)
		defer cancel()
		ctx = limited
	}
	r := newRun(s, k)
	claim := r.turns(ctx)
	claim.Turns = r.turn - r.spec.FirstTurn
	return claim
}

// A run is one loop in progress.
type run struct {
	spec   Spec
	kernel Kernel
	tools  map[string]Tool
	talk   conversation
	turn   int // index of the turn in progress, and afterwards of the next one
	watch  watcher
	rail   guardrail
	stuck  streak // turns in a row that failed for one reason
	mute   streak // replies in a row without anything to go on with
	hooks  hookSet
}

func newRun(s Spec, k Kernel) *run {
	s.FirstTurn = max(0, s.FirstTurn)
	r := &run{spec: s, kernel: k, tools: make(map[string]Tool, len(s.Tools)), turn: s.FirstTurn, talk: newConversation(s)}
	for _, t := range s.Tools {
		r.tools[t.Name] = t
	}
	return r
}

// turns makes turns until one ends the run.
func (r *run) turns(ctx context.Context) Claim {
	for {
		if r.spec.MaxTurns > 0 && r.turn >= r.spec.MaxTurns {
			return Claim{Outcome: MaxTurns, Summary: fmt.Sprintf("ended at the ceiling of %d turns", r.spec.MaxTurns)}
		}
		claim, ended := r.step(ctx)
		if ended {
			return claim
		}
	}
}

// step makes one turn: it asks the model and runs the calls of its reply.
func (r *run) step(ctx context.Context) (claim Claim, ended bool) {
	if r.spec.LiveHooks != nil {
		r.spec.Hooks = r.spec.LiveHooks()
	}
	completion, err := r.kernel.Complete(ctx, r.request())
	if err != nil {
		return endOf(ctx, err), true
	}
	reply := r.talk.reply(completion, r.turn)
	for _, text := range completion.Messages {
		r.talk.person(text)
	}
	err = r.append(ctx, KindTurn, TurnBody{TurnIndex: r.turn, Model: printable(completion.Model, maxName),
		InputTokens: max(0, completion.InputTokens), OutputTokens: max(0, completion.OutputTokens), CostUSD: cost(completion.CostUSD),
		StopReason: printable(completion.StopReason, maxName), Text: Bound(reply.text, MaxContent), ToolCalls: len(reply.calls),
		HookErrors: r.hooks.takeErrors()})
	r.turn++
	if err != nil {
		return endOf(ctx, err), true
	}
	if completion.StopReason == inference.Refusal {
		return Claim{Outcome: Failed, Summary: Bound(reply.text, maxSummary), Error: "the model refused to go on"}, true
	}
	if len(reply.calls) == 0 {
		return r.answered(reply)
	}
	r.mute = streak{}
	return r.calls(ctx, reply)
}

// request is what the model is asked next.
func (r *run) request() inference.Request {
	maxTokens := r.spec.MaxTokens
	if maxTokens <= 0 {
		maxTokens = DefaultMaxTokens
	}
	tools := make([]inference.Tool, 0, len(r.spec.Tools))
	for _, t := range r.spec.Tools {
		tools = append(tools, inference.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema})
	}
	return inference.Request{Model: r.spec.Model, System: systemText(r.spec), Messages: r.talk.next(), Tools: tools, MaxTokens: maxTokens}
}

// answered decides what a reply without calls means: the end, unless it is empty, cut, or a person has spoken meanwhile.
func (r *run) answered(reply reply) (claim Claim, ended bool) {
	problem, remark := "", ""
	switch {
	case reply.cut:
		problem, remark = "cut at the output limit", "Your last reply was cut at the output limit. Finish with a shorter one."
	case reply.text == "":
		problem, remark = "empty", "Your last reply was empty. Call a tool, or answer in words to end the run."
	}
	if problem == "" {
		r.mute = streak{}
		if r.talk.personSpoke() {
			return Claim{}, false
		}
		return Claim{Outcome: Completed, Summary: Bound(reply.text, maxSummary)}, true
	}
	if r.mute.add(problem) >= patience {
		return Claim{Outcome: Failed, Summary: Bound(reply.text, maxSummary),
			Error: fmt.Sprintf("%d replies of the model in a row were %s", patience, problem)}, true
	}
	r.talk.remark(remark)
	return Claim{}, false
}

// append writes a record of a kind on the run's thread.
func (r *run) append(ctx context.Context, kind string, body any) error {
	_, err := r.kernel.Append(ctx, Entry{Kind: kind, Act: ActOf(kind), Body: body})
	return err
}

// blocked ends a run that cannot go on, and records why.
func (r *run) blocked(ctx context.Context, reason, narrative string, missing []string) Claim {
	if err := r.append(ctx, KindCoercion, CoercionBody{Reason: reason, Narrative: narrative, MissingTools: missing}); err != nil {
		return endOf(ctx, err)
	}
	claim := Claim{Outcome: Blocked, Summary: narrative}
	if len(missing) > 0 {
		claim.Tool = missing[0]
	}
	return claim
}

// endOf says how an error of the kernel ends a run.
func endOf(ctx context.Context, err error) Claim {
	if errors.Is(err, ErrStopped) {
		return Claim{Outcome: Cancelled, Summary: "the run was stopped"}
	}
	if kind, exhausted := BudgetKind(err); exhausted {
		return Claim{Outcome: BudgetExhausted, BudgetKind: kind, Summary: "the " + kind + " budget is exhausted"}
	}
	if errors.Is(err, &Refusal{Code: CodeMaxTurns}) {
		return Claim{Outcome: MaxTurns, Summary: "ended at the ceiling of turns"}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errWallClock):
		return Claim{Outcome: BudgetExhausted, BudgetKind: BudgetWallClock, Summary: cause.Error()}
	case cause != nil:
		return Claim{Outcome: Cancelled, Summary: "the run was ended from outside"}
	}
	return Claim{Outcome: Failed, Error: Bound(err.Error(), maxSummary)}
}

// A softError is what the model is told of a kernel's error that is a fault of the request and not of the run.
type softError struct{ code, message string }

// soften returns err as a softError, if it is one: the model may do better next time.
func soften(err error) (soft softError, ok bool) {
	if _, exhausted := BudgetKind(err); exhausted || errors.Is(err, &Refusal{Code: CodeMaxTurns}) || errors.Is(err, ErrStopped) || errors.Is(err, ErrRefused) {
		return soft, false
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		hint, _ := r.Extra["hint"].(string)
		return softError{r.Code, withHint(r.Message, hint)}, r.Status >= 400 && r.Status < 500 && r.Code != CodeAuthRequired
	}
	switch e, ok := errors.AsType[*fault.Error](err); {
	case !ok:
	case e.Kind == fault.Invalid, e.Kind == fault.NotFound, e.Kind == fault.Denied, e.Kind == fault.TooLarge:
		return softError{strings.ToUpper(string(e.Kind)), withHint(e.Message, e.Hint)}, true
	}
	return soft, false
}

// withHint adds the next step to what the model is told.
func withHint(message, hint string) string {
	if hint == "" {
		return message
	}
	return message + "\nhint: " + Bound(hint, maxRemark)
}

// A streak counts how often in a row one thing was met.
type streak struct {
	of string
	n  int
}

// add counts one more of what and returns the length of the streak.
func (s *streak) add(what string) int {
	if s.of != what {
		*s = streak{of: what}
	}
	s.n++
	return s.n
}
