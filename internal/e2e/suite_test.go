package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A page is one job_poll answer.
type page struct {
	State      string
	Chunks     []struct{ Text string }
	NextCursor json.Number `json:"next_cursor"`
	HasMore    bool        `json:"has_more"`
	Result     *struct {
		Outcome  string
		ExitCode *int `json:"exit_code"`
		Cleanup  struct {
			Survivors int
			Proven    bool
		}
	}
}

// follow polls a job from its beginning to its end and returns all its output.
func (c *client) follow(id string) (string, page) {
	c.t.Helper()
	var text strings.Builder
	cursor := json.Number("0")
	for {
		var p page
		c.ok(&p, "job_poll", map[string]any{"job_id": id, "cursor": cursor, "wait_ms": 5000})
		for _, chunk := range p.Chunks {
			text.WriteString(chunk.Text)
		}
		if p.Result != nil {
			return text.String(), p
		}
		cursor = p.NextCursor
	}
}

// session opens the tenant's session and returns its id.
func (c *client) open() string {
	c.t.Helper()
	var opened struct{ Session string }
	c.ok(&opened, "open_session", map[string]any{})
	return opened.Session
}

// job starts a job and returns its id.
func (c *client) job(session, command string) string {
	c.t.Helper()
	var started struct {
		JobID string `json:"job_id"`
	}
	c.ok(&started, "job_exec", map[string]any{"session": session, "command": command})
	return started.JobID
}

// playgroundd dies in the middle of a job: up starts it again, the job goes on, and no line of its output is missing.
func TestTransportDiesInTheMiddleOfAJob(t *testing.T) {
	h := start(t)
	token := h.tenant("ada")
	c := h.connect(token)
	session := c.open()
	id := c.job(session, `i=1; while [ $i -le 40 ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done`)
	c.ok(nil, "job_poll", map[string]any{"job_id": id, "cursor": 0, "wait_ms": 2000})

	if err := syscall.Kill(h.daemonPid("playgroundd"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.waitFor("playgroundd is ready again", 20*time.Second)

	c = h.connect(token)
	text, last := c.follow(id)
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if text != want.String() {
		t.Errorf("the job's output is\n%s\nwant lines 1 to 40, each once", text)
	}
	if last.Result.Outcome != "exited" || *last.Result.ExitCode != 0 || !last.Result.Cleanup.Proven {
		t.Errorf("the job ended as %+v", last.Result)
	}
}

// Ctrl-C ends the suite, running jobs included, and leaves no process.
func TestCtrlCLeavesNoProcess(t *testing.T) {
	h := start(t)
	c := h.connect(h.tenant("ada"))
	c.job(c.open(), `trap '' TERM; (setsid sleep 12345 &); sleep 12345`)
	time.Sleep(300 * time.Millisecond) // for the forks
	all := family(h.up.Process.Pid)
	if len(all) < 4 {
		t.Fatalf("up has only %v below it", all)
	}
	if err := h.up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.ended:
	case <-time.After(80 * time.Second):
		t.Fatal("up did not end")
	}
	if code := h.up.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d after Ctrl-C, want 0", code)
	}
	gone(t, all, time.Second)

	// What was on disk is there after the next start.
	h.launch()
	var list []json.RawMessage
	h.must(&list, "user", "list")
	if len(list) != 1 {
		t.Errorf("%d tenants after the next start, want 1", len(list))
	}
}

// up itself is killed: the kernel tells the daemons, and they end as after Ctrl-C.
func TestKilledUpLeavesNoProcess(t *testing.T) {
	h := start(t)
	c := h.connect(h.tenant("ada"))
	c.job(c.open(), `sleep 12345`)
	all := family(h.up.Process.Pid)
	if err := h.up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-h.ended
	gone(t, all, 60*time.Second)
}

// A local client's server ends with its input, also when a command still runs, and gives its handle back. The client is raw:
// the SDK's would wait for the command's answer before it closes the input.
func TestStdioLeavesAtEOF(t *testing.T) {
	h := start(t)
	h.tenant("ada")
	cmd := exec.Command(filepath.Join(h.bin, "playground"), "-c", filepath.Join(h.state, "playground.toml"), "mcp", "--tenant", "ada")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open_session","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"session":"pg-ada","command":"sleep 40"}}}`,
	} {
		fmt.Fprintln(in, message)
		if strings.Contains(message, `"id":1`) || strings.Contains(message, `"id":2`) {
			if !answers.Scan() || strings.Contains(answers.Text(), "isError\":true") {
				t.Fatalf("answer %q (%v)", answers.Text(), answers.Err())
			}
		}
	}
	time.Sleep(300 * time.Millisecond) // so that the command runs
	began := time.Now()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil { // its end, before Wait closes the pipe
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the server took %v to leave", took)
	}
	var users []struct {
		Sandbox    struct{ Handles int }
		ActiveJobs int `json:"active_jobs"`
	}
	for range 50 { // the command's clean-up may take until its SIGKILL
		h.must(&users, "user", "list")
		if len(users) == 1 && users[0].Sandbox.Handles == 0 && users[0].ActiveJobs == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("after the client left: %+v, want no open handle and no command", users)
}
