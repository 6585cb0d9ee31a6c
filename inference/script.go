package inference

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"playground/fault"
)

// ScriptedModel is the name and price entry of the model of Scripted.
const ScriptedModel = "scripted"

// The bounds of a script.
const (
	maxScript    = 4 << 20 // bytes
	maxSteps     = 10_000
	maxStepCalls = 32
	maxMatch     = 1 << 10 // bytes of a pattern
	maxDelay     = 10 * time.Minute
)

// Scripted plays the answers of a file, for tests and demonstrations. It keeps no state: which step is next follows from
// how many answers the conversation already has, so that any number of runs can play at once and a run that goes on after a pause
// goes on in the script too.
type Scripted struct{ steps []step }

// A step is one answer as the file has it.
type step struct {
	Match        string     `json:"match"` // regular expression; the step is only for goals that it finds itself in
	Text         string     `json:"text"`
	ToolCalls    []stepCall `json:"tool_calls"`
	StopReason   string     `json:"stop_reason"`   // "" is tool_use with calls, else end_turn
	InputTokens  *int64     `json:"input_tokens"`  // counted from the text where it is missing
	OutputTokens *int64     `json:"output_tokens"` // counted from the text where it is missing
	DelayMS      int64      `json:"delay_ms"`      // before the answer
	Fail         Failure    `json:"fail"`          // the step fails like this instead

	goals *regexp.Regexp // of Match; nil is every goal
}

// A stepCall is one call of a tool. Args is an object; a string stands for what the model wrote instead of one.
type stepCall struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

var (
	toolNames   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	stopReasons = []string{"", EndTurn, StopToolUse, MaxTokens, StopSequence, Refusal}
	failures    = []Failure{"", Authentication, RateLimited, Overloaded, InvalidRequest, Network, Malformed}
)

// ParseScript reads a script: a JSON array of steps. The error is a fault.Invalid that names the step.
func ParseScript(text []byte) (*Scripted, error) {
	if len(text) > maxScript {
		return nil, fault.New(fault.Invalid, "the script has %d bytes, at most %d are allowed", len(text), maxScript)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var steps []step
	if err := decoder.Decode(&steps); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the script is not a JSON array of steps (near byte %d)", decoder.InputOffset())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "the script is followed by something else (at byte %d)", decoder.InputOffset())
	}
	if len(steps) == 0 || len(steps) > maxSteps {
		return nil, fault.New(fault.Invalid, "the script has %d steps, not 1 to %d", len(steps), maxSteps)
	}
	for i := range steps {
		if err := steps[i].check(); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "step %d of the script", i+1)
		}
	}
	return &Scripted{steps: steps}, nil
}

// check refuses what cannot be played, and compiles Match.
func (s *step) check() error {
	for _, tokens := range []*int64{s.InputTokens, s.OutputTokens} {
		if tokens != nil && *tokens != counted(*tokens) {
			return fmt.Errorf("a number of tokens is %d, not 0 to %d", *tokens, maxTokens)
		}
	}
	switch {
	case len(s.Match) > maxMatch:
		return fmt.Errorf("match has %d bytes, at most %d are allowed", len(s.Match), maxMatch)
	case !slices.Contains(stopReasons, s.StopReason):
		return fmt.Errorf("stop_reason is %q, not one of %s", s.StopReason, strings.Join(stopReasons[1:], ", "))
	case !slices.Contains(failures, s.Fail):
		return fmt.Errorf("fail is %q, not one of %v", s.Fail, failures[1:])
	case s.DelayMS < 0 || s.DelayMS > maxDelay.Milliseconds():
		return fmt.Errorf("delay_ms is %d, not 0 to %d", s.DelayMS, maxDelay.Milliseconds())
	case len(s.ToolCalls) > maxStepCalls:
		return fmt.Errorf("there are %d tool calls, at most %d are allowed", len(s.ToolCalls), maxStepCalls)
	case s.StopReason == StopToolUse && len(s.ToolCalls) == 0:
		return errors.New("stop_reason is tool_use, but there are no tool_calls")
	}
	for i := range s.ToolCalls {
		if err := s.ToolCalls[i].check(); err != nil {
			return err
		}
	}
	if s.Match == "" {
		return nil
	}
	goals, err := regexp.Compile(s.Match)
	s.goals = goals
	return err
}

func (c *stepCall) check() error {
	if !toolNames.MatchString(c.Name) {
		return fmt.Errorf("the name of a tool is %q, not 1 to 64 letters, digits, underscores or hyphens", c.Name)
	}
	var text string
	switch {
	case c.Args == nil:
		c.Args = json.RawMessage("{}")
	case string(Object(c.Args)) != string(c.Args) && (string(c.Args) == "null" || json.Unmarshal(c.Args, &text) != nil):
		return fmt.Errorf("the args of %s are neither an object nor a string", c.Name)
	}
	return nil
}

// Complete implements Provider.
func (s *Scripted) Complete(ctx context.Context, r Request, onText func(string)) (Response, error) {
	next, number := s.next(r)
	if next == nil {
		return local(r, ScriptedModel, EndTurn, onText, Block{Type: Text, Text: "The script is at its end."}), nil
	}
	if next.DelayMS > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(next.DelayMS) * time.Millisecond):
		}
	}
	if ctx.Err() != nil {
		return Response{}, EndedBy(ctx, false)
	}
	if next.Fail != "" {
		return Response{}, NewError(next.Fail, "the script fails here: %s", next.Fail)
	}
	var content []Block
	if next.Text != "" {
		content = append(content, Block{Type: Text, Text: next.Text})
	}
	stop := EndTurn
	for i, call := range next.ToolCalls {
		stop = StopToolUse
		id := fmt.Sprintf("toolu_script_%d_%d", number, i)
		content = append(content, Block{Type: ToolUse, ID: id, Name: call.Name, Input: slices.Clone(call.Args)})
	}
	response := local(r, ScriptedModel, cmp.Or(next.StopReason, stop), onText, content...)
	if next.InputTokens != nil {
		response.InputTokens = *next.InputTokens
	}
	if next.OutputTokens != nil {
		response.OutputTokens = *next.OutputTokens
	}
	return response, nil
}

// next is the step that answers a conversation, and its number among those for the goal; nil after the last one.
func (s *Scripted) next(r Request) (*step, int) {
	answers := 0
	for _, message := range r.Messages {
		if message.Role == Assistant {
			answers++
		}
	}
	goal, number := goalOf(r), 0
	for i := range s.steps {
		if s.steps[i].goals != nil && !s.steps[i].goals.MatchString(goal) {
			continue
		}
		if number == answers {
			return &s.steps[i], number
		}
		number++
	}
	return nil, number
}
