package workapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"playground/confine/escape"
	"playground/fault"
	"playground/localapi"
	"playground/policy"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	operator = "did:sync:user:operator"
	bob      = "did:sync:user:bob"
)

// A fakeEngine remembers what it was told and knows the runs it was given.
type fakeEngine struct {
	mu     sync.Mutex // guards what follows
	starts []workloop.StartRequest
	events []workloop.Event
	rows   map[string]workloop.Row
	open   []workloop.OpenDecision
	filter workloop.Filter
	err    error
}

func (f *fakeEngine) Start(_ context.Context, r workloop.StartRequest) (workloop.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, r)
	return workloop.Started{Object: "work_loop", Status: "started", Thread: thread("run"), Narrowed: []string{}}, f.err
}

func (f *fakeEngine) Preview(_ context.Context, r workloop.StartRequest) (workloop.Preview, error) {
	return workloop.Preview{Object: "work_loop_preview", Principal: r.Principal, Transport: "sandboxed"}, f.err
}

func (f *fakeEngine) Run(_ context.Context, id string) (workloop.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if row, ok := f.rows[id]; ok {
		return row, nil
	}
	return workloop.Row{}, &loop.Refusal{Code: loop.CodeNotFound, Status: 404, Message: "there is no run"}
}

func (f *fakeEngine) Runs(_ context.Context, filter workloop.Filter) (workloop.RunPage, error) {
	f.filter = filter
	return workloop.RunPage{Truncated: true}, f.err
}

func (f *fakeEngine) Event(_ context.Context, _ string, e workloop.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	return f.err
}

func (f *fakeEngine) Decide(_ context.Context, id string, e workloop.Event) (workloop.Decision, error) {
	return workloop.Decision{Object: "decision", RequestID: id, Decision: e.Decision, Policy: e.Policy, Value: e.Value}, f.err
}

func (f *fakeEngine) Decisions(context.Context) ([]workloop.OpenDecision, error) {
	return f.open, f.err
}

func (f *fakeEngine) Health(context.Context) (workloop.Health, error) {
	return workloop.Health{Transport: "in_process", MemberTransport: "sandboxed", Capacity: 16, Available: 15}, f.err
}

func (f *fakeEngine) Tools() []workloop.ToolInfo {
	return []workloop.ToolInfo{{Object: "tool", ID: "record_note", Name: "record_note", Domain: "sandboxed", Runnable: true}}
}

func (f *fakeEngine) Usage(_ context.Context, principal, day string) (workloop.Usage, error) {
	return workloop.Usage{Object: "usage", Principal: principal, Day: day}, f.err
}

// thread makes a thread's id of a word.
func thread(word string) string { return record.NewThread(word) }

// A world is the API over a real log, on a real socket.
type world struct {
	t      *testing.T
	log    *record.Log
	engine *fakeEngine
	escape func(context.Context) (escape.Report, error)
	api    *workapi.API
	client *workapi.Client
	http   *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "wa") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.New(64)
	log, err := record.Open(filepath.Join(dir, "records.db"), record.Options{Check: workloop.Check(rules)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, log: log, engine: &fakeEngine{rows: map[string]workloop.Row{}}}
	w.api = workapi.New(workapi.Options{
		Log: log, Engine: w.engine, Rules: rules, Operator: operator, Version: "1.2", Provider: "echo", Model: "echo", BodyBytes: 4 << 10,
		PingEvery: 20 * time.Millisecond,
		Escape:    func(ctx context.Context) (escape.Report, error) { return w.escape(ctx) },
		Tenant:    func(_ context.Context, name string) (bool, error) { return name == "bob" || name == "carol", nil },
		Ready:     func(context.Context) error { return errors.New("reaperd at /secret/path is down") },
		OnError:   func(r *http.Request, err error) { t.Logf("%s: %v", r.Pattern, err) },
	})
	socket := filepath.Join(dir, "operator.sock")
	listener, err := localapi.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	server := localapi.Server(w.api)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	w.client, w.http = workapi.NewClient(socket), &http.Client{Transport: transport}
	t.Cleanup(func() {
		w.api.Close()
		w.client.Disconnect()
		transport.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return w
}

// do makes a request and returns the status and the answer.
func (w *world) do(method, path, body string, header ...string) (int, map[string]any) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://local"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := w.http.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		w.t.Fatalf("%s %s: %v in %q", method, path, err, text)
	}
	return resp.StatusCode, answer
}

// refused expects an error with this status and code.
func (w *world) refused(status int, code, method, path, body string, header ...string) {
	w.t.Helper()
	got, answer := w.do(method, path, body, header...)
	if got != status || answer["code"] != code || answer["object"] != "error" || answer["message"] == "" {
		w.t.Errorf("%s %s %.100s %v: %d %v, want %d %s", method, path, body, header, got, answer, status, code)
	}
	if text, _ := answer["message"].(string); strings.Contains(text, "/tmp") || strings.Contains(text, "sql") {
		w.t.Errorf("%s %s: the text names what is not the caller's: %s", method, path, text)
	}
}

// append writes records as the kernel does.
func (w *world) append(drafts ...record.Draft) []record.Record {
	w.t.Helper()
	written, err := w.log.Append(w.t.Context(), drafts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return written
}

// work is a draft of the kernel's on a run's thread.
func work(id, kind string, body map[string]any) record.Draft {
	if body == nil {
		body = map[string]any{}
	}
	body["kind"] = kind
	return record.Draft{Thread: id, Actor: record.EngineDID, Act: record.ActKnow, Body: body}
}

func is(err error, kind fault.Kind, code string) bool {
	e, ok := errors.AsType[*workapi.Error](err)
	return ok && e.Code == code && errors.Is(err, kind)
}
