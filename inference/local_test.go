package inference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func goal(text string) Request {
	r := hello(100)
	r.Messages[0].Content[0].Text = text
	r.Tools = []Tool{{Name: "record_note"}}
	return r
}

func TestEcho(t *testing.T) {
	for text, want := range map[string]string{
		"Record a note whose text is exactly: transport-check . Use the record_note tool with only the text argument. Then stop.": "transport-check",
		"Record a note whose text is exactly: two words.":                                                                         "two words",
		"note, the Text is exactly: a.b.c":                                                                                        "a.b.c",
		"one line.\nThe text is exactly: x . Use it\nand more lines":                                                              "x",
	} {
		r := goal(text)
		var heard strings.Builder
		first, err := Echo{}.Complete(t.Context(), r, func(s string) { heard.WriteString(s) })
		if err != nil || first.StopReason != StopToolUse || len(first.Content) != 2 || heard.String() != first.Content[0].Text {
			t.Fatalf("%q: %+v, %v", text, first, err)
		}
		var args map[string]string
		if err := json.Unmarshal(first.Content[1].Input, &args); err != nil || args["text"] != want || len(args) != 1 {
			t.Errorf("%q: args %v, want %q", text, args, want)
		}
		r.Messages = append(r.Messages, Message{Role: Assistant, Content: first.Content},
			Message{Role: User, Content: []Block{{Type: ToolResult, ToolUseID: first.Content[1].ID, Text: "ok"}}})
		second, err := Echo{}.Complete(t.Context(), r, nil)
		if err != nil || second.StopReason != EndTurn || second.InputTokens <= first.InputTokens {
			t.Errorf("%q: %+v, %v", text, second, err)
		}
	}
	for _, r := range []Request{goal("say hi"), {MaxTokens: 1}, goal("text is exactly: ."), {Messages: goal("text is exactly: x").Messages, MaxTokens: 9}} {
		response, err := Echo{}.Complete(t.Context(), r, nil)
		if err != nil || response.StopReason != EndTurn || len(response.Content) != 1 || response.OutputTokens > int64(r.MaxTokens) {
			t.Errorf("%+v: %+v, %v", r, response, err)
		}
	}
}

const played = `[
 {"text":"look", "tool_calls":[{"name":"bash","args":{"command":"ls"}},{"name":"read_file"}], "input_tokens":50, "output_tokens":0},
 {"match":"(?i)careful", "tool_calls":[{"name":"bash","args":"{\"command\":\"rm"}], "stop_reason":"max_tokens"},
 {"match":"^quick", "text":"done"},
 {"text":"end", "delay_ms":60000},
 {"fail":"overloaded"}
]`

// play runs a conversation to its end and tells its steps.
func play(t *testing.T, s *Scripted, text string) (steps []string) {
	r := goal(text)
	for {
		response, err := s.Complete(t.Context(), r, nil)
		if err != nil {
			return append(steps, err.Error())
		}
		steps = append(steps, fmt.Sprint(response.StopReason, " ", len(response.Content)))
		r.Messages = append(r.Messages, Message{Role: Assistant, Content: response.Content}, Message{Role: User})
		if len(steps) > 10 {
			return steps
		}
	}
}

func TestScripted(t *testing.T) {
	s, err := ParseScript([]byte(played))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		for range 20 { // runs at once do not disturb each other
			for text, want := range map[string][]string{
				"be CAREFUL": {"tool_use 3", "max_tokens 1", "end_turn 1", "the script fails here: overloaded"},
				"quick":      {"tool_use 3", "end_turn 1", "end_turn 1", "the script fails here: overloaded"},
				"other":      {"tool_use 3", "end_turn 1", "the script fails here: overloaded"},
			} {
				group.Go(func() {
					if diff := cmp.Diff(want, play(t, s, text)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", text, diff)
					}
				})
			}
		}
		group.Wait()
	})
	first, err := s.Complete(t.Context(), goal("x"), nil)
	want := []Block{{Type: Text, Text: "look"}, {Type: ToolUse, ID: "toolu_script_0_0", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)},
		{Type: ToolUse, ID: "toolu_script_0_1", Name: "read_file", Input: json.RawMessage(`{}`)}}
	if diff := cmp.Diff(Response{Model: "scripted", Content: want, StopReason: StopToolUse, InputTokens: 50}, first); diff != "" || err != nil {
		t.Errorf("first step (-want +got):\n%s%v", diff, err)
	}
	over, err := ParseScript([]byte(`[{"match":"never"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if end, err := over.Complete(t.Context(), goal("x"), nil); err != nil || end.StopReason != EndTurn {
		t.Errorf("past the end: %+v, %v", end, err)
	}
}

// A delay ends with its context, as a stopped run needs it.
func TestScriptedDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ParseScript([]byte(`[{"delay_ms":600000}]`))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = s.Complete(ctx, goal("x"), nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestParseScript(t *testing.T) {
	for text, needle := range map[string]string{
		``:                   "not a JSON array",
		`{}`:                 "not a JSON array",
		`[]`:                 "0 steps",
		`[{}] x`:             "followed by",
		`[{"txt":"a"}]`:      "unknown field",
		`[{"text":1}]`:       "not a JSON array",
		`[{},{"match":"("}]`: "step 2",
		`[{"match":"` + strings.Repeat("a", 2000) + `"}]`: "match has",
		`[{"stop_reason":"whim"}]`:                        "stop_reason",
		`[{"stop_reason":"tool_use"}]`:                    "no tool_calls",
		`[{"fail":"cancelled"}]`:                          "fail",
		`[{"delay_ms":-1}]`:                               "delay_ms",
		`[{"delay_ms":999999999999}]`:                     "delay_ms",
		`[{"input_tokens":-1}]`:                           "tokens",
		`[{"output_tokens":99999999999}]`:                 "tokens",
		`[{"tool_calls":[{"name":"a b"}]}]`:               "name of a tool",
		`[{"tool_calls":[{"name":"a","args":[1]}]}]`:      "args of a",
		`[{"tool_calls":[{"name":"a","args":7}]}]`:        "args of a",
		`[` + strings.Repeat(`{},`, maxSteps) + `{}]`:     "steps",
		strings.Repeat(" ", maxScript+1):                  "bytes",
	} {
		if _, err := ParseScript([]byte(text)); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), needle) {
			t.Errorf("%.60s: %v, want %q", text, err, needle)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(played), "careful")
	f.Add([]byte(`[{"tool_calls":[{"name":"a","args":null}]}]`), "")
	f.Fuzz(func(t *testing.T, text []byte, about string) {
		s, err := ParseScript(text)
		if err != nil {
			return
		}
		r := goal(about)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Complete(ctx, r, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 3 {
			for i := range s.steps {
				s.steps[i].DelayMS = 0
			}
			response, err := s.Complete(t.Context(), r, nil)
			if err != nil {
				return
			}
			if _, err := json.Marshal(response); err != nil {
				t.Errorf("a response has no JSON: %v", err)
			}
			r.Messages = append(r.Messages, Message{Role: Assistant, Content: response.Content})
		}
	})
}
