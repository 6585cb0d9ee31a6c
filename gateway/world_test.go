package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"playground/config"
	"playground/fault"
	"playground/gateway"
	"playground/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The internal token of a tenant's worker.
func internalToken(tenant string) string { return "internal-" + tenant + "-0123456789abcdef0123456789" }

// A seen is a request as it came to a worker.
type seen struct {
	head   string // request line and headers
	header http.Header
	host   string
	method string
	uri    string
	body   string
}

// A worker is a raw server: it says exactly the bytes that its script writes.
type worker struct {
	t        testing.TB
	listener net.Listener
	script   func(c net.Conn, r seen)

	mu   sync.Mutex // guards what follows
	got  []seen
	busy sync.WaitGroup
	open map[net.Conn]bool
}

// newWorker serves script, which gets each request whole, on a connection that is closed when it returns.
func newWorker(t testing.TB, script func(c net.Conn, r seen)) *worker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, listener: l, script: script, open: map[net.Conn]bool{}}
	w.busy.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.open[c] = true
			w.mu.Unlock()
			w.busy.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for c := range w.open {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.busy.Wait()
	})
	return w
}

func (w *worker) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		w.mu.Lock()
		delete(w.open, c)
		w.mu.Unlock()
	}()
	var raw bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &raw)))
	if err != nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	s := seen{head, r.Header, r.Host, r.Method, r.RequestURI, string(body)}
	w.mu.Lock()
	w.got = append(w.got, s)
	w.mu.Unlock()
	w.script(c, s)
}

func (w *worker) requests() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.got...)
}

func (w *worker) address() netip.AddrPort { return netip.MustParseAddrPort(w.listener.Addr().String()) }

// say returns a script that answers every request with the same bytes.
func say(format string, args ...any) func(net.Conn, seen) {
	return func(c net.Conn, _ seen) { fmt.Fprintf(c, format, args...) }
}

// answer is a whole HTTP answer.
func answer(status int, body string, headers ...string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), lines(headers), len(body), body)
}

func lines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\r\n") + "\r\n"
}

const jsonType = "Content-Type: application/json"

// A world is a gateway behind a transport, with workers of alice and bob.
type world struct {
	t        testing.TB
	url      string
	gateway  *gateway.Gateway
	http     *http.Client
	security *logBuffer

	mu        sync.Mutex // guards what follows
	exchanges []gateway.Exchange
	dialled   []string
}

func newWorld(t testing.TB, workers map[string]netip.AddrPort, change func(*gateway.Options, *transport.Options)) *world {
	t.Helper()
	w := &world{t: t, security: &logBuffer{}, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	options := gateway.Options{
		Manifest: manifest(t, workers),
		Dial: func(ctx context.Context, tenant string, to netip.AddrPort) (gateway.Conn, error) {
			w.dial(tenant + " " + to.String())
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.String())
		},
		Observe: func(x gateway.Exchange) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.exchanges = append(w.exchanges, x)
		},
	}
	topts := transport.Options{Authenticate: authenticate, Logger: zerolog.New(w.security), PingEvery: 20 * time.Millisecond}
	if change != nil {
		change(&options, &topts)
	}
	w.gateway = gateway.New(options)
	topts.Service = w.gateway
	w.serve(transport.New(topts))
	return w
}

// serve serves a transport on loopback.
func (w *world) serve(face *transport.Transport) {
	server := face.Server(face.Handler())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String() + transport.Path
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.http.CloseIdleConnections()
		if err := face.Shutdown(ctx); err != nil {
			w.t.Errorf("Shutdown: %v", err)
		}
		_ = server.Close()
		serving.Wait()
		w.http.CloseIdleConnections()
	})
}

func authenticate(_ context.Context, token string) (string, string, error) {
	switch token {
	case "tok-alice", "tok-bob", "tok-carol":
		return strings.TrimPrefix(token, "tok-"), "id", nil
	}
	return "", "", fault.New(fault.Denied, "no such token")
}

// manifest writes and loads a real manifest.
func manifest(t testing.TB, workers map[string]netip.AddrPort) gateway.Manifest {
	t.Helper()
	dir := t.TempDir()
	var entries []map[string]string
	for tenant, to := range workers {
		file := filepath.Join(dir, tenant)
		write(t, file, internalToken(tenant)+"\n", 0o600)
		entries = append(entries, map[string]string{"tenant": tenant, "address": to.String(), "token_file": file})
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "workers.json")
	write(t, path, string(text), 0o600)
	m, err := gateway.Load(path, config.PrivateFile)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// dials returns the connections that were asked for.
func (w *world) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled)
}

func (w *world) dial(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled = append(w.dialled, what)
}

// told counts the exchanges that were observed.
func (w *world) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.exchanges)
}

func (w *world) last() gateway.Exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.exchanges) == 0 {
		return gateway.Exchange{}
	}
	return w.exchanges[len(w.exchanges)-1]
}

// A reply is a whole HTTP answer; err is what ended its body early.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (w *world) do(method, body string, headers ...string) reply {
	w.t.Helper()
	response, err := w.open(w.t.Context(), method, strings.NewReader(body), headers...)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(data), err}
}

// open sends a request of alice's, changed by headers (name, value, ...); "" removes.
func (w *world) open(ctx context.Context, method string, body io.Reader, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer tok-alice")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Add(headers[i], headers[i+1])
			if headers[i] == "Authorization" || headers[i] == "Content-Type" || headers[i] == "Accept" {
				r.Header.Set(headers[i], headers[i+1])
			}
		}
	}
	return w.http.Do(r)
}

// raw sends bytes and returns the first answer.
func (w *world) raw(text string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, text)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, data)
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	list       = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	call       = `{"jsonrpc":"2.0","id":"call-1","method":"tools/call","params":{"name":"x"}}`
)

var modern = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "x"}

// start opens a session and returns its public id.
func (w *world) start(headers ...string) string {
	w.t.Helper()
	r := w.do("POST", initialize, headers...)
	id := r.header.Get("Mcp-Session-Id")
	if r.status != 200 || id == "" {
		w.t.Fatalf("initialize: %+v", r)
	}
	return id
}

// echo is a worker that keeps the session "up-1" and answers everything else with ok.
func echo(c net.Conn, r seen) {
	if strings.Contains(r.body, `"initialize"`) {
		fmt.Fprint(c, answer(200, `{"jsonrpc":"2.0","id":1,"result":{}}`, jsonType, "Mcp-Session-Id: up-1"))
		return
	}
	fmt.Fprint(c, answer(200, `{"ok":true}`, jsonType, "Mcp-Session-Id: up-1"))
}

// A logBuffer is a bytes.Buffer for many goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}
