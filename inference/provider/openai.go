package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"playground/inference"
)

// OpenAI asks the Chat Completions API (https://platform.openai.com/docs/api-reference/chat), which many other services and
// local servers speak too.
type OpenAI struct {
	service *service
	chat    openai.ChatCompletionService
}

// NewOpenAI returns the provider of the Chat Completions API. Nothing is read from the environment. With a BaseURL the key
// may be missing: local servers need none.
func NewOpenAI(o Options) (*OpenAI, error) {
	s, err := newService("openai", "https://api.openai.com/v1/", o)
	if err != nil {
		return nil, err
	}
	return &OpenAI{service: s, chat: openai.NewChatCompletionService(option.WithBaseURL(s.base), option.WithMaxRetries(0))}, nil
}

// Complete implements Provider.
func (o *OpenAI) Complete(ctx context.Context, r inference.Request, onText func(string)) (inference.Response, error) {
	params := openaiParams(r, o.service.own)
	return o.service.complete(ctx, r, func(ctx context.Context, x *exchange) (inference.Response, error) {
		options := []option.RequestOption{option.WithHTTPClient(x)}
		if key := o.service.key(); key != "" {
			options = append(options, option.WithAPIKey(key))
		}
		stream := o.chat.NewStreaming(ctx, params, options...)
		defer func() { _ = stream.Close() }()
		reply := openaiReply{request: r}
		for stream.Next() {
			if text := reply.add(stream.Current()); text != "" && onText != nil {
				onText(text)
			}
			if reply.over {
				return reply.response(), errMalformed
			}
		}
		err := stream.Err()
		switch reported, isReported := errors.AsType[*ssestream.StreamError](err); {
		case isReported:
			return reply.response(), &streamError{body: reported.Event.Data}
		case err == nil && reply.finish == "":
			return reply.response(), errCut
		}
		return reply.response(), err
	})
}

var errMalformed = errors.New("the stream is not what the API promises")

// openaiParams translates a request. The official service knows the bound of the reply by its new name only, most others by
// the old one.
func openaiParams(r inference.Request, official bool) openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{
		Model:         r.Model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if official {
		params.MaxCompletionTokens = openai.Int(int64(r.MaxTokens))
	} else {
		params.MaxTokens = openai.Int(int64(r.MaxTokens))
	}
	if r.System != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(r.System))
	}
	for _, message := range r.Messages {
		if message.Role == inference.Assistant {
			params.Messages = append(params.Messages, openaiAssistant(message)...)
		} else {
			params.Messages = append(params.Messages, openaiUser(message)...)
		}
	}
	for _, tool := range r.Tools {
		definition := shared.FunctionDefinitionParam{Name: tool.Name}
		if tool.Description != "" {
			definition.Description = openai.String(tool.Description)
		}
		_ = json.Unmarshal(inference.Object(tool.InputSchema), &definition.Parameters) // an object always fits
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(definition))
	}
	return params
}

// openaiAssistant translates what the model said before.
func openaiAssistant(message inference.Message) []openai.ChatCompletionMessageParamUnion {
	var said strings.Builder
	assistant := openai.ChatCompletionAssistantMessageParam{}
	for _, block := range message.Content {
		switch block.Type {
		case inference.Text:
			said.WriteString(block.Text)
		case inference.ToolUse:
			assistant.ToolCalls = append(assistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: block.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: block.Name, Arguments: string(inference.Object(block.Input)),
					},
				},
			})
		}
	}
	if said.Len() == 0 && len(assistant.ToolCalls) == 0 {
		return nil
	}
	if said.Len() > 0 {
		assistant.Content.OfString = openai.String(said.String())
	}
	return []openai.ChatCompletionMessageParamUnion{{OfAssistant: &assistant}}
}

