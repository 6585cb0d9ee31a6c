package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/confine"
	"playground/confine/escape"
	"playground/confine/keeper"
	"playground/inference"
	"playground/internal/workertest"
	"playground/record"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// program is the worker, built once.
var program = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("PLAYGROUND_BIN"); bin != "" {
		return filepath.Join(bin, "playground-worker"), nil
	}
	return workertest.Build("playground-worker", "playground/cmd/playground-worker")
})

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

func worker(t *testing.T) string {
	t.Helper()
	workertest.Allowed(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A kernel answers as a test says, and keeps what was appended.
type kernel struct {
	mu    sync.Mutex
	notes []string
	reply []inference.Response
}

func (k *kernel) Propose(context.Context, loop.Proposal) (loop.Verdict, error) {
	return loop.Verdict{Decision: "allow", Layer: "allow", Call: strings.Repeat("c", 64), Verdict: strings.Repeat("d", 64)}, nil
}

func (k *kernel) Call(context.Context, string) (loop.Result, error) {
	return loop.Result{}, loop.ErrRefused
}

func (k *kernel) Append(_ context.Context, e loop.Entry) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body, err := json.Marshal(e.Body)
	if e.Kind == loop.KindNote {
		var note loop.NoteBody
		err = json.Unmarshal(body, &note)
		k.notes = append(k.notes, note.Text)
	}
	return fmt.Sprintf("r%d", len(k.notes)), err
}

func (k *kernel) Query(context.Context, record.Query) (record.Page, error) { return record.Page{}, nil }

func (k *kernel) Complete(context.Context, inference.Request) (loop.Completion, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.reply) == 0 {
		return loop.Completion{}, loop.ErrRefused
	}
	r := k.reply[0]
	k.reply = k.reply[1:]
	return loop.Completion{Response: r}, nil
}

// serve runs one worker with a handoff, and returns what it claims and how it ended.
func serve(t *testing.T, k *kernel, handoff string) (string, confine.Exit) {
	t.Helper()
	workers, err := keeper.New(keeper.Options{Program: worker(t), UIDBase: 920_000, Seen: func(e keeper.Event) { t.Logf("%+v", e) }})
	if err != nil {
		t.Fatal(err)
	}
	defer workers.Close(context.Background())
	w, err := workers.Start(t.Context(), "th_own", confine.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	conn, err := net.FileConn(w.Doors)
	if err != nil {
		t.Fatal(err)
	}
	w.Doors.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() {
		doors.Serve(ctx, conn, doors.NewHandler(func(bearer string) (loop.Kernel, doors.Bounds, bool) {
			return k, doors.Bounds{Thread: "th_own", Kinds: []string{loop.KindNote, loop.KindTurn, loop.KindToolResult}}, bearer == "right"
		}))
	})
	defer served.Wait()
	defer cancel()
	if _, err := io.WriteString(w.Stdin, handoff); err != nil {
		t.Fatal(err)
	}
	w.Stdin.Close()
	w.Stdout.SetReadDeadline(time.Now().Add(time.Minute))
	out, err := io.ReadAll(w.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	w.Stdout.Close()
	<-w.Done()
	return string(out), w.Exit()
}

func line(t *testing.T, h doors.Handoff) string {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// TestLoop: the loop runs to its end behind the doors.
func TestLoop(t *testing.T) {
	k := &kernel{reply: []inference.Response{
		{Content: []inference.Block{{Type: "tool_use", ID: "1", Name: "record_note", Input: json.RawMessage(`{"text":"transport-check"}`)}}, StopReason: "tool_use"},
		{Content: []inference.Block{{Type: "text", Text: "all done"}}, StopReason: "end_turn"},
	}}
	out, exit := serve(t, k, line(t, doors.Handoff{Credential: "right", Thread: "th_own", Spec: loop.Spec{
		Thread: "th_own", Actor: "did:sync:user:ada", Goal: "note", Model: "m", Tools: loop.LocalTools(), MaxTurns: 3, Hooks: nil,
	}}))
	var claim loop.Claim
	if err := json.Unmarshal([]byte(out), &claim); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("it claims %q: %v", out, err)
	}
	if claim.Outcome != loop.Completed || claim.Summary != "all done" || exit.Status != 0 || !exit.Cleanup.Proven {
		t.Errorf("claim %+v, exit %+v", claim, exit)
	}
	if len(k.notes) != 1 || k.notes[0] != "transport-check" {
		t.Errorf("notes %q", k.notes)
	}
}

// TestEscape: the suite runs in the program itself, and leaves its rows on the thread.
func TestEscape(t *testing.T) {
	k := &kernel{}
	plan, err := json.Marshal(escape.Plan{Shape: "test", Processes: []int{os.Getpid()}, Files: []string{"/etc/passwd"}, Other: "th_other"})
	if err != nil {
		t.Fatal(err)
	}
	out, exit := serve(t, k, line(t, doors.Handoff{Credential: "right", Thread: "th_own", Escape: plan}))
	if !strings.Contains(out, `"outcome":"completed"`) || exit.Status != 0 {
		t.Errorf("it claims %q, exit %+v", out, exit)
	}
	var rows []escape.Row
	for _, note := range k.notes {
		var row escape.Row
		if err := json.Unmarshal([]byte(note), &row); err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, row); !row.Pass {
			t.Errorf("%+v", row)
		}
	}
	if len(rows) < 150 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestUseUp: a worker that is to use something up does nothing else, and its end says what came of it.
func TestUseUp(t *testing.T) {
	k := &kernel{}
	plan, err := json.Marshal(escape.Plan{Shape: "test", UseUp: "threads"})
	if err != nil {
		t.Fatal(err)
	}
	out, exit := serve(t, k, line(t, doors.Handoff{Credential: "right", Thread: "th_own", Escape: plan}))
	if row := escape.Used("test", 1, "threads", exit); !row.Pass || out != "" || len(k.notes) != 0 {
		t.Errorf("it claims %q, exit %+v, %d notes", out, exit, len(k.notes))
	}
}

// TestBadHandoff: what cannot be understood ends the worker, and what it says does not repeat it.
func TestBadHandoff(t *testing.T) {
	tests := []struct {
		name, handoff string
		status        int
	}{
		{"none", "", 0},
		{"half a line", `{"credential":"right"`, 0},
		{"malformed", "secret\n", 1},
		{"no credential", `{"thread":"th_own"}` + "\n", 1},
		{"a plan without a shape", `{"credential":"right","thread":"th_own","escape":{}}` + "\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, exit := serve(t, &kernel{}, tt.handoff)
			if exit.Status != tt.status || exit.Signal != "" || strings.Contains(out, "completed") {
				t.Errorf("it claims %q, exit %+v", out, exit)
			}
		})
	}
}

// TestAlone: by hand there is nothing to do with it.
func TestAlone(t *testing.T) {
	for _, args := range [][]string{nil, {"-x"}, {"job"}} {
		cmd := exec.Command(worker(t), args...)
		cmd.Stdin = nil // not a pipe, as a terminal is none
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "cannot run alone") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	cmd := exec.Command(worker(t))
	cmd.Stdin = bytes.NewReader([]byte("{}\n")) // a pipe, but no doors
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "doors") {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := exec.Command(worker(t), "-version").Output(); err != nil || len(out) == 0 {
		t.Errorf("-version: %v, %s", err, out)
	}
}
