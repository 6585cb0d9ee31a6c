package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/mcpclient"
	"playground/suite"
)

// A host is a suite started by "playground up".
type host struct {
	t      *testing.T
	bin    string
	state  string
	listen string
	up     *exec.Cmd
	ended  chan struct{} // closed when up has ended
	output *buffer
}

// A buffer is what up printed; it may be read while up writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// programs returns the folder of the real programs, or skips the test.
func programs(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set: run `make test`, which builds the programs first")
	}
	return bin
}

// start runs "playground up" and waits until it is ready.
func start(t *testing.T) *host {
	t.Helper()
	bin := programs(t)
	state, err := os.MkdirTemp("/tmp", "pge2e") // t.TempDir may be too long for sockets
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
	h := &host{t: t, bin: bin, state: state, listen: listen}
	t.Cleanup(h.clean)
	h.launch()
	return h
}

// launch starts up in the state folder and waits until it is ready.
func (h *host) launch() {
	h.t.Helper()
	h.launchUntil("The suite is up")
}

// launchUntil starts up and waits until it has printed text.
func (h *host) launchUntil(text string) {
	h.t.Helper()
	h.output, h.ended = &buffer{}, make(chan struct{})
	h.up = exec.Command(filepath.Join(h.bin, "playground"), "up", "--state", h.state, "--listen", h.listen)
	h.up.Stdout, h.up.Stderr = h.output, h.output
	if err := h.up.Start(); err != nil {
		close(h.ended) // for clean
		h.t.Fatal(err)
	}
	go func(up *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = up.Wait() // the test looks at the state
	}(h.up, h.ended)
	h.waitFor(text, 60*time.Second)
}

// stop ends up with SIGTERM and waits for its end.
func (h *host) stop() {
	h.t.Helper()
	if err := h.up.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	select {
	case <-h.ended:
	case <-time.After(80 * time.Second):
		h.t.Fatal("up did not end")
	}
}

// waitFor waits until up has printed text.
func (h *host) waitFor(text string, limit time.Duration) {
	h.t.Helper()
	deadline := time.Now().Add(limit)
	for !strings.Contains(h.output.String(), text) {
		select {
		case <-h.ended:
			h.t.Fatalf("playground up ended (%v) before it printed %q:\n%s", h.up.ProcessState, text, h.output)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("no %q within %v:\n%s", text, limit, h.output)
		}
	}
}

// clean stops the suite and removes its folder. A failed test shows what the daemons said.
func (h *host) clean() {
	select {
	case <-h.ended:
	default:
		_ = h.up.Process.Signal(syscall.SIGTERM) // it may end by itself just now
		select {
		case <-h.ended:
		case <-time.After(90 * time.Second):
			_ = h.up.Process.Kill()
			<-h.ended
			h.t.Error("playground up did not end within 90 s of SIGTERM")
		}
	}
	if h.t.Failed() {
		h.t.Logf("up said:\n%s", h.output)
		logs, _ := filepath.Glob(filepath.Join(h.state, "log", "*.log")) // the pattern is sound
		for _, path := range logs {
			text, _ := os.ReadFile(path)
			h.t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
		}
	}
	if err := suite.Remove(h.state); err != nil {
		h.t.Errorf("cannot remove the state folder: %v", err)
	}
}

// playground runs one operator command and returns its output, error text and status.
func (h *host) playground(args ...string) (stdout, stderr string, status int) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(h.bin, "playground"), append([]string{"-c", filepath.Join(h.state, "playground.toml")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs an operator command with -o json and decodes its answer into v.
func (h *host) must(v any, args ...string) {
	h.t.Helper()
	out, errs, status := h.playground(append(args, "-o", "json")...)
	if status != 0 {
		h.t.Fatalf("playground %v: status %d\n%s", args, status, errs)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		h.t.Fatalf("playground %v: %v in:\n%s", args, err, out)
	}
}

// tenant makes a tenant and returns its token.
func (h *host) tenant(name string) string {
	h.t.Helper()
	var created struct{ Token string }
	h.must(&created, "user", "create", name)
	if created.Token == "" {
		h.t.Fatal("user create printed no token")
	}
	return created.Token
}

// A client is an agent's MCP connection.
type client struct {
	t       *testing.T
	session *mcp.ClientSession
}

// connect opens an MCP connection over HTTP.
func (h *host) connect(token string) *client {
	h.t.Helper()
	base := &http.Transport{}
	h.t.Cleanup(base.CloseIdleConnections)
	return connect(h.t, &mcp.StreamableClientTransport{Endpoint: "http://" + h.listen + "/mcp",
		HTTPClient: &http.Client{Transport: mcpclient.Bearer{Token: token, Next: base}}})
}

func connect(t *testing.T, transport mcp.Transport) *client {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the daemon may be gone
	return &client{t, session}
}

// call calls a tool, decodes its structured answer into v and returns its text.
func (c *client) call(v any, tool string, args map[string]any) (text string, isError bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 60*time.Second)
	defer cancel()
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	for _, content := range result.Content {
		if block, ok := content.(*mcp.TextContent); ok {
			text += block.Text
		}
	}
	if v != nil && !result.IsError {
		data, err := json.Marshal(result.StructuredContent)
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			c.t.Fatalf("%s: %v", tool, err)
		}
	}
	return text, result.IsError
}

// ok calls a tool that must succeed.
func (c *client) ok(v any, tool string, args map[string]any) string {
	c.t.Helper()
	text, isError := c.call(v, tool, args)
	if isError {
		c.t.Fatalf("%s %v: %s", tool, args, text)
	}
	return text
}

// A proc is a process beyond the reuse of its number.
type proc struct {
	pid   int
	start string
	name  string
}

// processes returns every process of the machine with its parent.
func processes() map[proc]int {
	all := map[proc]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is sound
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		fields := strings.Fields(string(text[shut+1:]))
		if len(fields) < 20 || fields[0] == "Z" {
			continue // a zombie of another's is not running
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
		parent, _ := strconv.Atoi(fields[1])
		all[proc{pid, fields[19], string(text[open+1 : shut])}] = parent
	}
	return all
}

// family returns all descendants of pid.
func family(pid int) []proc {
	all := processes()
	var found []proc
	wanted := []int{pid}
	for len(wanted) > 0 {
		parent := wanted[0]
		wanted = wanted[1:]
		for p, of := range all {
			if of == parent && !slices.Contains(found, p) {
				found = append(found, p)
				wanted = append(wanted, p.pid)
			}
		}
	}
	return found
}

// gone waits until none of the processes runs.
func gone(t *testing.T, of []proc, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		all := processes()
		left := slices.DeleteFunc(slices.Clone(of), func(p proc) bool { _, runs := all[p]; return !runs })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("these still run after %v: %v", limit, left)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// daemonPid returns the process id of one of up's daemons.
func (h *host) daemonPid(name string) int {
	h.t.Helper()
	for _, p := range family(h.up.Process.Pid) {
		if p.name == name[:min(15, len(name))] { // the kernel keeps 15 bytes
			return p.pid
		}
	}
	h.t.Fatalf("no process of %s below up", name)
	return 0
}
