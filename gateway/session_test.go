package gateway_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"playground/gateway"
	"playground/transport"
)

func TestSessions(t *testing.T) {
	upA, upB := newWorker(t, echo), newWorker(t, echo)
	w := newWorld(t, map[string]netip.AddrPort{"alice": upA.address(), "bob": upB.address()}, nil)
	alice := w.start()
	if strings.Contains(alice, "up-1") || len(alice) < 32 {
		t.Errorf("public id %q", alice)
	}
	if got := upA.requests()[0].header["Mcp-Session-Id"]; got != nil {
		t.Errorf("initialize went up with session %q", got)
	}
	got := w.do("POST", list, "Mcp-Session-Id", alice, "Mcp-Protocol-Version", "2025-11-25")
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != alice {
		t.Errorf("%+v", got)
	}
	if r := upA.requests()[1]; r.header.Get("Mcp-Session-Id") != "up-1" || r.header.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("%+v", r)
	}
	bob := w.start("Authorization", "Bearer tok-bob")
	if bob == alice {
		t.Error("two sessions have one id")
	}
	// Foreign, unknown and the worker's own id: one answer, and no worker hears of it.
	before := len(upA.requests()) + len(upB.requests())
	var answers []string
	for _, id := range []string{bob, "unknown", "up-1", strings.ToLower(alice), alice + "x", strings.Repeat("a", 4000)} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			got := w.do(method, list, "Mcp-Session-Id", id)
			if got.status != 404 {
				t.Errorf("%s %.40s: %+v", method, id, got)
			}
			if method == "POST" {
				answers = append(answers, got.body)
			}
		}
	}
	for _, a := range answers {
		if a != answers[0] || !strings.Contains(a, "session not found") {
			t.Errorf("answers differ: %s and %s", a, answers[0])
		}
	}
	if n := len(upA.requests()) + len(upB.requests()); n != before {
		t.Errorf("workers heard of %d requests in sessions that are not theirs", n-before)
	}
	if w.do("POST", list, "Mcp-Session-Id", bob, "Authorization", "Bearer tok-bob").status != 200 {
		t.Error("bob's session was touched")
	}
}

func TestNoSession(t *testing.T) {
	w, up := oneWorker(t, echo)
	for _, body := range []string{list, "", "[" + initialize + "]", `{"Method":"initialize"}`, `{"method":"initialize"`, "\xff"} {
		if got := w.do("POST", body); got.status != 400 || !strings.Contains(got.body, "a session is required") {
			t.Errorf("%s: %+v", body, got)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if got := w.do(method, ""); got.status != 400 {
			t.Errorf("%s: %+v", method, got)
		}
	}
	if n := len(up.requests()); n != 0 {
		t.Errorf("the worker got %d requests", n)
	}
}

// From 2026-07-28 on requests pass without a session, and one that is sent is not looked at and goes nowhere.
func TestModernPasses(t *testing.T) {
	w, up := oneWorker(t, echo)
	public := w.start()
	got := w.do("POST", call, append(modern, "Mcp-Session-Id", public)...)
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%+v", got)
	}
	if r := up.requests()[1]; r.header.Get("Mcp-Session-Id") != "" || r.header.Get("Mcp-Name") != "x" {
		t.Errorf("%+v", r)
	}
	if w.gateway.Sessions() != 1 {
		t.Errorf("%d sessions", w.gateway.Sessions())
	}
	// A worker that keeps a session for an initialize of any version gets one that is counted.
	if got := w.do("POST", initialize, modern...); got.header.Get("Mcp-Session-Id") == "" || w.gateway.Sessions() != 2 {
		t.Errorf("%+v, %d sessions", got, w.gateway.Sessions())
	}
	if got := w.do("POST", strings.Replace(initialize, `"initialize"`, `"\u0069nitialize"`, 1)); got.header.Get("Mcp-Session-Id") == "" || w.gateway.Sessions() != 3 {
		t.Errorf("a method with an escape: %+v", got)
	}
	if got := w.do("GET", "", "Mcp-Protocol-Version", "2026-07-28"); got.status != 200 || up.requests()[4].method != "GET" {
		t.Errorf("%+v", got)
	}
}

func TestUpstream404DropsTheSession(t *testing.T) {
	var gone atomic.Bool
	w, up := oneWorker(t, func(c net.Conn, r seen) {
		if gone.Load() {
			fmt.Fprint(c, answer(404, `{"gone":true}`, jsonType))
			return
		}
		echo(c, r)
	})
	id, other := w.start(), w.start()
	gone.Store(true)
	if got := w.do("POST", list, "Mcp-Session-Id", id); got.status != 404 || got.body != `{"gone":true}` {
		t.Errorf("%+v", got)
	}
	n := len(up.requests())
	if got := w.do("POST", list, "Mcp-Session-Id", id); got.status != 404 || len(up.requests()) != n || w.gateway.Sessions() != 1 {
		t.Errorf("%+v, %d requests, %d sessions", got, len(up.requests()), w.gateway.Sessions())
	}
	// Without a session a 404 is an answer as any other.
	if got := w.do("POST", call, modern...); got.status != 404 || w.gateway.Sessions() != 1 {
		t.Errorf("%+v", got)
	}
	gone.Store(false)
	if got := w.do("POST", list, "Mcp-Session-Id", other); got.status != 200 {
		t.Errorf("the other session: %+v", got)
	}
}

