package transport_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"playground/transport"
)

const list = `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}}`

func TestRefusals(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) {
		o.AllowedHosts = []string{"Pg.Example", "other.example:8443"}
		o.AllowedOrigins = []string{"https://Ui.example/"}
		o.BodyBytes = 10000
	})
	own := strings.TrimSuffix(w.url, transport.Path)
	big := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 10000) + `"}`
	tests := []struct {
		name, method, body string
		header             []string
		status             int
		want               string // in the body
	}{
		{"no token", "POST", list, []string{"Authorization", ""}, 401, "bearer token"},
		{"bad token", "POST", list, []string{"Authorization", "Bearer nope"}, 401, "bearer token"},
		{"basic", "POST", list, []string{"Authorization", "Basic dG9rLWFsaWNl"}, 401, "bearer token"},
		{"two words", "POST", list, []string{"Authorization", "Bearer tok-alice x"}, 401, "bearer token"},
		{"lower case scheme", "POST", list, []string{"Authorization", "bearer tok-alice"}, 200, "open_session"},
		{"GET without token", "GET", "", []string{"Authorization", ""}, 401, "bearer token"},
		{"foreign host", "POST", list, []string{"Host", "evil.example"}, 403, "Host"},
		{"foreign host with port", "POST", list, []string{"Host", "evil.example:80"}, 403, "Host"},
		{"foreign address", "POST", list, []string{"Host", "192.0.2.1"}, 403, "Host"},
		{"rebound name", "POST", list, []string{"Host", "127.0.0.1.evil.example"}, 403, "Host"},
		{"allowed host", "POST", list, []string{"Host", "pg.example"}, 200, "open_session"},
		{"allowed host, any port", "POST", list, []string{"Host", "PG.example:1234"}, 200, "open_session"},
		{"allowed host, its port", "POST", list, []string{"Host", "other.example:8443"}, 200, "open_session"},
		{"allowed host, other port", "POST", list, []string{"Host", "other.example:1"}, 403, "Host"},
		{"localhost", "POST", list, []string{"Host", "localhost:8787"}, 200, "open_session"},
		{"ipv6 loopback", "POST", list, []string{"Host", "[::1]:8787"}, 200, "open_session"},
		{"foreign origin", "POST", list, []string{"Origin", "https://evil.example"}, 403, "Origin"},
		{"null origin", "POST", list, []string{"Origin", "null"}, 403, "Origin"},
		{"origin before token", "POST", list, []string{"Origin", "https://evil.example", "Authorization", ""}, 403, "Origin"},
		{"origin with a path", "POST", list, []string{"Origin", own + "/x"}, 403, "Origin"},
		{"own origin", "POST", list, []string{"Origin", own}, 200, "open_session"},
		{"allowed origin", "POST", list, []string{"Origin", "https://ui.example"}, 200, "open_session"},
		{"PUT", "PUT", list, nil, 405, "method not allowed"},
		{"HEAD", "HEAD", "", nil, 405, ""},
		{"GET without session", "GET", "", nil, 405, "method not allowed"},
		{"DELETE without session", "DELETE", "", nil, 405, "method not allowed"},
		{"GET of the new era", "GET", "", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Session-Id", "x"}, 405, "method not allowed"},
		{"GET without Accept", "GET", "", []string{"Mcp-Session-Id", "x", "Accept", "application/json"}, 406, "text/event-stream"},
		{"Accept json only", "POST", list, []string{"Accept", "application/json"}, 406, "text/event-stream"},
		{"Accept anything", "POST", list, []string{"Accept", "*/*"}, 200, "open_session"},
		{"Accept with parameters", "POST", list, []string{"Accept", "application/json;q=0.9, text/*"}, 200, "open_session"},
		{"text body", "POST", list, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"no content type", "POST", list, []string{"Content-Type", ""}, 415, "application/json"},
		{"charset", "POST", list, []string{"Content-Type", "application/json; charset=utf-8"}, 200, "open_session"},
		{"too large", "POST", big, nil, 413, "over the limit of 10000 bytes"},
		{"empty", "POST", "", nil, 400, "empty"},
		{"blank", "POST", " \n", nil, 400, "empty"},
		{"malformed", "POST", `{"jsonrpc":`, nil, 400, "-32700"},
		{"trailing", "POST", list + "x", nil, 400, "-32700"},
		{"not an object", "POST", `5`, nil, 400, "-32600"},
		{"no value", "POST", `x`, nil, 400, "-32700"},
		{"not UTF-8", "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, "UTF-8"},
		{"large batch", "POST", "[" + strings.Repeat("{},", 40) + "{}]", nil, 400, "batch of 41"},
		{"unknown version", "POST", list, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400, "protocol version"},
		{"future version", "POST", list, []string{"Mcp-Protocol-Version", "2999-01-01"}, 400, ""},
		{"unknown session", "POST", list, []string{"Mcp-Session-Id", "none"}, 404, "session not found"},
		{"legacy without session", "POST", list, nil, 200, "open_session"},
		{"legacy notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ""},
		{"no method", "POST", `{"jsonrpc":"2.0","id":1}`, nil, 400, "no method"},
		{"method of a wrong type", "POST", `{"jsonrpc":"2.0","id":1,"method":5}`, nil, 400, "no method"},
		{"another JSON-RPC", "POST", `{"jsonrpc":"1.0","id":7,"method":"tools/list"}`, nil, 400, `"id":7,"error":{"code":-32600`},
		{"params that are no object", "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}`, nil, 400, `"id":7,"error":{"code":-32602,"message":"params must be an object"`},
		{"no params", "POST", `{"jsonrpc":"2.0","id":7,"method":"initialize"}`, nil, 400, "initialize needs params"},
		{"a name that is no string", "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}`, nil, 400, "params.name must be a string"},
		{"a version that is no string", "POST", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":5}}`, nil, 400, "params.protocolVersion must be a string"},
		{"a client without form", "POST", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":[]}}`, nil, 400, "params.clientInfo must be an object"},
		{"unknown method", "POST", `{"jsonrpc":"2.0","id":"x","method":"nonsense"}`, nil, 400, `{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"method not found"`},
		{"empty batch", "POST", `[]`, nil, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"a response to nothing", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 202, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := w.do(test.method, test.body, test.header...)
			if r.status != test.status || !strings.Contains(r.body, test.want) {
				t.Fatalf("%d %q, want %d %q", r.status, r.body, test.status, test.want)
			}
			if r.status == 405 && r.header.Get("Allow") == "" {
				t.Error("no Allow header")
			}
			if challenge := r.header.Get("Www-Authenticate"); (r.status == 401) != (challenge == "Bearer") {
				t.Errorf("challenge %q", challenge)
			}
			if strings.HasPrefix(r.body, `{"jsonrpc"`) && !json.Valid([]byte(r.body)) {
				t.Errorf("body %q", r.body)
			}
			if r.status >= 400 && test.method == "POST" && !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
				t.Errorf("an error in %q: %q", r.header.Get("Content-Type"), r.body)
			}
			if strings.Contains(r.body, "mcp.") || strings.Contains(r.body, "unmarshal") {
				t.Errorf("Go's words for a client: %q", r.body)
			}
		})
	}
	// All failures of authentication are one answer.
	a, b := w.do("POST", list, "Authorization", ""), w.do("POST", list, "Authorization", "Bearer x")
	if a.body != b.body || a.status != b.status {
		t.Errorf("answers differ: %q %q", a.body, b.body)
	}
	// The daemon lives on.
	if r := w.do("POST", list); r.status != 200 {
		t.Errorf("at the end: %d", r.status)
	}
}

func TestBodyLimitWithoutLength(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.BodyBytes = 1000 })
	chunked := struct{ io.Reader }{bytes.NewReader(bytes.Repeat([]byte(" "), 1001))} // a plain Reader has no length
	r, err := w.try(t.Context(), "POST", w.url, chunked)
	if err != nil || r.status != 413 || !strings.Contains(r.body, "over the limit of 1000 bytes") {
		t.Errorf("%d %q %v", r.status, r.body, err)
	}
	exact := list + strings.Repeat(" ", 1000-len(list))
	if r := w.do("POST", exact); r.status != 200 {
		t.Errorf("at the limit: %d %q", r.status, r.body)
	}
}

// What is not the endpoint is not found, discovery above all.
func TestOtherPaths(t *testing.T) {
	w := newWorld(t, nil)
	base := strings.TrimSuffix(w.url, transport.Path)
	for _, path := range []string{"/", "/mcp/", "/mcpx", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
		"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/register", "/metrics"} {
		r, err := w.try(t.Context(), "GET", base+path, nil)
		if err != nil || r.status != 404 || r.header.Get("Www-Authenticate") != "" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v %v", path, r.status, r.header, err)
		}
	}
}

func TestPreflight(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.AllowedOrigins = []string{"https://ui.example"} })
	r := w.do("OPTIONS", "", "Authorization", "", "Origin", "https://ui.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization, mcp-param-x")
	if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "https://ui.example" || r.header.Get("Vary") != "Origin" ||
		r.header.Get("Access-Control-Allow-Headers") != "authorization, mcp-param-x" || !strings.Contains(r.header.Get("Access-Control-Allow-Methods"), "DELETE") {
		t.Errorf("%d %v", r.status, r.header)
	}
	if r := w.do("OPTIONS", "", "Authorization", "", "Origin", "https://evil.example"); r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign: %d %v", r.status, r.header)
	}
	if r := w.do("POST", initialize, "Origin", "https://ui.example"); r.header.Get("Access-Control-Allow-Origin") != "https://ui.example" ||
		!strings.Contains(r.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") || r.header.Get("Mcp-Session-Id") == "" {
		t.Errorf("answer: %v", r.header)
	}
	if r := w.do("POST", list, "Origin", "https://ui.example", "Authorization", ""); r.status != 401 || r.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("401 for a page: %d %v", r.status, r.header)
	}
}

