package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"playground/catalogue"
	"playground/fault"
	"playground/jail"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
	"playground/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type m = map[string]any

// A world is a Transport served on loopback, over real tools and a real shell.
type world struct {
	t         testing.TB
	url       string
	transport *transport.Transport
	server    *http.Server
	jails     *sandboxtest.Jails
	jobs      *sandboxtest.Jobs
	registry  *prometheus.Registry
	log       *logBuffer
	http      *http.Client

	mu     sync.Mutex // guards tokens and broken
	tokens map[string]string
	broken error
}

func newWorld(t testing.TB, change func(*transport.Options)) *world {
	t.Helper()
	w := &world{
		t: t, jails: &sandboxtest.Jails{Prefix: "pg"}, registry: prometheus.NewRegistry(), log: &logBuffer{},
		tokens: map[string]string{"tok-alice": "alice", "tok-alice-2": "alice", "tok-bob": "bob"},
		http:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	w.jobs = &sandboxtest.Jobs{Jails: w.jails, Root: t.TempDir()}
	provider := sandbox.New(w.jails, w.jobs, sandbox.Options{Prefix: "pg"})
	for _, tenant := range []string{"alice", "bob"} {
		_, _ = w.jails.Open(t.Context(), tenant, jail.OpenOptions{})
	}
	options := transport.Options{
		Authenticate: w.authenticate,
		Catalogue: func(tenant string) *mcp.Server {
			return catalogue.New(provider, tenant, catalogue.Options{ProgressEvery: 50 * time.Millisecond})
		},
		Logger:   zerolog.New(w.log),
		Registry: w.registry,
	}
	if change != nil {
		change(&options)
	}
	w.transport = transport.New(options)
	w.server = w.transport.Server(w.transport.Handler())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String() + transport.Path
	var serving sync.WaitGroup
	serving.Go(func() { _ = w.server.Serve(listener) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		w.http.CloseIdleConnections()
		if err := w.transport.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := w.server.Shutdown(ctx); err != nil {
			t.Errorf("server: %v", err)
		}
		serving.Wait()
		w.jobs.Shutdown()
		w.http.CloseIdleConnections()
		for _, secret := range []string{"tok-", "SECRET"} {
			if s := w.log.String(); strings.Contains(s, secret) {
				t.Errorf("the log holds %q: %s", secret, s)
			}
		}
	})
	return w
}

func (w *world) authenticate(_ context.Context, token string) (string, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return "", "", w.broken
	}
	if tenant, ok := w.tokens[token]; ok {
		return tenant, "id-" + tenant, nil
	}
	return "", "", fault.New(fault.Denied, "no such token")
}

func (w *world) revoke(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tokens, token)
}

// bearerTransport adds a token to a client's requests.
type bearerTransport struct {
	token string
	next  http.RoundTripper
}

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// connect returns an official client of the given era.
func (w *world) connect(token, version string, options *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options).Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   w.url,
		HTTPClient: &http.Client{Transport: bearerTransport{token, w.http.Transport}},
		MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// A reply is a whole HTTP answer.
type reply struct {
	status int
	header http.Header
	body   string
}

func (w *world) do(method, body string, header ...string) reply {
	w.t.Helper()
	r, err := w.try(w.t.Context(), method, w.url, strings.NewReader(body), header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// try sends a request with the headers of a well-behaved legacy client, changed by header (name, value, ...); "" removes.
func (w *world) try(ctx context.Context, method, url string, body io.Reader, header ...string) (reply, error) {
	response, err := w.open(ctx, method, url, body, header...)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(data)}, err
}

func (w *world) open(ctx context.Context, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer tok-alice")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	return w.http.Do(r)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// start opens a raw legacy session and returns its id.
func (w *world) start(token string) string {
	w.t.Helper()
	r := w.do("POST", initialize, "Authorization", "Bearer "+token)
	id := r.header.Get("Mcp-Session-Id")
	if r.status != 200 || id == "" {
		w.t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	return id
}

// toolCall is the body of a tools/call.
func toolCall(id int, name string, args m, meta m) string {
	params := m{"name": name, "arguments": args}
	if meta != nil {
		params["_meta"] = meta
	}
	data, err := json.Marshal(m{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// modern returns the headers and the _meta of a 2026-07-28 tools/call.
func modern(tool string) (headers []string, meta m) {
	return []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool}, m{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": m{},
		"io.modelcontextprotocol/clientInfo":         m{"name": "raw", "version": "1"},
	}
}

func text(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	if c, ok := r.Content[0].(*mcp.TextContent); ok {
		return c.Text
	}
	return fmt.Sprintf("%T", r.Content[0])
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
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
