package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/config"
	"playground/faculty"
	"playground/gateway"
	"playground/localtcp"
)

// A hostile is a worker that answers every request with a body of its own making. ID stands for the request's id.
type hostile struct {
	kind string // Content-Type
	body func(method string) string
	more func(w http.ResponseWriter, r *http.Request) // goes on after the body
}

func (h hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	w.Header().Set("Content-Type", h.kind)
	w.Header().Set("Mcp-Session-Id", "s")
	body := strings.ReplaceAll(h.body(m.Method), "ID", string(m.ID))
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, _ = w.Write([]byte(body))
	if h.more != nil {
		h.more(w, r)
	}
}

const greeting = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`

// A worker is a tenant's, who can put any program in its place. Whatever it answers, the transport serves the others, and the check
// ends in its time.
func TestHealthHostile(t *testing.T) {
	fixed := func(text string) func(string) string { return func(string) string { return text } }
	after := func(tools string) func(string) string {
		return func(method string) string {
			switch method {
			case "initialize":
				return greeting
			case "tools/list":
				return tools
			}
			return `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`
		}
	}
	deep := strings.Repeat(`[`, 3<<20)
	deepMap := strings.Repeat(`{"a":`, 700<<10)
	page := 0
	flood := func(event string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(event)); err != nil {
					return
				}
			}
		}
	}
	for name, h := range map[string]hostile{
		"nothing":        {"application/json", fixed(""), nil},
		"deep":           {"application/json", fixed(deep), nil},
		"deep result":    {"application/json", fixed(`{"jsonrpc":"2.0","id":ID,"result":` + deepMap), nil},
		"deep closed":    {"application/json", fixed(`{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat(`[`, 1<<20) + strings.Repeat(`]`, 1<<20) + `}`), nil},
		"null result":    {"application/json", fixed(`{"jsonrpc":"2.0","id":ID,"result":null}`), nil},
		"null":           {"application/json", fixed(`null`), nil},
		"empty result":   {"application/json", fixed(`{"jsonrpc":"2.0","id":ID,"result":{}}`), nil},
		"a list":         {"application/json", fixed(`[{"jsonrpc":"2.0","id":ID,"result":{}}]`), nil},
		"another id":     {"application/json", fixed(`{"jsonrpc":"2.0","id":"ffff","result":{}}`), nil},
		"other types":    {"application/json", fixed(`{"jsonrpc":2,"id":ID,"result":[1]}`), nil},
		"a request":      {"application/json", fixed(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":null}`), nil},
		"null tools":     {"application/json", after(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[null,null]}}`), nil},
		"null tool list": {"application/json", after(`{"jsonrpc":"2.0","id":ID,"result":null}`), nil},
		"deep schema":    {"application/json", after(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"a","inputSchema":` + strings.Repeat(`{"not":`, 900) + `{}` + strings.Repeat(`}`, 900) + `}]}}`), nil},
		"endless page": {"application/json", func(m string) string {
			page++
			return after(fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[],"nextCursor":"%d"}}`, page))(m)
		}, nil},
		"huge tool":        {"application/json", after(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"` + strings.Repeat("a", 5<<20) + `"}]}}`), nil},
		"its token":        {"application/json", after(`{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"` + strings.Repeat("t", 32) + `"}}`), nil},
		"events for ever":  {"text/event-stream", fixed(""), flood(": x\n\n")},
		"one long line":    {"text/event-stream", fixed("data: "), flood(strings.Repeat("x", 4096))},
		"requests":         {"text/event-stream", fixed(""), flood("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n")},
		"calls back":       {"text/event-stream", fixed(""), flood("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n")},
		"notes":            {"text/event-stream", fixed(""), flood("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")},
		"null notes":       {"text/event-stream", fixed(""), flood("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":null}\n\n")},
		"retry":            {"text/event-stream", fixed("id: 1\nretry: 0\n\n"), nil},
		"silence":          {"text/event-stream", fixed(": x\n\n"), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"events, then all": {"text/event-stream", fixed("id: 9\ndata: " + greeting + "\n\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewayTo(t, h)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done := make(chan faculty.Health, 1)
			go func() {
				done <- ask(ctx, g, faculty.Worker{ID: "ann", Tenant: "ann", Address: g.Address("ann").String(), Run: "svc-1"})
			}()
			select {
			case result := <-done:
				if result.OK == (result.Problem != "") || strings.Contains(result.Problem+result.Server, strings.Repeat("t", 32)) {
					t.Errorf("%+v", result)
				}
				if name == "huge tool" && !strings.Contains(result.Problem, "the answer is over the limit") {
					t.Errorf("it is told as %q", result.Problem)
				}
			case <-time.After(60 * time.Second):
				t.Error("the check does not end")
			}
		})
	}
}

// gatewayTo returns a gateway whose one tenant, ann, has this worker.
func gatewayTo(t *testing.T, h http.Handler) *gateway.Gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	dir := t.TempDir()
	manifest := fmt.Sprintf(`[{"tenant":"ann","address":%q,"token_file":%q}]`, listener.Addr(), filepath.Join(dir, "token"))
	for file, text := range map[string]string{"token": strings.Repeat("t", 32), "manifest": manifest} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := gateway.Load(filepath.Join(dir, "manifest"), config.PrivateFile)
	if err != nil {
		t.Fatal(err)
	}
	return gateway.New(gateway.Options{Manifest: m, Dial: func(_ context.Context, _ string, to netip.AddrPort) (gateway.Conn, error) {
		return opened(localtcp.Dial(to, time.Now().Add(5*time.Second)))
	}})
}
