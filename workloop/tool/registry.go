package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"playground/fault"
	"playground/record"
	"playground/workloop/loop"
)

// Codes of failed results.
const (
	CodeInvalid     = "input_invalid"
	CodeUnavailable = "tool_unavailable"
	CodeInternal    = "internal"
)

// A Question is what a run asks a person.
type Question struct {
	Reason   string   `json:"reason"`
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Context  string   `json:"context"`
	Claims   []string `json:"claims"`
}

// A Kernel is what the record tools need of the engine, already bound to one run.
type Kernel interface {
	// Visible returns the threads that the run may look into, newest first; all is true where that is every thread.
	Visible() (threads []string, all bool)
	// Query carries out a query over threads that are visible.
	Query(ctx context.Context, q record.Query) (record.Page, error)
	// Explain returns the row of a run that the principal may see.
	Explain(ctx context.Context, thread string) (any, error)
	// Actors returns the actors that the principal may know of.
	Actors(ctx context.Context) ([]Actor, error)
	// Ask records the question and parks the run.
	Ask(ctx context.Context, call string, q Question) error
}

// An Actor is somebody that runs are for.
type Actor struct {
	DID  string `json:"actor"`
	Tier string `json:"tier"`
	Runs int    `json:"runs"`
}

// An Env is what the tools of one run stand on.
type Env struct {
	Log       *record.Log
	Kernel    Kernel
	Actor     string // DID that the run acts as
	Memory    string // thread of what it remembers
	DataDir   string // folder of the data tools
	Workspace string // folder of the host tools
	Sandbox   Sandbox
	Tenant    string // the one tenant that the sandbox tools serve
}

// run carries one tool out. Its error is a fault of the request or of the host; the model is told of both.
type run func(ctx context.Context, call string, args json.RawMessage) (loop.Result, error)

// A Registry has the tools of one run.
type Registry struct {
	tools  map[string]run
	tenant *tenant
}

// New returns the registry of a run that was granted definitions.
func New(env Env, granted []Definition) *Registry {
	r := &Registry{tools: map[string]run{}, tenant: &tenant{env: env}}
	sets := map[Set]map[string]run{
		Records: (&records{env}).tools(),
		Data:    (&folder{env.DataDir}).tools(),
		Host:    (&host{env.Workspace}).tools(),
		Tenant:  r.tenant.tools(),
	}
	for _, d := range granted {
		if tool, ok := sets[d.Set][d.Name]; ok {
			r.tools[d.Name] = tool
		}
	}
	return r
}

// Call carries out a tool for the tool_call record named call. Every end is a result; nothing of the host is in its text but what
// the tool itself is about.
func (r *Registry) Call(ctx context.Context, call, name string, args json.RawMessage) loop.Result {
	tool, ok := r.tools[name]
	if !ok {
		return failed(CodeUnavailable, "There is no tool "+name+" here.")
	}
	result, err := tool(ctx, call, args)
	if err == nil {
		return result
	}
	if bad, ok := errors.AsType[*argumentError](err); ok {
		return failed(CodeInvalid, "Not run: "+bad.text+".")
	}
	if refusal, ok := errors.AsType[*loop.Refusal](err); ok {
		return failed(refusal.Code, refusal.Message)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		text := f.Message
		if f.Hint != "" {
			text += "\nhint: " + f.Hint
		}
		return failed(string(f.Kind), text)
	}
	if ctx.Err() != nil {
		return failed("cancelled", "The call was cancelled.")
	}
	return failed(CodeInternal, "The tool failed.")
}

// Close gives back what the tools of the run hold.
func (r *Registry) Close(ctx context.Context) error { return r.tenant.close(ctx) }

func failed(code, text string) loop.Result {
	return loop.Result{Status: loop.StatusError, Code: code, Content: text}
}

// answer is a result with data beside its text.
func answer(text string, data any) (loop.Result, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return loop.Result{}, err
	}
	return loop.Result{Status: loop.StatusOK, Content: text, Data: raw}, nil
}

// An argumentError says what is wrong with a call's arguments.
type argumentError struct{ text string }

// Error returns the text.
func (e *argumentError) Error() string { return e.text }

// decode reads the arguments of a call into v, strictly.
func decode(args json.RawMessage, v any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return &argumentError{strings.TrimPrefix(err.Error(), "json: ")}
	}
	if _, err := decoder.Token(); err != io.EOF {
		return &argumentError{"the arguments are more than one value"}
	}
	return nil
}

// need returns an error if a text that must be there is not.
func need(name, value string) error {
	if strings.TrimSpace(value) == "" {
		return &argumentError{name + " is missing"}
	}
	return nil
}
