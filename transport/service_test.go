package transport_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/transport"
)

// A fakeService keeps what it was asked.
type fakeService struct {
	mu   sync.Mutex
	seen []string
}

func (f *fakeService) see(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, text)
}

func (f *fakeService) Serve(w http.ResponseWriter, r *http.Request, tenant string, body []byte) {
	f.see(r.Method + " " + tenant + " " + string(body))
	switch {
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(100 * time.Millisecond) // several times as long as a keep-alive comment would wait
		_, _ = io.WriteString(w, "data: 2\n\n")
	case string(body) == "refuse":
		transport.Refuse(w, []byte("7"), http.StatusTeapot, "no tea", "boil water")
	case string(body) == "abort":
		panic(http.ErrAbortHandler)
	default:
		transport.RefuseSession(w, nil)
	}
}

func (f *fakeService) Sessions() int                  { return 5 }
func (f *fakeService) Forget(tenant string)           { f.see("forget " + tenant) }
func (f *fakeService) Shutdown(context.Context) error { f.see("shutdown"); return nil }

// A service in the place of the tools gets requests that are checked and whole, and nothing is added to its answers.
func TestService(t *testing.T) {
	service := &fakeService{}
	w := newWorld(t, func(o *transport.Options) {
		o.Service, o.PingEvery, o.BodyBytes = service, 10*time.Millisecond, 1000
		o.Catalogue = func(string) *mcp.Server { t.Error("the tools were asked for"); return nil }
	})
	for _, tt := range []struct {
		method, body, token string
		status              int
		want                string
	}{
		{"POST", "anything \xff", "tok-alice", 404, "session not found"},
		{"POST", "refuse", "tok-bob", 418, `"id":7,"error":{"code":-32000,"message":"no tea","data":{"hint":"boil water"}}`},
		{"GET", "", "tok-alice", 200, "data: 1\n\ndata: 2\n\n"},
		{"DELETE", "", "tok-alice", 404, "session not found"},
		{"POST", strings.Repeat("x", 1001), "tok-alice", 413, "over the limit of 1000 bytes"},
		{"POST", "x", "wrong", 401, "bearer token"},
		{"PUT", "x", "tok-alice", 405, "method not allowed"},
	} {
		got := w.do(tt.method, tt.body, "Authorization", "Bearer "+tt.token, "Content-Type", "text/plain", "Accept", "")
		if got.status != tt.status || !strings.Contains(got.body, tt.want) || tt.method == "GET" && got.body != tt.want {
			t.Errorf("%s %.20q: %d %q", tt.method, tt.body, got.status, got.body)
		}
	}
	if _, err := w.try(t.Context(), "POST", w.url, strings.NewReader("abort")); err == nil {
		t.Error("a broken answer looks whole")
	}
	w.transport.Forget("alice")
	if err := w.transport.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := w.do("POST", "late"); got.status != 503 {
		t.Errorf("after the end: %+v", got)
	}
	want := []string{"POST alice anything \xff", "POST bob refuse", "GET alice ", "DELETE alice ", "POST alice abort", "forget alice", "shutdown"}
	service.mu.Lock()
	defer service.mu.Unlock()
	if !slices.Equal(service.seen, want) {
		t.Errorf("seen %q, want %q", service.seen, want)
	}
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "playground_mcp_sessions" && f.GetMetric()[0].GetGauge().GetValue() != 5 {
			t.Errorf("sessions: %v", f)
		}
	}
}
