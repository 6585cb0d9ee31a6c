package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
)

// A kernel is a stand-in for the engine. It writes the records that the engine writes, and complains about anything a kernel
// must never be asked.
type kernel struct {
	model  func(turn int, r inference.Request) (loop.Completion, error)
	judge  func(p loop.Proposal) loop.Verdict // nil: allow what is there
	tools  map[string]func(args json.RawMessage) loop.Result
	query  func(q record.Query) (record.Page, error)
	fail   func(op string) error // nil: nothing fails
	broken []string              // what the loop did wrong

	requests []inference.Request
	log      []record.Record
	allowed  map[string]loop.Proposal // by record id, until run
	ran      []string                 // tools run by Call, in order
}

func (k *kernel) complain(format string, args ...any) {
	k.broken = append(k.broken, fmt.Sprintf(format, args...))
}

func (k *kernel) failing(op string) error {
	if k.fail == nil {
		return nil
	}
	return k.fail(op)
}

// write appends a record with the kind set, as the engine does.
func (k *kernel) write(kind string, act record.Act, body any) string {
	encoded, err := json.Marshal(body)
	if err != nil {
		k.complain("body of %s: %v", kind, err)
		encoded = []byte("{}")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		k.complain("body of %s is not an object: %v", kind, err)
		fields = map[string]json.RawMessage{}
	}
	fields["kind"], _ = json.Marshal(kind)
	encoded, _ = json.Marshal(fields)
	if len(encoded) > record.MaxBody {
		k.complain("body of %s has %d bytes", kind, len(encoded))
	}
	n := int64(len(k.log) + 1)
	id := fmt.Sprintf("%064x", n)
	k.log = append(k.log, record.Record{ID: id, Thread: thread, Actor: actor, Act: act, Body: encoded, Clock: n, Sequence: n})
	return id
}

func (k *kernel) Propose(_ context.Context, p loop.Proposal) (loop.Verdict, error) {
	if err := k.failing("propose"); err != nil {
		return loop.Verdict{}, err
	}
	var args map[string]any
	if err := json.Unmarshal(p.Args, &args); err != nil {
		k.complain("proposed arguments %q: %v", p.Args, err)
	}
	id := k.write(loop.KindToolCall, record.ActCall, map[string]any{"tool": p.Tool, "args": p.Args, "args_hash": loop.ArgsHash(p.Args), "turn_index": p.TurnIndex, "call_id": p.CallID})
	if p.Truncated {
		k.result(id, p.Tool, loop.StatusTruncated, "")
		return loop.Verdict{Decision: loop.Deny, Call: id}, nil
	}
	verdict := loop.Verdict{Decision: loop.Allow, Layer: loop.LayerAllow}
	if k.judge != nil {
		verdict = k.judge(p)
	}
	verdict.Call = id
	verdict.Verdict = k.write("core.work.tool_verdict.v1", record.ActKnow, map[string]any{"fulfills": id, "decision": verdict.Decision, "layer": verdict.Layer})
	switch verdict.Decision {
	case loop.Allow:
		if k.allowed == nil {
			k.allowed = map[string]loop.Proposal{}
		}
		k.allowed[id] = p
	case loop.Deny:
		k.result(id, p.Tool, loop.StatusDenied, verdict.Reason)
	case loop.Stop:
		k.result(id, p.Tool, loop.StatusStopped, "")
	}
	return verdict, nil
}

func (k *kernel) result(call, tool, status, content string) {
	k.write(loop.KindToolResult, record.ActKnow, loop.ToolResultBody{Fulfills: call, Tool: tool, Status: status, Content: content})
}

func (k *kernel) Call(_ context.Context, id string) (loop.Result, error) {
	if err := k.failing("call"); err != nil {
		return loop.Result{}, err
	}
	p, ok := k.allowed[id]
	if !ok {
		k.complain("call %s was not allowed", id)
		return loop.Result{}, errors.New("not allowed")
	}
	delete(k.allowed, id)
	k.ran = append(k.ran, p.Tool)
	result := loop.Result{Status: loop.StatusOK, Content: "ok"}
	if run := k.tools[p.Tool]; run != nil {
		result = run(p.Args)
	}
	k.result(id, p.Tool, result.Status, result.Content)
	return result, nil
}

func (k *kernel) Append(_ context.Context, e loop.Entry) (string, error) {
	if err := k.failing("append " + e.Kind); err != nil {
		return "", err
	}
	if e.Act != loop.ActOf(e.Kind) {
		k.complain("%s is written as %s", e.Kind, e.Act)
	}
	if body, ok := e.Body.(loop.ToolResultBody); ok {
		if _, ok := k.allowed[body.Fulfills]; !ok {
			k.complain("result of call %s, which was not allowed or has one", body.Fulfills)
		}
		delete(k.allowed, body.Fulfills)
	}
	return k.write(e.Kind, e.Act, e.Body), nil
}

func (k *kernel) Query(_ context.Context, q record.Query) (record.Page, error) {
	if err := k.failing("query"); err != nil {
		return record.Page{}, err
	}
	if q.Thread == "" {
		k.complain("query without a thread")
	}
	if k.query == nil {
		return record.Page{}, nil
	}
	return k.query(q)
}