func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		status int
		stays  bool
	}{
		{"200", answer(200, ""), 200, false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", 204, false},
		{"404", answer(404, "x"), 404, false},
		{"refused", answer(405, ""), 405, true},
		{"broken", "", 502, false},
		{"failed", answer(500, "no"), 500, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newWorker(t, func(c net.Conn, r seen) {
				switch r.method {
				case "DELETE":
					fmt.Fprint(c, tt.answer)
				case "GET":
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
					_, _ = c.Read(make([]byte, 1))
				default:
					echo(c, r)
				}
			})
			w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
			id := w.start()
			stream, err := w.open(t.Context(), "GET", http.NoBody, "Mcp-Session-Id", id)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			got := w.do("DELETE", "", "Mcp-Session-Id", id)
			if got.status != tt.status {
				t.Errorf("%+v", got)
			}
			if r := up.requests()[2]; r.method != "DELETE" || r.header.Get("Mcp-Session-Id") != "up-1" {
				t.Errorf("%+v", r)
			}
			if tt.stays {
				if w.do("POST", list, "Mcp-Session-Id", id).status != 200 {
					t.Error("a session that its worker does not end is gone")
				}
				return
			}
			if w.gateway.Sessions() != 0 || w.do("POST", list, "Mcp-Session-Id", id).status != 404 {
				t.Error("the session is still known")
			}
			buf := make([]byte, 64)
			for err = nil; err == nil; _, err = stream.Body.Read(buf) { // its stream ends
			}
		})
	}
}

func TestWorkerWithoutSessions(t *testing.T) {
	w, up := oneWorker(t, func(c net.Conn, r seen) { fmt.Fprint(c, answer(200, "{}", jsonType)) })
	id := w.start()
	if got := w.do("POST", list, "Mcp-Session-Id", id); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if got := up.requests()[1].header["Mcp-Session-Id"]; got != nil {
		t.Errorf("the worker got session %q", got)
	}
	if got := w.do("DELETE", "", "Mcp-Session-Id", id); got.status != 204 || len(up.requests()) != 2 || w.gateway.Sessions() != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	upA, upB := newWorker(t, echo), newWorker(t, echo)
	w := newWorld(t, map[string]netip.AddrPort{"alice": upA.address(), "bob": upB.address()}, func(o *gateway.Options, _ *transport.Options) {
		o.SessionsPerTenant, o.SessionsPerHost = 2, 3
	})
	first := w.start()
	w.start()
	got := w.do("POST", initialize)
	if got.status != 429 || got.header.Get("Retry-After") != "60" || !strings.Contains(got.body, "too many open sessions") || !strings.Contains(got.body, `"id":1`) {
		t.Errorf("%+v", got)
	}
	w.start("Authorization", "Bearer tok-bob")
	if got := w.do("POST", initialize, "Authorization", "Bearer tok-bob"); got.status != 429 {
		t.Errorf("over the host's bound: %+v", got)
	}
	if n := len(upA.requests()) + len(upB.requests()); n != 3 {
		t.Errorf("workers got %d initialize requests", n)
	}
	w.do("DELETE", "", "Mcp-Session-Id", first)
	w.start()
}

// What never became a session holds no place.
func TestFailedInitialize(t *testing.T) {
	var script atomic.Value
	script.Store(say("%s", answer(500, "no")))
	up := newWorker(t, func(c net.Conn, r seen) { script.Load().(func(net.Conn, seen))(c, r) })
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) { o.SessionsPerTenant = 1 })
	for name, s := range map[string]func(net.Conn, seen){
		"status 500":    say("%s", answer(500, "no")),
		"broken":        func(net.Conn, seen) {},
		"cut off":       say("HTTP/1.1 200 OK\r\nMcp-Session-Id: up-1\r\nContent-Length: 10\r\n\r\nabc"),
		"two ids":       say("%s", answer(200, "{}", "Mcp-Session-Id: a", "Mcp-Session-Id: b")),
		"empty id":      say("%s", answer(200, "{}", "Mcp-Session-Id: ")),
		"space in id":   say("%s", answer(200, "{}", "Mcp-Session-Id: a b")),
		"long id":       say("%s", answer(200, "{}", "Mcp-Session-Id: "+strings.Repeat("a", 1025))),
		"not ASCII id":  say("%s", answer(200, "{}", "Mcp-Session-Id: \xc3\xa4")),
		"unauthorized":  say("%s", answer(401, "no")),
		"redirect":      say("%s", answer(307, "", "Location: http://192.0.2.1/")),
		"no protocol":   say("hello\r\n\r\n"),
		"two ids later": say("%s", answer(200, "{}", "Mcp-Session-Id: a, b c")),
	} {
		script.Store(s)
		got := w.do("POST", initialize)
		if got.status != 502 && name != "status 500" || got.header.Get("Mcp-Session-Id") != "" || w.gateway.Sessions() != 0 {
			t.Errorf("%s: %+v, %d sessions", name, got, w.gateway.Sessions())
		}
	}
	script.Store(echo)
	w.start()
}

func TestIdleSessionsExpire(t *testing.T) {
	up := newWorker(t, func(c net.Conn, r seen) {
		if r.method == "GET" {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
			_, _ = c.Read(make([]byte, 1))
			return
		}
		echo(c, r)
	})
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) { o.SessionIdle = 300 * time.Millisecond })
	idle, used := w.start(), w.start()
	stream, err := w.open(t.Context(), "GET", http.NoBody, "Mcp-Session-Id", used)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	eventually(t, "an idle session ends", func() bool { return w.gateway.Sessions() == 1 })
	if w.do("POST", list, "Mcp-Session-Id", idle).status != 404 || w.do("POST", list, "Mcp-Session-Id", used).status != 200 {
		t.Error("the wrong session ended: an open stream is a use")
	}
	_ = stream.Body.Close()
	eventually(t, "the other one ends too", func() bool { return w.gateway.Sessions() == 0 })
}