// openaiUser translates what the model was told: each result of a tool is a message of its own, before the text.
func openaiUser(message inference.Message) (all []openai.ChatCompletionMessageParamUnion) {
	var said []string
	for _, block := range message.Content {
		switch {
		case block.Type == inference.ToolResult && block.IsError:
			all = append(all, openai.ToolMessage("error: "+block.Text, block.ToolUseID))
		case block.Type == inference.ToolResult:
			all = append(all, openai.ToolMessage(block.Text, block.ToolUseID))
		case block.Type == inference.Text && block.Text != "":
			said = append(said, block.Text)
		}
	}
	if len(said) > 0 {
		all = append(all, openai.UserMessage(strings.Join(said, "\n\n")))
	}
	return all
}

// maxCalls is how many tool calls one reply may hold. An index beyond it is no list of calls but an attack on memory.
const maxCalls = 128

// An openaiReply grows from the pieces of a stream.
type openaiReply struct {
	request inference.Request
	model   string
	text    strings.Builder
	refused bool
	calls   []*openaiCall
	over    bool // a tool call of an impossible index came
	finish  string
	usage   *openai.CompletionUsage
}

type openaiCall struct {
	id, name  string
	arguments strings.Builder
}

// add takes one piece and returns its text.
func (o *openaiReply) add(chunk openai.ChatCompletionChunk) string {
	o.model = cmp.Or(o.model, chunk.Model)
	if chunk.JSON.Usage.Valid() {
		o.usage = &chunk.Usage
	}
	if len(chunk.Choices) == 0 || chunk.Choices[0].Index != 0 {
		return ""
	}
	choice := chunk.Choices[0]
	o.finish = cmp.Or(choice.FinishReason, o.finish)
	o.refused = o.refused || choice.Delta.Refusal != ""
	for _, piece := range choice.Delta.ToolCalls {
		if piece.Index < 0 || piece.Index > int64(len(o.calls)) || piece.Index >= maxCalls {
			o.over = true
			return ""
		}
		if piece.Index == int64(len(o.calls)) {
			o.calls = append(o.calls, &openaiCall{})
		}
		call := o.calls[piece.Index]
		call.id, call.name = cmp.Or(call.id, piece.ID), cmp.Or(call.name, piece.Function.Name)
		call.arguments.WriteString(piece.Function.Arguments)
	}
	text := choice.Delta.Content + choice.Delta.Refusal
	o.text.WriteString(text)
	return text
}

// response is the message so far. A server that counts no tokens is taken for one that counts as estimate does.
func (o *openaiReply) response() inference.Response {
	response := inference.Response{Model: cmp.Or(o.model, o.request.Model), StopReason: o.stop()}
	if o.text.Len() > 0 {
		response.Content = append(response.Content, inference.Block{Type: inference.Text, Text: o.text.String()})
	}
	size := o.text.Len()
	for i, call := range o.calls {
		id := cmp.Or(call.id, fmt.Sprintf("call_%d_%d", len(o.request.Messages), i))
		response.Content = append(response.Content, inference.Block{Type: inference.ToolUse, ID: id, Name: call.name, Input: written(call.arguments.String())})
		size += call.arguments.Len()
	}
	switch {
	case o.usage != nil:
		response.InputTokens, response.OutputTokens = o.usage.PromptTokens, o.usage.CompletionTokens
	case o.finish != "":
		response.InputTokens, response.OutputTokens = inference.Estimate(o.request), min(inference.TokensOf(size), int64(o.request.MaxTokens))
	}
	return response
}

// stop translates a reason to stop. One that is not known is taken for a cut reply, because then no tool is called.
func (o *openaiReply) stop() string {
	switch {
	case o.refused, o.finish == "content_filter":
		return inference.Refusal
	case o.finish == "tool_calls", o.finish == "function_call", o.finish == "stop" && len(o.calls) > 0:
		return inference.StopToolUse
	case o.finish == "stop":
		return inference.EndTurn
	default:
		return inference.MaxTokens
	}
}
