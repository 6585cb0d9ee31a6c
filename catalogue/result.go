package catalogue

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
	"playground/job"
)

// A resultView is a command's end. All fields are always there, so that a client need not tell absent from null.
type resultView struct {
	ExitCode    *int        `json:"exit_code"`
	Signal      *string     `json:"signal"`
	Outcome     job.Outcome `json:"outcome"`
	Error       string      `json:"error,omitempty"`
	StdoutBytes int64       `json:"stdout_bytes"`
	StderrBytes int64       `json:"stderr_bytes"`
	DurationMS  int64       `json:"duration_ms"`
	Hints       []string    `json:"hints"`
	Cleanup     job.Cleanup `json:"cleanup"`
}

type execView struct {
	resultView
	Truncated bool `json:"truncated"` // the text holds less than the whole output
}

func viewOf(r job.Result) resultView {
	view := resultView{
		ExitCode: r.ExitCode, Outcome: r.Outcome, Error: r.Error, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		DurationMS: r.DurationMS, Hints: r.Hints, Cleanup: r.Cleanup,
	}
	if r.Signal != "" {
		view.Signal = &r.Signal
	}
	if view.Hints == nil {
		view.Hints = []string{}
	}
	return view
}

// result is a tool's answer: plain text for the model, the same in fields for programs.
func result(words string, structured any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: words}}, StructuredContent: structured}
}

// OutputBytes is how much of a command's output a page holds; 0 for every other answer, whose text is bounded.
func OutputBytes(r *mcp.CallToolResult) (n int) {
	page, _ := r.StructuredContent.(pollView)
	for _, chunk := range page.Chunks {
		for _, s := range []*string{chunk.Text, chunk.Base64} {
			if s != nil {
				n += len(*s)
			}
		}
	}
	return n
}

// hidden reports whether err's own text must stay on this side.
func hidden(err error) bool {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		// A cause is only kept where the message does not tell it.
		return e.Kind == fault.Internal || e.Err != nil
	}
	return !errors.Is(err, context.Canceled)
}

// errorResult makes an error a result that a model can act on.
func errorResult(err error) *mcp.CallToolResult {
	message, hint := "internal error", "try again; if it lasts, ask the operator, whose log says more"
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		message, hint = e.Message, e.Hint
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		message, hint = "the call was cancelled", ""
	}
	if hint != "" {
		message += "\nhint: " + hint
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: message}}, IsError: true}
}
