package catalogue_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/catalogue"
	"playground/job"
	"playground/ring"
)

func TestExec(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	w.call("open_session", m{})
	r := w.call("exec", m{"session": "pg-alice", "command": "cat; echo err >&2; exit 3", "stdin": "out <&>", "cwd": nil})
	lines := strings.Split(text(r), "\n")
	if r.IsError || !strings.HasPrefix(lines[0], "exit 3 in ") || strings.Join(lines[1:], "\n") != "out <&>\n--- stderr ---\nerr\n" {
		t.Errorf("text %q, error %v", text(r), r.IsError)
	}
	if field(t, r, "exit_code") != 3.0 || field(t, r, "signal") != nil || field(t, r, "stdout_bytes") != 7.0 || field(t, r, "truncated") != false {
		t.Errorf("structured %v", r.StructuredContent)
	}
	r = w.call("exec", m{"session": "pg-alice", "command": "sleep 5", "timeout_ms": 100})
	if r.IsError || !strings.HasPrefix(text(r), "timed out after ") || !strings.Contains(text(r), "; killed with its tree") || field(t, r, "outcome") != "timed_out" {
		t.Errorf("timeout: %q %v", text(r), r.StructuredContent)
	}
	if r = w.call("exec", m{"session": "pg-alice", "command": "true", "cwd": "none"}); !r.IsError || !strings.HasPrefix(text(r), "failed: ") || !strings.Contains(text(r), "\nhint: ") {
		t.Errorf("bad cwd: %q", text(r))
	}
}

func TestExecOutcomes(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	w.call("open_session", m{})
	zero := 0
	proven := job.Cleanup{Proven: true}
	for _, test := range []struct {
		in   job.Result
		want string
	}{
		{job.Result{Outcome: job.Exited, ExitCode: &zero, DurationMS: 12, Cleanup: proven}, "exit 0 in 12 ms"},
		{job.Result{Outcome: job.Signalled, Signal: "SIGSEGV", DurationMS: 1250, Cleanup: proven}, "killed by SIGSEGV after 1.2 s"},
		{job.Result{Outcome: job.TimedOut, DurationMS: 45012, Cleanup: job.Cleanup{Proven: true, Killed: 3}}, "timed out after 45 s; killed with its tree"},
		{job.Result{Outcome: job.Cancelled, DurationMS: 3, Cleanup: proven}, "cancelled after 3 ms; killed with its tree"},
		{job.Result{Outcome: job.Exited, ExitCode: &zero, Hints: []string{"memory limit hit"}, Cleanup: job.Cleanup{Proven: true, Killed: 2}},
			"exit 0 in 0 ms\nnote: memory limit hit\n2 processes left running were killed; run servers with job_exec"},
		{job.Result{Outcome: job.Exited, ExitCode: &zero, Cleanup: job.Cleanup{Killed: 1}},
			"exit 0 in 0 ms\n1 process left running was killed; run servers with job_exec\nnote: it is not proved that all its processes are gone; new commands are refused until the operator has looked"},
	} {
		w.jobs.Fake = func(job.Spec) (job.Execution, error, bool) { return job.Execution{Result: test.in}, nil, true }
		if r := w.call("exec", m{"session": "pg-alice", "command": "x"}); text(r) != test.want || r.IsError {
			t.Errorf("%+v: %q", test.in, text(r))
		}
	}
}

