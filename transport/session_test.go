package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/transport"
)

// An id of another tenant, one that was deleted and one that never was: byte for byte the same answer.
func TestForeignSessionIsUnknown(t *testing.T) {
	w := newWorld(t, nil)
	alice, bob, gone := w.start("tok-alice"), w.start("tok-bob"), w.start("tok-alice")
	if r := w.do("DELETE", "", "Mcp-Session-Id", gone); r.status != 204 {
		t.Fatalf("DELETE: %d %q", r.status, r.body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		body := ""
		if method == "POST" {
			body = list
		}
		want := w.do(method, body, "Mcp-Session-Id", "NEVERWAS")
		want.header.Del("Date")
		if want.status != 404 {
			t.Fatalf("%s: %d", method, want.status)
		}
		for name, id := range map[string]string{"foreign": bob, "deleted": gone} {
			got := w.do(method, body, "Mcp-Session-Id", id)
			got.header.Del("Date")
			if got.status != want.status || got.body != want.body || fmt.Sprint(got.header) != fmt.Sprint(want.header) {
				t.Errorf("%s %s: %+v, want %+v", method, name, got, want)
			}
		}
	}
	// Nothing happened to either, and any token of the same tenant will do.
	if r := w.do("POST", list, "Mcp-Session-Id", bob, "Authorization", "Bearer tok-bob"); r.status != 200 {
		t.Errorf("bob: %d %q", r.status, r.body)
	}
	if r := w.do("POST", list, "Mcp-Session-Id", alice, "Authorization", "Bearer tok-alice-2"); r.status != 200 {
		t.Errorf("alice: %d %q", r.status, r.body)
	}
}

func TestDeleteEndsCalls(t *testing.T) {
	w := newWorld(t, nil)
	id := w.start("tok-alice")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = w.try(t.Context(), "POST", w.url, strings.NewReader(toolCall(2, "exec", m{"session": "pg-alice", "command": "sleep 30"}, nil)), "Mcp-Session-Id", id)
	})
	eventually(t, "the command ran", func() bool { return len(w.jobs.Specs()) == 1 })
	start := time.Now()
	if r := w.do("DELETE", "", "Mcp-Session-Id", id); r.status != 204 {
		t.Errorf("%d %q", r.status, r.body)
	}
	wg.Wait()
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestSessionLimit(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.SessionsPerTenant = 5 })
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	refused := 0
	for range 20 {
		wg.Go(func() {
			r, err := w.try(t.Context(), "POST", w.url, strings.NewReader(initialize))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && r.status == 200:
				ids[r.header.Get("Mcp-Session-Id")] = true
			case err == nil && r.status == 429 && strings.Contains(r.body, `"id":1,`) && r.header.Get("Retry-After") != "":
				refused++
			default:
				t.Errorf("%d %q %v", r.status, r.body, err)
			}
		})
	}
	wg.Wait()
	if len(ids) != 5 || refused != 15 {
		t.Fatalf("%d sessions, %d refused", len(ids), refused)
	}
	w.start("tok-bob") // the limit is each tenant's own
	for id := range ids {
		w.do("DELETE", "", "Mcp-Session-Id", id)
		break
	}
	eventually(t, "a place was free", func() bool { return w.do("POST", initialize).status == 200 })
	// A failed initialize holds no place.
	w.do("DELETE", "", "Mcp-Session-Id", w.start("tok-bob"))
	for range 10 {
		w.do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, "Authorization", "Bearer tok-bob")
		w.do("POST", `{"jsonrpc":"2.0","method":"initialize","params":{}}`, "Authorization", "Bearer tok-bob")
	}
	w.start("tok-bob")
}

func TestIdleSessionsExpire(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.SessionIdle = 100 * time.Millisecond })
	id, streamed := w.start("tok-alice"), w.start("tok-alice")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response, err := w.open(ctx, "GET", w.url, nil, "Mcp-Session-Id", streamed)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for range 8 { // in use, it stays
		time.Sleep(30 * time.Millisecond)
		if r := w.do("POST", list, "Mcp-Session-Id", id); r.status != 200 {
			t.Fatalf("%d %q", r.status, r.body)
		}
	}
	if r := w.do("POST", toolCall(1, "exec", m{"session": "pg-alice", "command": "sleep 0.3"}, nil), "Mcp-Session-Id", id); !strings.Contains(r.body, "exit 0") {
		t.Errorf("long call: %q", r.body)
	}
	time.Sleep(300 * time.Millisecond)
	if r := w.do("POST", list, "Mcp-Session-Id", id); r.status != 404 || !strings.Contains(r.body, "session not found") {
		t.Errorf("idle: %d %q", r.status, r.body)
	}
	// An open stream is a use.
	if r := w.do("POST", list, "Mcp-Session-Id", streamed); r.status != 200 {
		t.Errorf("with a stream: %d", r.status)
	}
}

