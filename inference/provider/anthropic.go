package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"playground/inference"
)

// Anthropic asks the Messages API (https://docs.anthropic.com/en/api/messages).
type Anthropic struct {
	service  *service
	messages anthropic.MessageService
}

// NewAnthropic returns the provider of the Messages API. Nothing is read from the environment.
func NewAnthropic(o Options) (*Anthropic, error) {
	s, err := newService("anthropic", "https://api.anthropic.com/", o)
	if err != nil {
		return nil, err
	}
	return &Anthropic{service: s, messages: anthropic.NewMessageService(
		option.WithBaseURL(s.base), option.WithMaxRetries(0), option.WithoutOpenTelemetry())}, nil
}

// Complete implements Provider.
func (a *Anthropic) Complete(ctx context.Context, r inference.Request, onText func(string)) (inference.Response, error) {
	params := anthropicParams(r)
	return a.service.complete(ctx, r, func(ctx context.Context, x *exchange) (inference.Response, error) {
		options := []option.RequestOption{option.WithHTTPClient(x)}
		if key := a.service.key(); key != "" {
			options = append(options, option.WithAPIKey(key))
		}
		stream := a.messages.NewStreaming(ctx, params, options...)
		defer func() { _ = stream.Close() }()
		var message anthropic.Message
		inputs := map[int64]string{} // as written: the SDK empties those that are no JSON
		ended := false
		for stream.Next() {
			event := stream.Current()
			if err := message.Accumulate(event); err != nil {
				return inference.Response{}, err
			}
			if event.Type == "content_block_delta" && event.Delta.Type == "text_delta" && onText != nil {
				onText(event.Delta.Text)
			}
			inputs[event.Index] += event.Delta.PartialJSON
			ended = ended || event.Type == "message_stop"
		}
		response := anthropicResponse(message, inputs)
		if response.Model == "" {
			response.Model = r.Model
		}
		err := stream.Err()
		switch reported, isReported := errors.AsType[*anthropic.Error](err); {
		case isReported:
			return response, &streamError{body: []byte(reported.RawJSON())}
		case err == nil && !ended:
			return response, errCut
		}
		return response, err
	})
}

// anthropicParams translates a request. Empty texts and messages are left out: the API refuses them.
func anthropicParams(r inference.Request) anthropic.MessageNewParams {
	params := anthropic.MessageNewParams{Model: anthropic.Model(r.Model), MaxTokens: int64(r.MaxTokens)}
	if r.System != "" {
		params.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	for _, message := range r.Messages {
		var blocks []anthropic.ContentBlockParamUnion
		for _, block := range message.Content {
			switch {
			case block.Type == inference.Text && block.Text != "":
				blocks = append(blocks, anthropic.NewTextBlock(block.Text))
			case block.Type == inference.ToolUse:
				blocks = append(blocks, anthropic.NewToolUseBlock(block.ID, inference.Object(block.Input), block.Name))
			case block.Type == inference.ToolResult:
				blocks = append(blocks, anthropicResult(block))
			case block.Type == inference.Thinking && message.Role == inference.Assistant:
				raw := param.Override[anthropic.ThinkingBlockParam](inference.Object(block.Input))
				blocks = append(blocks, anthropic.ContentBlockParamUnion{OfThinking: &raw})
			}
		}
		switch {
		case len(blocks) == 0:
		case message.Role == inference.Assistant:
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(blocks...))
		default:
			params.Messages = append(params.Messages, anthropic.NewUserMessage(blocks...))
		}
	}
	for _, tool := range r.Tools {
		schema := param.Override[anthropic.ToolInputSchemaParam](inference.Object(tool.InputSchema))
		union := anthropic.ToolUnionParamOfTool(schema, tool.Name)
		if tool.Description != "" {
			union.OfTool.Description = anthropic.String(tool.Description)
		}
		params.Tools = append(params.Tools, union)
	}
	return params
}

// anthropicResult translates the result of a tool. A result may be empty, but not hold an empty text.
func anthropicResult(block inference.Block) anthropic.ContentBlockParamUnion {
	result := anthropic.NewToolResultBlock(block.ToolUseID, block.Text, block.IsError)
	if block.Text == "" {
		result.OfToolResult.Content = nil
	}
	return result
}

// anthropicResponse translates a message. Blocks of tools that the service would run itself were not asked for, and are
// left out.
func anthropicResponse(message anthropic.Message, inputs map[int64]string) inference.Response {
	usage := message.Usage
	response := inference.Response{
		Model:        string(message.Model),
		StopReason:   anthropicStop(message.StopReason),
		InputTokens:  usage.InputTokens + usage.CacheCreationInputTokens + usage.CacheReadInputTokens,
		OutputTokens: usage.OutputTokens,
	}
	for i, block := range message.Content {
		switch {
		case block.Type == "text" && block.Text != "":
			response.Content = append(response.Content, inference.Block{Type: inference.Text, Text: block.Text})
		case block.Type == "tool_use":
			response.Content = append(response.Content, inference.Block{Type: inference.ToolUse, ID: block.ID, Name: block.Name,
				Input: written(cmp.Or(inputs[int64(i)], string(block.Input)))})
		case block.Type == "thinking", block.Type == "redacted_thinking":
			response.Content = append(response.Content, inference.Block{Type: inference.Thinking, Input: json.RawMessage(block.RawJSON())})
		}
	}
	return response
}

// anthropicStop translates a reason to stop. One that is not known is taken for a cut reply, because then no tool is called.
func anthropicStop(reason anthropic.StopReason) string {
	switch reason {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonPauseTurn:
		return inference.EndTurn
	case anthropic.StopReasonToolUse:
		return inference.StopToolUse
	case anthropic.StopReasonStopSequence:
		return inference.StopSequence
	case anthropic.StopReasonRefusal:
		return inference.Refusal
	default:
		return inference.MaxTokens
	}
}

// written is what a model wrote as the arguments of a tool: an object, or a JSON string of what else it was.
func written(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return quoted
}