// The text never passes the budget, its marker's number is exact, and both ends of the output are there.
func TestTextBudget(t *testing.T) {
	const budget = 4096
	w := newWorld(t, catalogue.Options{TextBytes: budget}, nil)
	w.call("open_session", m{})
	for _, test := range []struct{ out, err string }{
		{strings.Repeat("a", 3000), ""},
		{strings.Repeat("line\n", 10000), ""},
		{"", strings.Repeat("line\n", 10000)},
		{strings.Repeat("o\n", 5000), strings.Repeat("e\n", 5000)},
		{"short\n", strings.Repeat("e\n", 5000)},
		{strings.Repeat("ä€😀", 3000), "x"},
		{strings.Repeat("\xff", 3000), strings.Repeat("\xfe\xff\n", 3000)},
	} {
		w.jobs.Fake = func(job.Spec) (job.Execution, error, bool) {
			capture := ring.NewCapture(budget/2, budget/2)
			capture.Write(ring.Stdout, []byte(test.out))
			capture.Write(ring.Stderr, []byte(test.err))
			return job.Execution{Result: job.Result{Outcome: job.Exited, Cleanup: job.Cleanup{Proven: true}}, Stdout: capture.Stream(ring.Stdout), Stderr: capture.Stream(ring.Stderr)}, nil, true
		}
		r := w.call("exec", m{"session": "pg-alice", "command": "x"})
		got := text(r)
		if len(got) > budget || !utf8.ValidString(got) {
			t.Errorf("%.10q/%.10q: %d bytes of text", test.out, test.err, len(got))
		}
		kept := 0
		truncated := strings.Contains(got, "bytes left out")
		if truncated != (field(t, r, "truncated") == true) || truncated != (len(test.out)+len(test.err) > 3500) {
			t.Errorf("%.10q/%.10q: marker %v, truncated %v", test.out, test.err, truncated, field(t, r, "truncated"))
		}
		if truncated && utf8.ValidString(test.out+test.err) {
			kept = checkMarkers(t, got, test.out, test.err)
		}
		if truncated && kept > 0 && kept < budget*3/4 {
			t.Errorf("%.10q/%.10q: only %d bytes of output in the text", test.out, test.err, kept)
		}
	}
}

// checkMarkers checks each stream's part of a text against the output it came from.
func checkMarkers(t *testing.T, got, out, errs string) (kept int) {
	t.Helper()
	_, body, _ := strings.Cut(got, "\n")
	outPart, errPart, hasErr := strings.Cut(body, "--- stderr ---\n")
	if !hasErr {
		errPart = ""
	}
	for part, full := range map[string]string{outPart: out, errPart: errs} {
		front, rest, cut := strings.Cut(part, "[... ")
		if !cut {
			kept += len(full)
			continue
		}
		var left, total int
		if _, err := fmt.Sscanf(rest, "%d of %d bytes left out", &left, &total); err != nil {
			t.Errorf("marker in %.100q: %v", rest, err)
		}
		_, end, _ := strings.Cut(rest, "...]\n")
		if !strings.HasPrefix(full, strings.TrimSuffix(front, "\n")) || !strings.HasSuffix(full, strings.TrimSuffix(end, "\n")) && !strings.HasSuffix(full, end) {
			t.Errorf("the parts are not the output's ends: %.50q %.50q", front, end)
		}
		if got := total - left; total != len(full) || got > len(front)+len(end) || got < len(front)+len(end)-2 {
			t.Errorf("marker says %d of %d left, text has %d", left, total, len(front)+len(end))
		}
		kept += total - left
	}
	return kept
}

func TestJob(t *testing.T) {
	w := newWorld(t, catalogue.Options{TextBytes: 2048}, nil)
	w.call("open_session", m{})
	r := w.call("job_exec", m{"session": "pg-alice", "command": `printf 'a\377b'; sleep 0.05; echo err >&2; sleep 0.05; seq 1 2000`})
	id, _ := field(t, r, "job_id").(string)
	if r.IsError || id == "" || field(t, r, "state") != "running" || field(t, r, "cursor") != 0.0 {
		t.Fatalf("job_exec: %q", text(r))
	}
	var out, errs []byte
	var last *mcp.CallToolResult
	for cursor := any(0); ; cursor = field(t, last, "next_cursor") {
		last = w.call("job_poll", m{"job_id": id, "cursor": cursor, "wait_ms": 5000})
		for _, c := range field(t, last, "chunks").([]any) {
			chunk := c.(m)
			data := []byte(nil)
			if s, ok := chunk["text"].(string); ok {
				data = []byte(s)
			} else if data, _ = base64.StdEncoding.DecodeString(chunk["base64"].(string)); utf8.Valid(data) {
				t.Errorf("base64 for UTF-8: %q", data)
			}
			if chunk["stream"] == "stdout" {
				out = append(out, data...)
			} else {
				errs = append(errs, data...)
			}
		}
		if field(t, last, "result") != nil {
			break
		}
	}
	var want bytes.Buffer
	want.WriteString("a\xffb")
	for i := 1; i <= 2000; i++ {
		fmt.Fprintln(&want, i)
	}
	if !bytes.Equal(out, want.Bytes()) || string(errs) != "err\n" {
		t.Errorf("%d bytes of stdout, stderr %q", len(out), errs)
	}
	if end := field(t, last, "result").(m); end["outcome"] != "exited" || end["exit_code"] != 0.0 || field(t, last, "state") != "terminal" {
		t.Errorf("end %v", end)
	}

	// A reader of the texts alone gets all output too, by the cursors that they name.
	var read string
	for cursor := 0; ; {
		words := text(w.call("job_poll", m{"job_id": id, "cursor": cursor}))
		if len(words) > 2048 {
			t.Errorf("text of %d bytes", len(words))
		}
		body, tail, more := strings.Cut(words, "\n[... ")
		read += body
		if !more {
			break
		}
		var left, next int
		if _, err := fmt.Sscanf(tail, "%d more bytes of this page; to see them poll with cursor %d", &left, &next); err != nil || next <= cursor {
			t.Fatalf("marker %q: %v", tail, err)
		}
		cursor = next
	}
	if !strings.Contains(read, "a\uFFFDb\n--- stderr ---\nerr\n--- stdout ---\n1\n2\n") || !strings.HasSuffix(read, "1999\n2000\n") {
		t.Errorf("texts: %.200q", read)
	}

	future := w.call("job_poll", m{"job_id": id, "cursor": 1 << 40})
	if !future.IsError || !strings.Contains(text(future), "hint: ") {
		t.Errorf("future cursor: %q", text(future))
	}
}

