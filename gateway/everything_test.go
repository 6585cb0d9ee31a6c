package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"playground/gateway"
	"playground/transport"
)

// everythingScript is the program of the npm package @modelcontextprotocol/server-everything, below a node_modules folder.
const everythingScript = "@modelcontextprotocol/server-everything/dist/index.js"

// everything starts the reference server on a loopback port, or skips the test where it is not installed.
func everything(t *testing.T) netip.AddrPort {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	folders := []string{os.Getenv("PLAYGROUND_EVERYTHING"), "../.tools/everything"}
	if out, err := exec.Command("npm", "root", "-g").Output(); err == nil {
		folders = append(folders, filepath.Dir(strings.TrimSpace(string(out))))
	}
	script := ""
	for _, folder := range folders {
		path, err := filepath.Abs(filepath.Join(folder, "node_modules", everythingScript))
		if err == nil && folder != "" && script == "" {
			if _, err := os.Stat(path); err == nil {
				script = path
			}
		}
	}
	if script == "" {
		t.Skip("npm package @modelcontextprotocol/server-everything is not installed in .tools/everything, globally, or in PLAYGROUND_EVERYTHING")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr).AddrPort()
	_ = free.Close()
	// It would listen on every address.
	const loopbackOnly = `data:text/javascript,import net from "node:net"; const l = net.Server.prototype.listen; ` +
		`net.Server.prototype.listen = function (p, ...a) { return l.call(this, p, "127.0.0.1", ...a) }`
	cmd := exec.Command(node, "--import", loopbackOnly, script, "streamableHttp")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", fmt.Sprintf("PORT=%d", address.Port())}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log logBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address.String()); err == nil {
			_ = c.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not listen: %s", log.String())
		}
	}
}

// A tap keeps what a worker sent on one connection. Some connections are made in advance, so the last one is that which said
// something last.
type tap struct {
	net.Conn
	got  *logBuffer
	said func(*logBuffer)
}

func (c tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		_, _ = c.got.Write(p[:n])
		c.said(c.got)
	}
	return n, err
}

// SyscallConn lets the gateway look whether a connection is open still.
func (c tap) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

// What the reference server sends reaches a client byte for byte, and is what a client without a gateway gets.
func TestEverything(t *testing.T) {
	address := everything(t)
	var mu sync.Mutex
	last := &logBuffer{}
	said := func(b *logBuffer) {
		mu.Lock()
		defer mu.Unlock()
		last = b
	}
	w := newWorld(t, map[string]netip.AddrPort{"alice": address}, func(o *gateway.Options, _ *transport.Options) {
		o.Dial = func(ctx context.Context, _ string, to netip.AddrPort) (gateway.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", to.String())
			if err != nil {
				return nil, err
			}
			return tap{c, &logBuffer{}, said}, nil
		}
	})
	direct := &world{t: t, url: "http://" + address.String() + "/mcp", http: w.http}
	tool := func(id int, name, args string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
	}
	sessions := map[*world]string{}
	for _, step := range []struct{ name, method, body, want string }{
		{"initialize", "POST", initialize, `"protocolVersion":"2025-11-25"`},
		{"initialized", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{"tools/list", "POST", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"get-sum"`},
		{"echo", "POST", tool(3, "echo", `{"message":"b\u00fccher \u2028 <&> \ud83d\ude00"}`), `bücher`},
		{"sum", "POST", tool(4, "get-sum", `{"a":2,"b":40}`), "42"},
		{"image", "POST", tool(5, "get-tiny-image", `{}`), "image/png"},
		{"progress", "POST", `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":0.4,"steps":4},"_meta":{"progressToken":"p"}}}`,
			`"method":"notifications/progress"`},
		{"no such tool", "POST", tool(7, "none", `{}`), "none"},
		{"no such method", "POST", `{"jsonrpc":"2.0","id":8,"method":"nothing/here"}`, "-32601"},
		{"malformed", "POST", `{"jsonrpc":`, "error"},
		{"no media type", "POST", `{"jsonrpc":"2.0","id":9,"method":"ping"}`, "error"},
		{"end", "DELETE", "", ""},
	} {
		got := map[*world]reply{}
		for _, side := range []*world{direct, w} {
			headers := []string{"Mcp-Protocol-Version", "2025-11-25"}
			if id := sessions[side]; id != "" {
				headers = append(headers, "Mcp-Session-Id", id)
			}
			if step.name == "no media type" {
				headers = append(headers, "Content-Type", "text/plain")
			}
			got[side] = side.do(step.method, step.body, headers...)
			if step.name == "initialize" {
				sessions[side] = got[side].header.Get("Mcp-Session-Id")
			}
		}
		through, plain := got[w], got[direct]
		if through.err != nil || plain.err != nil || !strings.Contains(through.body, step.want) {
			t.Fatalf("%s: %+v\n%+v", step.name, through, plain)
		}
		// The very bytes of this exchange, as the worker sent them.
		mu.Lock()
		raw := last.String()
		mu.Unlock()
		sent, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(sent.Body)
		if err != nil || string(body) != through.body || sent.StatusCode != through.status {
			t.Errorf("%s: the worker sent %d %q (%v), the client got %d %q", step.name, sent.StatusCode, body, err, through.status, through.body)
		}
		// What another client gets without a gateway. Event ids are random, so that only their places can be compared.
		if a, b := withoutEventIDs(through.body), withoutEventIDs(plain.body); a != b || through.status != plain.status {
			t.Errorf("%s differs:\nthrough the gateway %d %q\ndirectly            %d %q", step.name, through.status, a, plain.status, b)
		}
		if a, b := known(through.header), known(plain.header); !maps.Equal(a, b) {
			t.Errorf("%s: headers differ: %v, %v", step.name, a, b)
		}
		if id := sent.Header.Get("Mcp-Session-Id"); id != "" && (strings.Contains(through.body, id) || slices.Contains(through.header["Mcp-Session-Id"], id)) {
			t.Errorf("%s shows the worker's session id", step.name)
		}
	}
	if got := w.do("POST", list, "Mcp-Session-Id", sessions[w]); got.status != 404 || w.gateway.Sessions() != 0 {
		t.Errorf("after the end: %+v", got)
	}
}

var eventID = regexp.MustCompile(`(?m)^id: [0-9a-f-]{36}$`)

func withoutEventIDs(body string) string { return eventID.ReplaceAllString(body, "id: ?") }

// known returns the headers that describe a body, its framing aside, and whether there is a session.
func known(h http.Header) map[string]string {
	out := map[string]string{"session": fmt.Sprint(h.Get("Mcp-Session-Id") != "")}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Cache-Control", "Allow"} {
		out[name] = h.Get(name)
	}
	return out
}

// Progress arrives while the call runs, through the reference server too.
func TestEverythingStreams(t *testing.T) {
	w := newWorld(t, map[string]netip.AddrPort{"alice": everything(t)}, nil)
	id := w.start()
	const call = `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":2,"steps":4},"_meta":{"progressToken":"p"}}}`
	response, err := w.open(t.Context(), "POST", strings.NewReader(call), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var all bytes.Buffer
	buf := make([]byte, 4096)
	pieces := 0
	for err == nil {
		var n int
		n, err = response.Body.Read(buf)
		all.Write(buf[:n])
		if n > 0 {
			pieces++
		}
	}
	if pieces < 4 || strings.Count(all.String(), "notifications/progress") < 4 {
		t.Errorf("%d pieces: %s", pieces, all.String())
	}
}
