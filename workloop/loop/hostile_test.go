package loop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop/loop"
)

// block draws a block that a model, or who pretends to be one, might send.
func block(t *rapid.T) inference.Block {
	text := rapid.SampledFrom([]string{"", " \n", "words", "\xff\xfe", strings.Repeat("x", 70<<10), "\x00\x1b]0;x\x07"})
	name := rapid.SampledFrom([]string{"probe", "ask", "record_note", "query_thread", "read_record", "bash", "", "\x00", "record_note ", strings.Repeat("n", 300), "ü"})
	args := rapid.SampledFrom([]string{"", "null", "{}", `{"text":"n"}`, `{"text":`, `[]`, `"x"`, "1e999", `{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"\xff\":1}",
		`{"thread":"` + other + `"}`, `{"thread":"` + other + `","clock":0}`, `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", `{"a":"` + strings.Repeat("x", 300<<10) + `"}`})
	return inference.Block{
		Type:      rapid.SampledFrom([]string{inference.Text, inference.ToolUse, inference.ToolUse, inference.ToolResult, "", "thinking"}).Draw(t, "type"),
		Text:      text.Draw(t, "text"),
		ID:        rapid.SampledFrom([]string{"", "c0", "c0", "c1", "call_0_0_0", "\x00", strings.Repeat("i", 100)}).Draw(t, "id"),
		Name:      name.Draw(t, "name"),
		Input:     json.RawMessage(args.Draw(t, "args")),
		ToolUseID: "c0", IsError: rapid.Bool().Draw(t, "is_error"),
	}
}

// completion draws a reply.
func completion(t *rapid.T) loop.Completion {
	return loop.Completion{Messages: rapid.SliceOfN(rapid.SampledFrom([]string{"", "go on", "\xff"}), 0, 2).Draw(t, "messages"),
		Response: inference.Response{Model: rapid.SampledFrom([]string{"m", "\x00", strings.Repeat("m", 999)}).Draw(t, "model"),
			Content:     rapid.SliceOfN(rapid.Custom(block), 0, 6).Draw(t, "content"),
			StopReason:  rapid.SampledFrom([]string{"end_turn", "tool_use", "tool_use", "max_tokens", "stop_sequence", "", "pause_turn"}).Draw(t, "stop"),
			InputTokens: rapid.Int64().Draw(t, "tokens"), CostUSD: rapid.SampledFrom([]float64{0, 1, -1}).Draw(t, "cost")}}
}

// errs draws an error, mostly none.
func errs(t *rapid.T, op string) error {
	return rapid.SampledFrom([]error{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, loop.ErrStopped, loop.ErrBudget("usd"), errors.New("gone"),
		&loop.Refusal{Code: "X", Status: 422, Message: "no\x00"}, &loop.Refusal{Code: "Y", Status: 500, Message: "no"}}).Draw(t, op)
}

// Whatever a model says, tools return and the kernel answers: the run ends, by a name that the kernel knows, and on the way
// every call that ran was proposed and allowed, none ran twice, none of a cut reply ran, and every request was well-formed.
// The stand-in kernel makes these checks.
func TestHostileModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &kernel{tools: map[string]func(json.RawMessage) loop.Result{}}
		k.model = func(int, inference.Request) (loop.Completion, error) { return completion(t), nil }
		k.fail = func(op string) error { return errs(t, op) }
		k.judge = func(p loop.Proposal) loop.Verdict {
			decisions := []string{loop.Allow, loop.Allow, loop.Allow, loop.Deny, loop.Stop}
			return loop.Verdict{Decision: rapid.SampledFrom(decisions).Draw(t, "decision"), Layer: "\x00", Reason: "\xff", Messages: []string{"m"}}
		}
		for _, tool := range []string{"probe", "ask"} {
			k.tools[tool] = func(json.RawMessage) loop.Result {
				return loop.Result{Status: rapid.SampledFrom([]string{"ok", "error", "", "x"}).Draw(t, "status"), Code: rapid.SampledFrom([]string{"", "INTERNAL", "x"}).Draw(t, "code"),
					Content: rapid.SampledFrom([]string{"", "\xff", strings.Repeat("long", 20<<10)}).Draw(t, "content"),
					Data:    json.RawMessage(rapid.SampledFrom([]string{"", "null", "{", `{"thread":"x","total":0}`, `{"thread":1}`}).Draw(t, "data")),
					Park:    rapid.IntRange(0, 9).Draw(t, "park") == 0}
			}
		}
		k.query = func(q record.Query) (record.Page, error) {
			return rapid.SampledFrom([]record.Page{{}, {MatchedTotal: -1}, {Data: []record.Record{{Body: json.RawMessage("{")}, {Body: json.RawMessage(`[1]`)}, {}}}}).Draw(t, "page"), nil
		}
		s := spec()
		s.MaxTurns = rapid.IntRange(1, 12).Draw(t, "turns")
		s.FirstTurn = rapid.SampledFrom([]int{0, -1, 3, 99}).Draw(t, "first")
		s.Hooks = []policy.Hook{{Name: "h", When: `status != "ok"`, Text: "t", Enabled: true}, {Name: "bad", When: "(", Enabled: true}}
		if rapid.Bool().Draw(t, "resume") {
			s.History = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) inference.Message {
				return inference.Message{Role: rapid.SampledFrom([]string{"user", "assistant", ""}).Draw(t, "role"), Content: rapid.SliceOfN(rapid.Custom(block), 0, 4).Draw(t, "content")}
			}), 0, 5).Draw(t, "history")
		}
		claim := loop.Run(t.Context(), s, k)
		for _, complaint := range k.broken {
			t.Error(complaint)
		}
		checkClaim(t, s, claim)
		for _, rec := range k.log {
			if record.Kind(rec) == loop.KindObservation {
				var body loop.ObservationBody
				if rec.Decode(&body) != nil || body.Rule == "" || body.Text == "" || body.LoopThread != thread {
					t.Errorf("observation %s", rec.Body)
				}
			}
		}
		if messages, turns := loop.History(k.log); turns < 0 || len(messages) > len(k.log) {
			t.Errorf("history of %d messages, %d turns", len(messages), turns)
		}
	})
}