func TestJobCancel(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	w.call("open_session", m{})
	id := field(t, w.call("job_exec", m{"session": "pg-alice", "command": "sleep 60"}), "job_id")
	for range 2 {
		if r := w.call("job_cancel", m{"job_id": id}); r.IsError {
			t.Errorf("cancel: %q", text(r))
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		r := w.call("job_poll", m{"job_id": id, "wait_ms": 1000})
		if field(t, r, "result") != nil {
			if !strings.Contains(text(r), "\ncancelled after ") {
				t.Errorf("text %q", text(r))
			}
			return
		}
	}
	t.Error("the job did not end")
}

func TestFiles(t *testing.T) {
	w := newWorld(t, catalogue.Options{}, nil)
	w.call("open_session", m{})
	home := filepath.Join(w.jobs.Root, "alice")
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100)...)
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	for _, test := range []struct {
		name string
		data []byte
		as   string
	}{
		{"plain text", []byte("héllo <&> \u2028\n"), "text"},
		{"empty", nil, "text"},
		{"zeros", []byte{0, 1, 2}, "application/octet-stream"},
		{"latin1", []byte("h\xe9llo"), "text/plain"},
		{"pic.png", png, "image/png"},
		{"big", big, "application/octet-stream"},
	} {
		r := w.call("write", m{"session": "pg-alice", "path": test.name, "base64": base64.StdEncoding.EncodeToString(test.data)})
		if r.IsError || field(t, r, "size") != float64(len(test.data)) || field(t, r, "atomic") != true || field(t, r, "path") != test.name {
			t.Fatalf("write %q: %q", test.name, text(r))
		}
		if got, err := os.ReadFile(filepath.Join(home, test.name)); err != nil || !bytes.Equal(got, test.data) {
			t.Fatalf("%q holds %d bytes, %v", test.name, len(got), err)
		}
		r = w.call("read", m{"session": "pg-alice", "path": test.name})
		as, data := "", []byte(nil)
		switch c := r.Content[0].(type) {
		case *mcp.TextContent:
			as, data = "text", []byte(c.Text)
		case *mcp.ImageContent:
			as, data = c.MIMEType, c.Data
		case *mcp.EmbeddedResource:
			as, data = c.Resource.MIMEType, c.Resource.Blob
			if !strings.HasPrefix(c.Resource.URI, "sandbox://pg-alice/") {
				t.Errorf("uri %q", c.Resource.URI)
			}
		}
		if r.IsError || len(r.Content) != 1 || as != test.as || !bytes.Equal(data, test.data) {
			t.Errorf("read %q: as %q, %d bytes, %v", test.name, as, len(data), r.IsError)
		}
	}
	if r := w.call("write", m{"session": "pg-alice", "path": "t", "text": "a\r\nb"}); r.IsError || field(t, r, "mime_type") != "text/plain; charset=utf-8" {
		t.Errorf("text write: %q", text(r))
	}
	if r := w.call("write", m{"session": "pg-alice", "path": "b", "base64": base64.StdEncoding.EncodeToString(append(big, 1))}); !r.IsError || !strings.Contains(text(r), "over the limit") {
		t.Errorf("3 MiB + 1: %q", text(r))
	}
}