func TestBrokenAccountStore(t *testing.T) {
	w := newWorld(t, nil)
	w.broken = errors.New("disk I/O error at /var/db/x")
	if r := w.do("POST", list); r.status != 503 || strings.Contains(r.body, "disk") {
		t.Errorf("%d %q", r.status, r.body)
	}
	if !strings.Contains(w.log.String(), "disk I/O error") {
		t.Error("the operator was not told")
	}
}

// A client that stops in the middle of its headers or body does not hold the server.
func TestVanishingClients(t *testing.T) {
	w := newWorld(t, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), transport.Path)
	for _, start := range []string{"", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: 100\r\n\r\n{"} {
		for range 10 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, start)
			_ = conn.Close()
		}
	}
	if r := w.do("POST", list); r.status != 200 {
		t.Errorf("%d", r.status)
	}
}

// Denials are logged at every level, apart from the rest.
func TestSecurityEvents(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.Logger = o.Logger.Level(zerolog.ErrorLevel) })
	w.do("POST", list, "Authorization", "Bearer SECRET")
	w.do("POST", list, "Origin", "https://evil.example")
	w.do("POST", list)
	log := w.log.String()
	for _, want := range []string{`"security":true`, `"message":"denied"`, `"check":"token"`, `"check":"origin"`, `"remote":"127.0.0.1"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if n := strings.Count(log, "\n"); n != 2 {
		t.Errorf("%d events: %s", n, log)
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, nil)
	w.do("POST", list, "Authorization", "")
	w.start("tok-alice")
	w.do("POST", toolCall(1, "exec", m{"session": "pg-alice", "command": "echo SECRET"}, nil))
	w.do("POST", toolCall(1, "exec", m{"session": "x"}, nil))
	w.do("POST", toolCall(1, "evil\nname", m{}, nil))
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			key := f.GetName()
			for _, l := range metric.GetLabel() {
				key += " " + l.GetValue()
			}
			got[key] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	for key, want := range map[string]float64{
		"playground_auth_failures_total": 1, "playground_mcp_sessions": 1, "playground_http_requests_total 401 POST": 1, "playground_http_requests_total 200 POST": 4,
		"playground_tool_call_seconds ok exec": 1, "playground_tool_call_seconds tool_error exec": 1, "playground_tool_call_seconds protocol_error other": 1,
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v (all: %v)", key, got[key], want, got)
		}
	}
}

func TestServerSettings(t *testing.T) {
	s := transport.New(transport.Options{}).Server(http.NotFoundHandler())
	if s.ReadHeaderTimeout <= 0 || s.WriteTimeout != 0 || s.ReadTimeout != 0 || s.IdleTimeout < time.Second {
		t.Errorf("%+v", s)
	}
}