func (k *kernel) Complete(ctx context.Context, r inference.Request) (loop.Completion, error) {
	if err := k.failing("complete"); err != nil {
		return loop.Completion{}, err
	}
	if err := ctx.Err(); err != nil {
		return loop.Completion{}, err
	}
	if err := wellFormed(r); err != nil {
		k.complain("request %d: %v", len(k.requests), err)
	}
	k.requests = append(k.requests, r)
	return k.model(len(k.requests)-1, r)
}

// wellFormed checks what model services ask of a request.
func wellFormed(r inference.Request) error {
	ids := map[string]bool{}
	var open []string
	for i, m := range r.Messages {
		if want := []string{inference.User, inference.Assistant}[i%2]; m.Role != want {
			return fmt.Errorf("message %d is of the %s", i, m.Role)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var answered []string
		for j, b := range m.Content {
			if !utf8.ValidString(b.Text) {
				return fmt.Errorf("message %d: invalid UTF-8", i)
			}
			switch b.Type {
			case inference.Text:
				if strings.TrimSpace(b.Text) == "" {
					return fmt.Errorf("message %d has an empty text", i)
				}
			case inference.ToolUse:
				var args map[string]any
				if m.Role != inference.Assistant || ids[b.ID] || b.ID == "" || b.Name == "" || json.Unmarshal(b.Input, &args) != nil {
					return fmt.Errorf("message %d: call %+v", i, b)
				}
				ids[b.ID] = true
			case inference.ToolResult:
				if m.Role != inference.User || len(answered) != j || b.Text == "" {
					return fmt.Errorf("message %d: result %d: %+v", i, j, b)
				}
				answered = append(answered, b.ToolUseID)
			case inference.Thinking:
				var whole map[string]any
				if m.Role != inference.Assistant || j == len(m.Content)-1 || json.Unmarshal(b.Input, &whole) != nil {
					return fmt.Errorf("message %d: thinking %d: %+v", i, j, b)
				}
			default:
				return fmt.Errorf("message %d: type %q", i, b.Type)
			}
		}
		if !slices.Equal(open, answered) {
			return fmt.Errorf("message %d answers %q and not %q", i, answered, open)
		}
		open = nil
		for _, b := range m.Content {
			if b.Type == inference.ToolUse {
				open = append(open, b.ID)
			}
		}
	}
	if len(r.Messages)%2 != 1 {
		return errors.New("the last message is the model's")
	}
	if r.MaxTokens < 1 {
		return errors.New("no max_tokens")
	}
	return nil
}

const (
	thread = "th_1111111111111111111111111111111111111111111111111111111111111111"
	other  = "th_2222222222222222222222222222222222222222222222222222222222222222"
	actor  = "did:sync:user:ada"
)

// spec is a run with the local tools and a mediated one called "probe".
func spec() loop.Spec {
	schema := json.RawMessage(`{"type":"object"}`)
	return loop.Spec{Thread: thread, Actor: actor, Goal: "find out", MaxTurns: 20,
		Tools: append(loop.LocalTools(), loop.Tool{Name: "probe", Domain: loop.Mediated, Schema: schema}, loop.Tool{Name: "ask", Domain: loop.Mediated, Schema: schema})}
}

// says is a reply in words, calls one with calls.
func says(text string) loop.Completion {
	return loop.Completion{Response: inference.Response{Model: "m", StopReason: inference.EndTurn, InputTokens: 10, OutputTokens: 5, CostUSD: 0.01,
		Content: []inference.Block{{Type: inference.Text, Text: text}}}}
}

type toolCall struct{ name, args string }

func callsTools(calls ...toolCall) loop.Completion {
	c := says("looking")
	c.StopReason = inference.StopToolUse
	for i, one := range calls {
		c.Content = append(c.Content, inference.Block{Type: inference.ToolUse, ID: fmt.Sprintf("c%d", i), Name: one.name, Input: json.RawMessage(one.args)})
	}
	return c
}

// script plays replies; the last one is repeated.
func script(replies ...loop.Completion) func(int, inference.Request) (loop.Completion, error) {
	return func(turn int, _ inference.Request) (loop.Completion, error) {
		return replies[min(turn, len(replies)-1)], nil
	}
}

// bodies returns the bodies of the records of a kind.
func bodies[T any](t *testing.T, k *kernel, kind string) []T {
	t.Helper()
	var all []T
	for _, rec := range k.log {
		if record.Kind(rec) == kind {
			var body T
			if err := json.Unmarshal(rec.Body, &body); err != nil {
				t.Fatal(err)
			}
			all = append(all, body)
		}
	}
	return all
}

// told returns the texts of the last message of request i.
func (k *kernel) told(i int) string {
	var b strings.Builder
	messages := k.requests[i].Messages
	for _, block := range messages[len(messages)-1].Content {
		b.WriteString(block.Text + "\n")
	}
	return b.String()
}

// run runs s and fails the test for what the loop did wrong.
func run(t *testing.T, s loop.Spec, k *kernel) loop.Claim {
	t.Helper()
	claim := loop.Run(t.Context(), s, k)
	for _, complaint := range k.broken {
		t.Error(complaint)
	}
	return claim
}
