package workloop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"playground/record"
	"playground/workloop/loop"
)

// The answers that need no option of their own.
const (
	AnswerProvide = "provide" // with a value
	AnswerAck     = "ack"
)

const maxAnswer = 64 << 10

// Decisions lists the questions that nobody has answered, the oldest first.
func (e *Engine) Decisions(ctx context.Context) ([]OpenDecision, error) {
	waiting, _ := e.index.newest(0, func(n entry) bool { return n.state == WaitingOnYou })
	slices.Reverse(waiting)
	open := make([]OpenDecision, 0, len(waiting))
	for _, n := range waiting {
		ask, err := e.ask(ctx, n.request)
		if err != nil {
			return nil, err
		}
		rec, err := e.o.Log.Get(ctx, n.request)
		if err != nil {
			return nil, queryError(err)
		}
		open = append(open, OpenDecision{Object: "decision_request", Thread: n.thread, Actor: n.actor, Principal: n.principal, AskedAt: rec.CreatedAt, Ask: *ask})
	}
	return open, nil
}

// Decide answers a question by the id of its record. The run goes on with a fresh worker before the answer is recorded, so that an
// answer which could not be acted on can be given again.
func (e *Engine) Decide(ctx context.Context, request string, answer Event) (Decision, error) {
	if answer.Actor == "" {
		answer.Actor = e.o.Operator
	}
	rec, err := e.o.Log.Get(ctx, request)
	if err != nil || record.Kind(rec) != KindRequest {
		return Decision{}, notFound("question", request)
	}
	return e.decide(ctx, rec.Thread, request, answer)
}

func (e *Engine) decide(ctx context.Context, thread, request string, answer Event) (d Decision, err error) {
	if answer.Policy {
		return Decision{}, refuse(CodePolicyMissing, http.StatusUnprocessableEntity, "an answer does not become a rule here; write the rule with `playground config add-permission-rule`")
	}
	if e.o.Broker == nil {
		return Decision{}, noProvider()
	}
	e.names.RLock()
	defer e.names.RUnlock()
	n, err := e.index.claim(thread, request)
	if err != nil {
		return Decision{}, err
	}
	defer func() {
		if err != nil {
			e.index.giveBack(n.thread)
		}
	}()
	if n.life != e.index.life(n.principal) {
		return Decision{}, ended() // the principal is no more, and its name may be another's by now
	}
	ask, err := e.ask(ctx, n.request)
	if err != nil {
		return Decision{}, err
	}
	if err := checkAnswer(*ask, answer); err != nil {
		return Decision{}, err
	}
	id, err := e.resume(ctx, n, *ask, answer)
	if err != nil {
		return Decision{}, err
	}
	return Decision{Object: "decision", ID: id, RequestID: n.request, Decision: answer.Decision, Reason: answer.Reason, Value: answer.Value,
		Thread: n.thread, Fulfills: n.request, Resumed: true}, nil
}

// checkAnswer holds an answer to the question's options.
func checkAnswer(ask Ask, answer Event) error {
	value := len(answer.Value) > 0 && string(answer.Value) != "null"
	switch {
	case strings.TrimSpace(answer.Decision) == "":
		return refuse(CodeMissingField, http.StatusBadRequest, "decision is missing")
	case len(answer.Decision)+len(answer.Reason)+len(answer.Value) > maxAnswer:
		return invalid("an answer has at most %d bytes", maxAnswer)
	case value && !json.Valid(answer.Value):
		return invalid("provided_value is not JSON")
	case answer.Decision == AnswerProvide && !value:
		return invalid("decision provide needs a provided_value")
	case answer.Decision == AnswerProvide, answer.Decision == AnswerAck, len(ask.Options) == 0, slices.Contains(ask.Options, answer.Decision):
		return nil
	}
	return invalid("%.80q is not an option; the options are %q, or provide or ack", answer.Decision, ask.Options)
}

// resume takes what a run needs to go on, records the answer, and starts its next stretch over the thread as it stands.
func (e *Engine) resume(ctx context.Context, n entry, ask Ask, answer Event) (id string, err error) {
	a, err := e.anchorOf(ctx, n)
	if err != nil {
		return "", err
	}
	rec, err := e.o.Log.Get(ctx, n.outcome)
	if err != nil {
		return "", queryError(err)
	}
	var o outcomeBody
	if err := rec.Decode(&o); err != nil {
		return "", err
	}
	p, err := e.replan(ctx, a)
	if err != nil {
		return "", err
	}
	h, err := e.take(ctx, p, n.thread, o.totals(), false)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			h.drop()
		}
	}()
	hooks, err := e.settings.hooksInForce(ctx)
	if err != nil {
		return "", unwritten(err)
	}
	records, err := e.o.Log.List(ctx, record.ListQuery{Thread: n.thread})
	if err != nil {
		return "", queryError(err)
	}
	defer e.index.move(n.thread)()
	saved, err := e.o.Log.Append(context.WithoutCancel(ctx), record.Draft{Thread: n.thread, Actor: answer.Actor, Act: record.ActKnow, Parents: []string{n.request},
		Body: decisionBody{Kind: KindDecision, Fulfills: n.request, Decision: answer.Decision, Reason: answer.Reason, Value: answer.Value}})
	if err != nil {
		return "", unwritten(err)
	}
	r := e.newRun(p, n.thread, h.place, o.totals())
	r.anchor = n.anchor
	e.register(r)
	e.index.settle(n.thread, Running, "", "")
	spec := e.spec(r, answerText(ask, answer), hooks)
	spec.History, _ = loop.History(records)
	shorten(spec.History)
	go e.supervise(r, h, spec)
	return saved[0].ID, nil
}

// answerText is the answer as the model is told it.
func answerText(ask Ask, answer Event) string {
	text := fmt.Sprintf("You asked: %s\nThe answer is: %s", ask.Question, answer.Decision)
	if len(answer.Value) > 0 {
		text += "\nThe value is: " + string(answer.Value)
	}
	if answer.Reason != "" {
		text += "\nThe reason is: " + answer.Reason
	}
	return text
}
