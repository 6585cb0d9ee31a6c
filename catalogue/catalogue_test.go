package catalogue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"playground/catalogue"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is one tenant's catalogue with a client connected to it.
type world struct {
	t        *testing.T
	jails    *sandboxtest.Jails
	jobs     *sandboxtest.Jobs
	provider *sandbox.Provider
	client   *mcp.ClientSession
	schemas  map[string]*jsonschema.Resolved
}

func newWorld(t *testing.T, options catalogue.Options, client *mcp.ClientOptions) *world {
	t.Helper()
	w := &world{t: t, jails: &sandboxtest.Jails{Prefix: "pg"}, schemas: map[string]*jsonschema.Resolved{}}
	w.jobs = &sandboxtest.Jobs{Jails: w.jails, Root: t.TempDir()}
	t.Cleanup(w.jobs.Shutdown)
	w.provider = sandbox.New(w.jails, w.jobs, sandbox.Options{Prefix: "pg"})
	near, far := mcp.NewInMemoryTransports()
	serving, err := catalogue.New(w.provider, "alice", options).Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, client).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close(); _ = serving.Wait() })
	for tool, err := range w.client.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.OutputSchema != nil {
			w.schemas[tool.Name] = resolve(t, tool.OutputSchema)
		}
	}
	return w
}

func resolve(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	data, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// call calls a tool and checks what must hold for every answer.
func (w *world) call(name string, args any) *mcp.CallToolResult {
	w.t.Helper()
	r, err := w.client.CallTool(w.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		w.t.Fatalf("%s(%v) is a protocol error: %v", name, args, err)
	}
	if len(r.Content) == 0 {
		w.t.Errorf("%s(%v): no content", name, args)
	}
	schema := w.schemas[name]
	switch {
	case schema == nil && r.StructuredContent != nil:
		w.t.Errorf("%s: structured content without a schema", name)
	case schema != nil && r.StructuredContent != nil:
		if err := schema.Validate(r.StructuredContent); err != nil {
			w.t.Errorf("%s: structured content against its schema: %v", name, err)
		}
	case schema != nil && !r.IsError:
		w.t.Errorf("%s(%v): no structured content", name, args)
	}
	return r
}

type m = map[string]any

func text(r *mcp.CallToolResult) string {
	if c, ok := r.Content[0].(*mcp.TextContent); ok {
		return c.Text
	}
	return fmt.Sprintf("%T", r.Content[0])
}

func field(t *testing.T, r *mcp.CallToolResult, name string) any {
	t.Helper()
	fields, ok := r.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("structured content is %T", r.StructuredContent)
	}
	return fields[name]
}

func TestList(t *testing.T) {
	w := newWorld(t, catalogue.Options{Version: "1.2"}, nil)
	var names []string
	for tool, err := range w.client.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		if len(tool.Description) == 0 || len(tool.Description) >= 2048 || tool.Title == "" {
			t.Errorf("%s: title %q, description of %d bytes", tool.Name, tool.Title, len(tool.Description))
		}
		if a := tool.Annotations; a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%s: annotations %+v", tool.Name, a)
		}
		schema := tool.InputSchema.(map[string]any)
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the schema allows unknown arguments", tool.Name)
		}
		resolve(t, schema)
	}
	want := []string{"close_session", "exec", "job_cancel", "job_exec", "job_poll", "open_session", "read", "write"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	init := w.client.InitializeResult()
	if c, err := json.Marshal(init.Capabilities); err != nil || string(c) != `{"tools":{}}` {
		t.Errorf("capabilities %s, %v", c, err)
	}
	if init.Instructions == "" || len(init.Instructions) > 2048 || init.ServerInfo.Version != "1.2" {
		t.Errorf("initialize result %+v", init)
	}
}

