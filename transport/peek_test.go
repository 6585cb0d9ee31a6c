package transport

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Any body is either classified or refused with a status of 400 and a valid JSON-RPC error.
func FuzzPeek(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `{}`, `[]`, `[{}]`, `5`, `x`, `null`, `"initialize"`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"id":"a","method":5}`, `{"id":{},"method":null}`,
		`{"id":-1.5e3}`, `{"Method":"initialize"}`, "{\"method\":\"\xff\"}", "\xef\xbb\xbf{}", `{"id":1}{`, `[[[[[[[[`, `{"id":null,"id":2}`, `{"method":"\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, refused := peek(body)
		if refused == nil {
			if !json.Valid(body) {
				t.Errorf("%q passed", body)
			}
			refused = &refusal{status: http.StatusBadRequest, message: m.method}
		}
		if refused.status != http.StatusBadRequest {
			t.Errorf("%q: status %d", body, refused.status)
		}
		w := httptest.NewRecorder()
		refused.write(w, m.id)
		var answer struct {
			Version string `json:"jsonrpc"`
			Error   *struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Version != "2.0" || answer.Error == nil {
			t.Errorf("%q: answer %q, %v", body, w.Body, err)
		}
	})
}

// The parsers of headers take anything.
func FuzzHeaders(f *testing.F) {
	f.Add("Bearer x", "*/*", "http://localhost", "localhost:1")
	f.Add("bearer", ",;,", "null", "[::1]")
	f.Add("Bearer  a b", "text/*;q=0", "https://[", "[")
	g := newGuard([]string{"pg.example"}, []string{"https://ui.example"})
	f.Fuzz(func(t *testing.T, authorization, accept, origin, host string) {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = host
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Accept", accept)
		r.Header.Set("Origin", origin)
		if token, ok := bearer(r); ok && token == "" {
			t.Errorf("empty token of %q", authorization)
		}
		_ = accepts(r, "text/event-stream")
		_ = g.host(r)
		if _, ok := g.origin(r); ok && origin == "null" {
			t.Error("null origin passed")
		}
	})
}
