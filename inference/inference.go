// Package inference asks language models for the next message of a conversation, and keeps the account of what that costs.
// A Provider speaks to one model service; a Broker puts prices and ceilings around it, so that a run that was given
// a budget cannot spend more than it, whatever it asks for and however many calls it makes at once.
//
// The messages have the form of the Messages API (https://docs.anthropic.com/en/api/messages); providers of other services translate (package inference/provider).
package inference

import (
	"context"
	"encoding/json"
)

// The roles of a message.
const (
	User      = "user"
	Assistant = "assistant"
)

// The types of a block.
const (
	Text       = "text"
	ToolUse    = "tool_use"
	ToolResult = "tool_result"
	Thinking   = "thinking" // what a model keeps for itself: handed back unread, in its place, to the model that made it
)

// The reasons to stop.
const (
	EndTurn      = "end_turn"
	StopToolUse  = "tool_use"
	MaxTokens    = "max_tokens" // the reply was cut: its last tool call may be half a call
	StopSequence = "stop_sequence"
	Refusal      = "refusal"
)

// A Message is one side's turn.
type Message struct {
	Role    string  `json:"role"`
	Content []Block `json:"content"`
}

// A Block is a part of a message. Text is the text of a text block and the content of a tool_result. A thinking block has in
// Input all of what the service sent.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`          // of a tool_use
	Name      string          `json:"name,omitempty"`        // of the tool that is to be used
	Input     json.RawMessage `json:"input,omitempty"`       // a JSON object; where the model wrote none, a JSON string of what it wrote
	ToolUseID string          `json:"tool_use_id,omitempty"` // the tool_use that a tool_result answers
	IsError   bool            `json:"is_error,omitempty"`
}

// A Tool is what a model is told of a tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// A Request is one call of a model.
type Request struct {
	Model     string    `json:"model,omitempty"` // "" is the broker's
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxTokens int       `json:"max_tokens"` // at most this many tokens come back; at least 1
}

// A Response is a model's message and what it took.
type Response struct {
	Model        string  `json:"model"`
	Content      []Block `json:"content"`
	StopReason   string  `json:"stop_reason"`
	InputTokens  int64   `json:"input_tokens"` // cached ones included
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"` // the broker's figure; a provider leaves it 0
}

// A Provider asks one model service. It is safe for concurrent use.
type Provider interface {
	// Complete returns the whole message. onText, which may be nil, is called with pieces of its text as they come, from one
	// goroutine and not after Complete has returned. The error is an *Error; tokens of the response that are not zero beside
	// an error are what the service said it had counted until then.
	Complete(ctx context.Context, r Request, onText func(string)) (Response, error)
}

// Object returns raw if it is a JSON object, and an empty object if not: the APIs take nothing else.
func Object(raw json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return raw
}
