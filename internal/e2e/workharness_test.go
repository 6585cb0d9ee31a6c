package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

const (
	bob   = "did:sync:user:bob"
	carol = "did:sync:user:carol"
)

// A workHost is a suite with a work loop.
type workHost struct {
	*host
	api *workapi.Client
}

// startWork starts a suite whose section [work] has these lines.
func startWork(t *testing.T, lines string) *workHost {
	t.Helper()
	return startWorkOf(t, programs(t), lines)
}

// startWorkOf is startWork with the programs of a folder.
func startWorkOf(t *testing.T, bin, lines string) *workHost {
	t.Helper()
	state, err := os.MkdirTemp("/tmp", "pgwork")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(state, "playground.toml"), fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\nlibexec_dir = %q\n[http]\nlisten = %q\n[work]\nstop_grace = \"2s\"\nworker_uid_base = %d\n%s\n",
		filepath.Join(state, "data"), filepath.Join(state, "run"), bin, listen, workerIDs(), lines))
	h := &workHost{host: &host{t: t, bin: bin, state: state, listen: listen}}
	t.Cleanup(h.clean)
	h.launch()
	h.api = workapi.NewClient(filepath.Join(state, "run", "operator.sock"))
	t.Cleanup(h.api.Disconnect)
	return h
}

// workerIDs are the first user id of root's workers. Two suites of one host must not share them: each would find the other's.
func workerIDs() int { return 500_000 + os.Getpid()%1000*256 }

// script writes the steps of goals: a goal is the name of its steps.
func script(t *testing.T, goals map[string][]map[string]any) string {
	t.Helper()
	var all []map[string]any
	for goal, steps := range goals {
		for _, step := range steps {
			step["match"] = "(?m)^" + goal + "$"
			all = append(all, step)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.json")
	write(t, path, string(text))
	return fmt.Sprintf("provider = \"scripted\"\nscript = %q\n", path)
}

func says(text string) map[string]any { return map[string]any{"text": text} }

// calls is a step that calls a tool.
func calls(tool string, args map[string]any) map[string]any {
	return map[string]any{"tool_calls": []any{map[string]any{"name": tool, "args": args}}}
}

// later is a step after a while.
func later(step map[string]any, delay time.Duration) map[string]any {
	step["delay_ms"] = delay.Milliseconds()
	return step
}

// hold is a model that thinks until its run is stopped.
func hold() []map[string]any { return []map[string]any{later(says("too late"), 10*time.Minute)} }

// config writes a configuration record.
func (h *workHost) config(body string) record.Record {
	h.t.Helper()
	r, err := h.api.WriteRecord(h.t.Context(), workapi.NewRecord{Act: record.ActLearn, Actor: record.EngineDID, Thread: record.ConfigThread, Body: json.RawMessage(body)})
	if err != nil {
		h.t.Fatalf("%s: %v", body, err)
	}
	return r
}

// begin starts a run.
func (h *workHost) begin(actor, goal string, change ...func(*workloop.StartRequest)) workloop.Started {
	h.t.Helper()
	request := workloop.StartRequest{Goal: goal}
	for _, c := range change {
		c(&request)
	}
	started, err := h.api.As(actor).Start(h.t.Context(), request)
	if err != nil {
		h.t.Fatalf("start %q: %v", goal, err)
	}
	return started
}

// until reads a run's records from its beginning until one is of a type, and returns all of it.
func (h *workHost) until(thread, kind string, more ...func(workapi.StreamEvent) bool) (seen []workapi.StreamEvent) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 60*time.Second)
	defer cancel()
	for event, err := range h.api.RunEvents(ctx, thread, true, 0) {
		if err != nil {
			h.t.Fatalf("events of %s: %v", thread, err)
		}
		seen = append(seen, event)
		if event.Type == kind && !slices.ContainsFunc(more, func(f func(workapi.StreamEvent) bool) bool { return !f(event) }) {
			return seen
		}
	}
	h.t.Fatalf("the run ended without %q: %s", kind, kinds(seen))
	return nil
}

func kinds(events []workapi.StreamEvent) string {
	var all []string
	for _, event := range events {
		all = append(all, event.Type)
	}
	return strings.Join(all, " ")
}

// ended waits for a run's outcome and returns its row, which must be in this state.
func (h *workHost) ended(thread, state string) workloop.Row {
	h.t.Helper()
	h.until(thread, "outcome", func(e workapi.StreamEvent) bool { return field(e.Record, "outcome") != "awaiting_actor" })
	row, err := h.api.Run(h.t.Context(), thread)
	if err != nil || row.State != state {
		h.t.Fatalf("run %s: %+v, %v; want state %s", thread, row, err, state)
	}
	return row
}

// stopRun stops a run and waits for its end.
func (h *workHost) stopRun(thread string) workloop.Row {
	h.t.Helper()
	if _, err := h.api.Tell(h.t.Context(), thread, workloop.Event{Type: workloop.EventStop}); err != nil {
		h.t.Fatal(err)
	}
	return h.ended(thread, workloop.Stopped)
}

// field returns a text of a record's body.
func field(r record.Record, name string) string {
	var body map[string]any
	if r.Decode(&body) != nil {
		return ""
	}
	return fmt.Sprint(body[name])
}

// bodies returns the records of a kind.
func (h *workHost) bodies(thread, kind string) (found []record.Record) {
	h.t.Helper()
	all, err := h.api.ThreadRecords(h.t.Context(), thread, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range all.Data {
		if record.Kind(r) == kind {
			found = append(found, r)
		}
	}
	return found
}

// worker returns the process of a sandboxed run, from the daemon's log, as an operator finds it.
func (h *workHost) worker(thread string) (worker proc) {
	h.t.Helper()
	h.eventually("the log says \"running sandboxed\" of "+thread, func() bool {
		text, err := os.ReadFile(filepath.Join(h.state, "log", "playgroundd.log"))
		if err != nil {
			h.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Message, Thread string
				PID             int
				Layers          []string
			}
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "running sandboxed" || entry.Thread != thread {
				continue
			}
			if len(entry.Layers) < 5 {
				h.t.Errorf("the log names the layers %v", entry.Layers)
			}
			worker.pid = entry.PID
			for p := range processes() {
				if p.pid == entry.PID {
					worker = p
				}
			}
			return true
		}
		return false
	})
	return worker
}

// ask asks for a path over the network.
func (h *workHost) ask(path, token string) *http.Response {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://"+h.listen+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	return response
}

// get returns the status of an answer.
func (h *workHost) get(path, token string) int {
	h.t.Helper()
	response := h.ask(path, token)
	_ = response.Body.Close()
	return response.StatusCode
}

// open opens a stream.
func (h *workHost) open(path, token string) io.ReadCloser {
	h.t.Helper()
	response := h.ask(path, token)
	if response.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %s", path, response.Status)
	}
	return response.Body
}

// eventually waits until something holds.
func (h *workHost) eventually(what string, holds func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
