package inference

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// EchoModel is the name and price entry of the model of Echo.
const EchoModel = "echo"

// Echo answers without a model, always the same to the same conversation. A goal that says "text is exactly: X" is met by one
// call of record_note with that text, if there is such a tool; any other goal is repeated. It lets a whole run be tried where there is no
// key and no network.
type Echo struct{}

// exactly finds X: it ends before " . Use", before a full stop at the end, or at the end of its line.
var exactly = regexp.MustCompile(`(?i)text is exactly:[ \t]*([^\n]+)`)

// note returns the X of a goal.
func note(goal string) (text string, found bool) {
	match := exactly.FindStringSubmatch(goal)
	if match == nil {
		return "", false
	}
	text, _, _ = strings.Cut(match[1], " . Use")
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "."))
	return text, text != ""
}

// Complete implements Provider.
func (Echo) Complete(ctx context.Context, r Request, onText func(string)) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, EndedBy(ctx, false)
	}
	goal := goalOf(r)
	text, found := note(goal)
	called := slices.ContainsFunc(r.Messages, func(m Message) bool {
		return m.Role == Assistant && slices.ContainsFunc(m.Content, func(b Block) bool { return b.Type == ToolUse })
	})
	offered := slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == "record_note" })
	switch {
	case found && offered && !called:
		input, _ := json.Marshal(map[string]string{"text": text}) // strings always have a JSON form
		return local(r, EchoModel, StopToolUse, onText,
			Block{Type: Text, Text: "I record the note."}, Block{Type: ToolUse, ID: "toolu_echo_0", Name: "record_note", Input: input}), nil
	case found && called:
		return local(r, EchoModel, EndTurn, onText, Block{Type: Text, Text: "The note is recorded."}), nil
	default:
		return local(r, EchoModel, EndTurn, onText, Block{Type: Text, Text: cmp.Or(goal, "There is no goal.")}), nil
	}
}

// goalOf is the text of the first message of the user.
func goalOf(r Request) string {
	for _, message := range r.Messages {
		if message.Role == Assistant {
			continue
		}
		var texts []string
		for _, block := range message.Content {
			if block.Type == Text {
				texts = append(texts, block.Text)
			}
		}
		return strings.Join(texts, "\n")
	}
	return ""
}

// bytesAToken is how a provider without a tokenizer counts.
const bytesAToken = 4

// local makes the response of a provider that asks nobody. Its text comes in pieces, like that of a service.
func local(r Request, model, stop string, onText func(string), content ...Block) Response {
	size := 0
	for _, block := range content {
		size += len(block.Text) + len(block.Name) + len(block.Input)
		if onText != nil {
			for piece := range strings.SplitAfterSeq(block.Text, " ") {
				if piece != "" {
					onText(piece)
				}
			}
		}
	}
	return Response{
		Model: cmp.Or(r.Model, model), Content: content, StopReason: stop,
		InputTokens: 2 * Estimate(r) / bytesAToken, OutputTokens: int64(min(size/bytesAToken+1, r.MaxTokens)),
	}
}