// Shutdown is quick although a stream and a call are open, and the clients see an end.
func TestShutdown(t *testing.T) {
	w := newWorld(t, nil)
	id := w.start("tok-alice")
	response, err := w.open(t.Context(), "GET", w.url, nil, "Mcp-Session-Id", id)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("GET: %v", err)
	}
	defer response.Body.Close()
	var wg sync.WaitGroup
	headers, meta := modern("exec")
	for _, h := range [][]string{{"Mcp-Session-Id", id}, nil, headers} {
		wg.Go(func() {
			use := meta
			if len(h) < 3 {
				use = nil
			}
			_, _ = w.try(t.Context(), "POST", w.url, strings.NewReader(toolCall(5, "exec", m{"session": "pg-alice", "command": "sleep 30"}, use)), h...)
		})
	}
	eventually(t, "three commands ran", func() bool { return len(w.jobs.Specs()) == 3 })
	start := time.Now()
	if err := w.transport.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v", took)
	}
	for scan := bufio.NewScanner(response.Body); scan.Scan(); {
		continue
	}
	wg.Wait()
	if _, err := w.try(t.Context(), "POST", w.url, strings.NewReader(list)); err == nil {
		t.Error("it still serves")
	}
}

func TestRequestsAfterShutdown(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.transport.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.do("POST", list); r.status != http.StatusServiceUnavailable {
		t.Errorf("%d %q", r.status, r.body)
	}
}

// A revoked token ends with the next request; Forget ends what is open too, and only of that tenant.
func TestRevocationAndForget(t *testing.T) {
	w := newWorld(t, nil)
	id, bob := w.start("tok-alice"), w.start("tok-bob")
	response, err := w.open(t.Context(), "GET", w.url, nil, "Mcp-Session-Id", id)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("GET: %v", err)
	}
	defer response.Body.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = w.try(t.Context(), "POST", w.url, strings.NewReader(toolCall(5, "exec", m{"session": "pg-alice", "command": "sleep 30"}, nil)), "Mcp-Session-Id", id)
	})
	eventually(t, "the command ran", func() bool { return len(w.jobs.Specs()) == 1 })
	w.revoke("tok-alice")
	if r := w.do("POST", list, "Mcp-Session-Id", id); r.status != 401 {
		t.Errorf("revoked: %d", r.status)
	}
	w.transport.Forget("alice")
	w.transport.Forget("nobody")
	for scan := bufio.NewScanner(response.Body); scan.Scan(); {
		continue // until the stream ends
	}
	wg.Wait()
	if r := w.do("POST", list, "Mcp-Session-Id", id, "Authorization", "Bearer tok-alice-2"); r.status != 404 {
		t.Errorf("forgotten session: %d", r.status)
	}
	if r := w.do("POST", list, "Authorization", "Bearer tok-alice-2"); r.status != 200 {
		t.Errorf("new request: %d", r.status)
	}
	if r := w.do("POST", list, "Mcp-Session-Id", bob, "Authorization", "Bearer tok-bob"); r.status != 200 {
		t.Errorf("the other tenant: %d", r.status)
	}
}

// The identity is the request's, however a session was opened before on the same connection.
func TestIdentityIsTheRequests(t *testing.T) {
	w := newWorld(t, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		token, session := "tok-alice", "pg-alice"
		if i%2 == 1 {
			token, session = "tok-bob", "pg-bob"
		}
		wg.Go(func() {
			r := w.do("POST", toolCall(i, "exec", m{"session": session, "command": "echo $HOME"}, nil), "Authorization", "Bearer "+token)
			if !strings.Contains(r.body, "/"+strings.TrimPrefix(session, "pg-")+`\n`) {
				t.Errorf("%s: %q", token, r.body)
			}
		})
	}
	wg.Wait()
}