func TestOtherCapabilitiesAreRefused(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	_, prompts := w.client.ListPrompts(t.Context(), nil)
	_, resources := w.client.ListResources(t.Context(), nil)
	_, templates := w.client.ListResourceTemplates(t.Context(), nil)
	_, complete := w.client.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "x"}})
	for name, err := range map[string]error{"prompts": prompts, "resources": resources, "templates": templates, "complete": complete} {
		e, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || e.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSession(t *testing.T) {
	var opened, closed []string
	w := newWorld(t, catalogue.Options{
		OnOpen:  func(s string) { opened = append(opened, s) },
		OnClose: func(s string) { closed = append(closed, s) },
	}, nil)
	r := w.call("open_session", m{"tenant": "alice", "cwd": "/tmp", "env": m{"A": "1", "_b2": ""}})
	want := m{"session": "pg-alice", "persona": "alice assistant", "isolation": "none", "network": "none", "append_only": m{"enforced": false, "reason": "a test"}}
	if diff := cmp.Diff(want, r.StructuredContent); diff != "" || !strings.HasPrefix(text(r), "session pg-alice is open\n") {
		t.Errorf("open: %q, structured (-want +got):\n%s", text(r), diff)
	}
	if diff := cmp.Diff(jail.OpenOptions{Cwd: "/tmp", Env: map[string]string{"A": "1", "_b2": ""}}, w.jails.Options("alice")); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if r = w.call("close_session", m{"session": "pg-alice"}); r.IsError || field(t, r, "handles") != 0.0 {
		t.Errorf("close: %q", text(r))
	}
	if r = w.call("close_session", m{"session": "pg-alice"}); !r.IsError || !strings.HasPrefix(text(r), "unknown session\nhint: call open_session") {
		t.Errorf("second close: %q", text(r))
	}
	if !slices.Equal(opened, []string{"pg-alice"}) || !slices.Equal(closed, opened) {
		t.Errorf("callbacks: opened %q, closed %q", opened, closed)
	}
	foreign, unknown := text(w.call("open_session", m{"tenant": "bob"})), text(w.call("open_session", m{"tenant": ""}))
	if foreign != unknown || !strings.HasPrefix(foreign, "unknown tenant\n") {
		t.Errorf("refusals differ: %q, %q", foreign, unknown)
	}
}

func TestHandlesAreGivenBack(t *testing.T) {
	jails := &sandboxtest.Jails{Prefix: "pg"}
	provider := sandbox.New(jails, &sandboxtest.Jobs{}, sandbox.Options{Prefix: "pg"})
	h := catalogue.NewHandles(provider, "alice")
	for range 3 {
		if _, err := provider.Open(t.Context(), "alice", jail.OpenOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.Opened("pg-alice")
	h.Opened("pg-alice")
	h.Closed("pg-alice") // one was closed by the client, so one is left to give back
	for range 2 {
		if err := h.Close(t.Context()); err != nil || jails.Handles("alice") != 2 {
			t.Fatalf("Close: %v, %d handles", err, jails.Handles("alice"))
		}
	}
	h.Opened("pg-alice")
	jails.FailClose(fault.New(fault.Busy, "a job is running"))
	if err := h.Close(t.Context()); !errors.Is(err, fault.Busy) {
		t.Errorf("Close while busy: %v", err)
	}
}

// Every bad input is a result that a model can read, with a hint.
func TestBadArguments(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	w.call("open_session", m{})
	long := strings.Repeat("x", 64<<10+1)
	tests := []struct {
		tool, args, want string
	}{
		{"exec", `{}`, `argument "session" is missing`},
		{"exec", `null`, `argument "session" is missing`},
		{"exec", `[]`, "must be an object"},
		{"exec", `"x"`, "must be an object"},
		{"exec", `{"session":"pg-alice"}`, `argument "command" is missing`},
		{"exec", `{"session":"pg-alice","command":null}`, `argument "command" is missing`},
		{"exec", `{"session":"pg-alice","command":1}`, `argument "command" must be a string`},
		{"exec", `{"session":"pg-alice","command":["a"]}`, `argument "command" must be a string`},
		{"exec", `{"session":"pg-alice","command":""}`, "the command is empty"},
		{"exec", `{"session":"pg-alice","command":"a\u0000b"}`, "NUL byte"},
		{"exec", `{"session":"pg-alice","command":"` + long + `"}`, "65537 bytes long; 65536 is the most"},
		{"exec", `{"session":"pg-alice","command":"true","cwd":"\u0000"}`, "NUL byte"},
		{"write", `{"session":"pg-alice","path":"f","text":"a\ud800b"}`, `argument "text" holds one half of a surrogate pair`},
		{"exec", `{"session":"pg-alice","command":"true","comand":"x"}`, `unknown argument "comand"`},
		{"exec", `{"Session":"pg-alice","command":"true"}`, `unknown argument "Session"`},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":0}`, "whole number from 1 to 280000"},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":-1}`, "whole number"},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":280001}`, "whole number"},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":1.5}`, "whole number"},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":"5"}`, "whole number"},
		{"exec", `{"session":"pg-alice","command":"true","timeout_ms":1e400}`, "whole number"},
		{"exec", `{"session":"pg-bob","command":"true"}`, "unknown session"},
		{"open_session", `{"env":{"A":1}}`, `argument "env" must be an object with string values`},
		{"open_session", `{"env":{"A":null}}`, `argument "env" must be an object with string values`},
		{"open_session", `{"env":[]}`, `argument "env" must be an object with string values`},
		{"open_session", `{"env":{"1A":"x"}}`, "is not valid"},
		{"open_session", `{"env":{"":"x"}}`, "is not valid"},
		{"open_session", `{"env":{"A=B":"x"}}`, "is not valid"},
		{"open_session", `{"env":{"A":"\u0000"}}`, "NUL byte"},
		{"open_session", `{"env":{"A":"` + long + `"}}`, "over the limit"},
		{"read", `{"session":"pg-alice","path":"a\u0000b"}`, "NUL byte"},
		{"read", `{"session":"pg-alice","path":""}`, "the path is empty"},
		{"read", `{"session":"pg-alice","path":"none"}`, "no such file"},
		{"write", `{"session":"pg-alice","path":"f"}`, "exactly one of text and base64"},
		{"write", `{"session":"pg-alice","path":"f","text":"a","base64":"YQ=="}`, "exactly one of text and base64"},
		{"write", `{"session":"pg-alice","path":"f","base64":"!"}`, "base64 is not valid: illegal base64 data at input byte 0"},
		{"write", `{"session":"pg-alice","path":"f","base64":"YQ"}`, "base64 is not valid"},
		{"write", `{"session":"pg-alice","path":"f","base64":"` + strings.Repeat("A", 5<<20) + `"}`, "over the limit of 3145728 bytes"},
		{"job_poll", `{"job_id":"job-x"}`, "unknown job"},
		{"job_poll", `{"job_id":"job-x","cursor":-1}`, "whole number from 0"},
		{"job_poll", `{"job_id":"job-x","cursor":99999999999999999999}`, "whole number from 0"},
		{"job_poll", `{"job_id":"job-x","wait_ms":25001}`, "whole number from 0 to 25000"},
		{"job_cancel", `{"job_id":"job-x"}`, "unknown job"},
	}
	for _, test := range tests {
		r := w.call(test.tool, json.RawMessage(test.args))
		if !r.IsError || !strings.Contains(text(r), test.want) {
			t.Errorf("%s(%.100s) = %v %q, want %q", test.tool, test.args, r.IsError, text(r), test.want)
		}
		if !strings.Contains(text(r), "NUL byte") && !strings.Contains(text(r), "path is empty") && !strings.Contains(text(r), "command is empty") &&
			!strings.Contains(text(r), "\nhint: ") {
			t.Errorf("%s(%.100s): no hint in %q", test.tool, test.args, text(r))
		}
	}
	if got := w.jails.Handles("alice"); got != 1 {
		t.Errorf("%d handles after refused calls", got)
	}
}

func TestInternalErrorsAreHidden(t *testing.T) {
	var told []string
	w := newWorld(t, catalogue.Options{OnError: func(_ context.Context, tool string, err error) { told = append(told, tool+": "+err.Error()) }}, nil)
	w.call("open_session", m{})
	for _, err := range []error{errors.New("secret /etc/x"), fault.New(fault.Internal, "secret /etc/x").WithHint("secret")} {
		w.jobs.Fake = func(job.Spec) (job.Execution, error, bool) { return job.Execution{}, err, true }
		if r := w.call("exec", m{"session": "pg-alice", "command": "true"}); !r.IsError || !strings.HasPrefix(text(r), "internal error\nhint: ") || strings.Contains(text(r), "secret") {
			t.Errorf("%v became %q", err, text(r))
		}
	}
	if want := []string{"exec: secret /etc/x", "exec: secret /etc/x"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestProgress(t *testing.T) {
	got := make(chan *mcp.ProgressNotificationParams, 100)
	w := newWorld(t, catalogue.Options{ProgressEvery: 20 * time.Millisecond}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { got <- r.Params },
	})
	w.call("open_session", m{})
	params := &mcp.CallToolParams{Name: "exec", Arguments: m{"session": "pg-alice", "command": "sleep 0.2", "timeout_ms": 5000}}
	params.SetProgressToken("tok")
	if _, err := w.client.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-got:
		if p.ProgressToken != "tok" || p.Total != 5 || p.Progress <= 0 || p.Message == "" {
			t.Errorf("progress %+v", p)
		}
	case <-time.After(5 * time.Second):
		t.Error("no progress")
	}
	for len(got) > 0 {
		<-got
	}
	w.call("exec", m{"session": "pg-alice", "command": "sleep 0.1"}) // without a token
	if len(got) > 0 {
		t.Errorf("progress without a token: %+v", <-got)
	}
}
