package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"playground/gateway"
)

// Session ids may be as short as one letter, which is then a part of many honest headers.
func TestShortSessionIDs(t *testing.T) {
	for _, id := range []string{"a", "1", "json"} {
		w, up := oneWorker(t, func(c net.Conn, r seen) {
			fmt.Fprint(c, answer(200, `{"ok":1}`, jsonType+"; charset=utf-8; v=1", "Mcp-Session-Id: "+id, "Mcp-Same: "+id, "Mcp-Token: x"+internalToken("alice")))
		})
		session := w.start()
		got := w.do("POST", list, "Mcp-Session-Id", session)
		if got.header.Get("Content-Type") != "application/json; charset=utf-8; v=1" || got.header.Get("Mcp-Session-Id") != session {
			t.Errorf("id %q: %+v", id, got)
		}
		if got.header.Get("Mcp-Same") != "" || got.header.Get("Mcp-Token") != "" {
			t.Errorf("id %q: a secret came through: %v", id, got.header)
		}
		if requests := up.requests(); requests[1].header.Get("Mcp-Session-Id") != id {
			t.Errorf("id %q: the worker saw %v", id, requests[1].header)
		}
	}
}

// All tenants share one URL. A cache in front that a worker talks into keeping an answer would give it to the others (RFC 9111 section
// 3.5: only these directives let it keep the answer to a request with Authorization).
func TestSharedCaches(t *testing.T) {
	for value, passes := range map[string]bool{
		"no-store": true, "no-cache, no-transform": true, "private, max-age=60": true, "": true,
		"public": false, "max-age=60, Public": false, "s-maxage=9": false, "S-MaxAge = 9": false, "must-revalidate": false, "no-cache,\tpublic": false,
		`public="x"`: false,
	} {
		w, _ := oneWorker(t, say("%s", answer(200, "{}", jsonType, "Cache-Control: "+value, "Cache-Control: no-transform")))
		got := w.do("GET", "", "Mcp-Protocol-Version", "2026-07-28")
		want := ""
		if passes {
			want = value + "|no-transform"
		}
		if joined := strings.Join(got.header.Values("Cache-Control"), "|"); joined != want {
			t.Errorf("%q: the client got %q", value, joined)
		}
	}
}

// A worker knows its own token, but what it says of itself is shown to the operator.
func TestHide(t *testing.T) {
	w, _ := oneWorker(t, echo)
	if got := w.gateway.Hide("alice", "bad token "+internalToken("alice")+"!"); got != "bad token [token]!" {
		t.Errorf("%q", got)
	}
	if got := w.gateway.Hide("carol", "as it is"); got != "as it is" {
		t.Errorf("%q", got)
	}
}

// What a check reads of a worker is bounded, and the bound is told as what it is.
func TestRoundTripBound(t *testing.T) {
	w, _ := oneWorker(t, say("HTTP/1.1 200 OK\r\n\r\n%s", strings.Repeat("x", 5<<20)))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://worker.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.gateway.RoundTripper("alice").RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var n int
	for buffer := make([]byte, 64<<10); err == nil; {
		var more int
		more, err = response.Body.Read(buffer)
		n += more
	}
	if n != 4<<20 || !strings.Contains(err.Error(), "the answer is over the limit") {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// To many servers an underscore in a header's name is a hyphen (RFC 3875 section 4.1.18). Names that would then be the gateway's to set
// do not pass; others are the tool's own.
func TestUnderscoresInNames(t *testing.T) {
	w, up := oneWorker(t, echo)
	session := w.start()
	got := w.do("POST", list, "Mcp-Session-Id", session, "Mcp-Session_id", "up-of-another", "Mcp-Protocol_version", "2026-07-28", "Mcp-Param-User_id", "7")
	if got.status != 200 {
		t.Fatalf("%+v", got)
	}
	saw := up.requests()[1]
	if strings.Contains(saw.head, "up-of-another") || strings.Contains(saw.head, "2026-07-28") || saw.header.Get("Mcp-Param-User_id") != "7" ||
		saw.header.Get("Mcp-Session-Id") != "up-1" {
		t.Errorf("the worker saw %s", saw.head)
	}
}

// FuzzAnswer: whatever bytes a worker sends, the client gets an HTTP answer without a redirect, a cookie or a secret in its head, or an
// end in the middle.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		answer(200, "{}", jsonType, "Mcp-Session-Id: up-1"), answer(404, "", "Set-Cookie: a=b", "Location: /x"), "HTTP/1.1 100 Continue\r\n\r\n" + answer(202, ""),
		chunkedEvents + chunk("data: 1\n\n") + "0\r\nMcp-Session-Id: x\r\n\r\n", "HTTP/1.0 200 OK\r\nMcp-X: up-1\r\n y\r\n\r\nold", "HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n", "HTTP/1.1 200 OK\nMcp-Session-Id : up-2\n\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	m := manifest(f, map[string]netip.AddrPort{"alice": netip.MustParseAddrPort("127.0.0.1:9001")})
	f.Fuzz(func(t *testing.T, text string, begins bool) {
		g := gateway.New(gateway.Options{Manifest: m, ResponseBytes: 1 << 16, Dial: func(context.Context, string, netip.AddrPort) (gateway.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				r, err := http.ReadRequest(bufio.NewReader(theirs))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(theirs, strings.ReplaceAll(text, "TOKEN", internalToken("alice")))
			}()
			return ours, nil
		}})
		defer func() { _ = g.Shutdown(t.Context()) }()
		body := call
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		if begins {
			body = initialize
		} else {
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		}
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
					panic(cause)
				}
			}()
			g.Serve(w, r, "alice", []byte(body))
		}()
		for name, values := range w.Header() {
			joined := strings.Join(values, " ")
			if strings.Contains(joined, internalToken("alice")) || slices.Contains([]string{"Set-Cookie", "Location", "Www-Authenticate", "Trailer"}, name) {
				t.Errorf("the client got %s: %q", name, joined)
			}
		}
		if w.Code < 200 || w.Code/100 == 3 || w.Code > 599 {
			t.Errorf("status %d", w.Code)
		}
		if id := w.Header().Get("Mcp-Session-Id"); id != "" && (!begins || len(id) != 52 || g.Sessions() != 1) {
			t.Errorf("session %q of %d", id, g.Sessions())
		}
	})
}

// What a worker says instead of an answer is in no log: it may be a token, or what its client sent.
func TestNoWordOfAWorkerIsTold(t *testing.T) {
	secret := internalToken("alice")
	for _, text := range []string{
		secret + "\r\n\r\n",
		"HTTP/1.1 " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\na\r\n0\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + secret + "\r\n\r\n",
	} {
		up := newWorker(t, say("%s", text))
		w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
		w.do("POST", call, modern...)
		eventually(t, "it is told", func() bool { return w.last().Outcome != "" })
		if x := w.last(); x.Err == nil || strings.Contains(x.Err.Error(), secret) {
			t.Errorf("%.60q: told %.200v", text, x.Err)
		}
	}
}