// checkClaim checks what every claim must hold.
func checkClaim(t *rapid.T, s loop.Spec, claim loop.Claim) {
	switch claim.Outcome {
	case loop.Completed, loop.MaxTurns, loop.Cancelled, loop.Blocked, loop.AwaitingActor:
	case loop.Failed:
		if claim.Error == "" {
			t.Errorf("failed without an error: %+v", claim)
		}
	case loop.BudgetExhausted:
		if claim.BudgetKind == "" {
			t.Errorf("no kind: %+v", claim)
		}
	case loop.GuardrailHalt:
		if claim.Tool == "" || claim.ArgsHash == "" || claim.Count != loop.HaltThreshold {
			t.Errorf("halted by nothing: %+v", claim)
		}
	default:
		t.Errorf("outcome %q", claim.Outcome)
	}
	if claim.Turns < 0 || max(0, s.FirstTurn)+claim.Turns > max(s.MaxTurns, s.FirstTurn) {
		t.Errorf("%d turns of %d from %d", claim.Turns, s.MaxTurns, s.FirstTurn)
	}
	if encoded, err := json.Marshal(claim); err != nil || len(encoded) > 256<<10 || !utf8.Valid(encoded) {
		t.Errorf("claim of %d bytes: %v", len(encoded), err)
	}
}

// Arguments are whatever bytes a model sends.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", `{"text":"x"}`, `{"thread":"t","clock":1}`, `{"thread":"t","filter":{"$or":[]},"fields":["a"]}`, "[", "{\"\xff\":0}", `{"a":1,"a":1}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		var calls []toolCall
		for _, tool := range loop.LocalTools() {
			calls = append(calls, toolCall{tool.Name, args})
		}
		k := &kernel{model: script(callsTools(calls...), says("done"))}
		if claim := run(t, spec(), k); claim.Outcome != loop.Completed {
			t.Errorf("claim %+v", claim)
		}
		if n := len(bodies[loop.ToolResultBody](t, k, loop.KindToolResult)); n != len(calls) {
			t.Errorf("%d results", n)
		}
	})
}

func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		got := loop.Bound(text, limit)
		if !utf8.ValidString(got) || len(got) > limit+len(fmt.Sprintf("\n[... %d bytes left out ...]\n", len(text)*3)) {
			t.Errorf("Bound(%q, %d) = %q", text, limit, got)
		}
	})
}

// LocalTools are offered to model services, which want schemas of objects.
func TestLocalTools(t *testing.T) {
	for _, tool := range loop.LocalTools() {
		var schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || len(schema.Properties) == 0 || tool.Domain != loop.Sandboxed || tool.Description == "" {
			t.Errorf("%s: %+v %v", tool.Name, schema, err)
		}
	}
}
