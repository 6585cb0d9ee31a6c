package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"playground/gateway"
	"playground/transport"
)

func oneWorker(t *testing.T, script func(net.Conn, seen)) (*world, *worker) {
	t.Helper()
	up := newWorker(t, script)
	return newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil), up
}

// What passes, and what does not, in both directions.
func TestBytesAndHeaders(t *testing.T) {
	odd := "{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890123,\"x\":\"\xff\\ud800 <&>\", \"method\" :\"m\"}\r\n\t "
	w, up := oneWorker(t, func(c net.Conn, r seen) {
		fmt.Fprint(c, answer(418, r.body, jsonType+"; charset=x", "Mcp-Anything: yes", "Cache-Control: no-store", "Set-Cookie: a=b", "Location: http://x/",
			"WWW-Authenticate: Basic", "Server: s", "X-Accel-Redirect: /etc/passwd", "Access-Control-Allow-Origin: *", "Retry-After: 3",
			"Mcp-Session-Id: up-9", "Mcp-Secret: x"+internalToken("alice"), "Mcp-Other: up-9!", "Connection: Mcp-Hop", "Mcp-Hop: 1", "X-Accel-Buffering: no"))
	})
	got := w.do("POST", odd, append(modern, "Cookie", "c=d", "Mcp-Param-Region", "eu \xe4", "Mcp-Session-Id", "up-9", "X-Forwarded-For", "1.2.3.4",
		"Proxy-Authorization", "Basic x", "Last-Event-Id", "e1", "Te", "trailers", "User-Agent", "secret-agent", "Forwarded", "host=evil", "Host", "localhost")...)
	if got.status != 418 || got.body != odd {
		t.Fatalf("%+v", got)
	}
	for name, want := range map[string]string{"Content-Type": "application/json; charset=x", "Mcp-Anything": "yes", "Cache-Control": "no-store",
		"Retry-After": "3", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff", "Content-Length": fmt.Sprint(len(odd))} {
		if got.header.Get(name) != want {
			t.Errorf("the client got %s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	for _, name := range []string{"Set-Cookie", "Location", "Www-Authenticate", "Server", "X-Accel-Redirect", "Access-Control-Allow-Origin",
		"Mcp-Session-Id", "Mcp-Secret", "Mcp-Other", "Mcp-Hop"} {
		if v, ok := got.header[name]; ok {
			t.Errorf("the client got %s: %q", name, v)
		}
	}
	request := up.requests()[0]
	want := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + internalToken("alice")}, "Connection": {"close"},
		"Content-Length": {fmt.Sprint(len(odd))}, "Content-Type": {"application/json"}, "Last-Event-Id": {"e1"}, "Mcp-Method": {"tools/call"},
		"Mcp-Name": {"x"}, "Mcp-Param-Region": {"eu \xe4"}, "Mcp-Protocol-Version": {"2026-07-28"}, "User-Agent": {"playground"},
	}
	if diff := cmp.Diff(want, request.header); diff != "" {
		t.Errorf("the worker got (-want +got):\n%s", diff)
	}
	if request.uri != "/mcp" || request.host != up.address().String() || request.method != "POST" || request.body != odd {
		t.Errorf("the worker got %+v", request)
	}
}

// Nothing of a client's request chooses where it goes.
func TestNoChosenTarget(t *testing.T) {
	w, up := oneWorker(t, echo)
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	rest := "Authorization: Bearer tok-alice\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nConnection: close\r\nContent-Length: " +
		fmt.Sprint(len(list)) + "\r\n\r\n" + list
	for _, line := range []string{
		"POST /mcp?target=http://192.0.2.1/ HTTP/1.1\r\nHost: localhost", "POST http://192.0.2.1:81/mcp HTTP/1.1\r\nHost: " + address,
		"POST http://" + address + "/mcp HTTP/1.1\r\nHost: 192.0.2.1", "POST //192.0.2.1/mcp HTTP/1.1\r\nHost: localhost",
		"POST /mcp/../x HTTP/1.1\r\nHost: localhost", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: 192.0.2.1\r\nX-Original-URL: /admin",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Param-Host: 192.0.2.1:80",
	} {
		w.raw(line + "\r\n" + rest)
	}
	for _, got := range w.dials() {
		if got != "alice "+up.address().String() {
			t.Errorf("dialled %s", got)
		}
	}
	requests := up.requests()
	for _, r := range requests {
		if r.uri != "/mcp" || r.host != up.address().String() {
			t.Errorf("%+v", r)
		}
	}
	if len(requests) == 0 {
		t.Error("no request came through at all")
	}
}

func TestTenantWithoutWorker(t *testing.T) {
	w, up := oneWorker(t, echo)
	got := w.do("POST", initialize, "Authorization", "Bearer tok-carol")
	if got.status != 503 || !strings.Contains(got.body, "no worker is configured") || len(up.requests()) != 0 {
		t.Errorf("%+v, %d requests", got, len(up.requests()))
	}
}

func TestCompressedBodiesPass(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(list))
	_ = z.Close()
	w, up := oneWorker(t, func(c net.Conn, r seen) { fmt.Fprint(c, answer(200, r.body, jsonType, "Content-Encoding: gzip")) })
	got := w.do("POST", packed.String(), append(modern, "Content-Encoding", "gzip", "Accept-Encoding", "gzip")...)
	if got.body != packed.String() || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d %q", got.status, got.body)
	}
	r := up.requests()[0]
	if r.body != packed.String() || r.header.Get("Content-Encoding") != "gzip" || r.header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("%+v", r)
	}
	// Nobody asks for compression on behalf of the client.
	w.do("POST", list, modern...)
	if got := up.requests()[1].header.Get("Accept-Encoding"); got != "" {
		t.Errorf("Accept-Encoding: %q", got)
	}
}

func TestAmbiguousHeadersAreRefused(t *testing.T) {
	w, up := oneWorker(t, echo)
	const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\n"
	body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(list), list)
	for _, extra := range []string{
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Session-Id: a\r\nMcp-Session-Id: b\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Protocol-Version: 2025-11-25\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: a\r\nmcp-method: b\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nConnection: Mcp-Protocol-Version\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nConnection: close, authorization\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n",
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Name : a\r\n",                     // space before the colon
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Name: a\x00b\r\n",                 // NUL
		"Mcp-Protocol-Version: 2026-07-28\r\nContent-Length: 5\r\n",                // two lengths
		"Mcp-Protocol-Version: 2026-07-28\r\nTransfer-Encoding: chunked, gzip\r\n", // unknown framing
		"Mcp-Protocol-Version: 2026-07-28\r\nTransfer-Encoding : chunked\r\n",
	} {
		got := w.raw(head + extra + body)
		if !strings.HasPrefix(got, "400 ") && !strings.HasPrefix(got, "501 ") {
			t.Errorf("%q: %.200q", extra, got)
		}
	}
	if got := up.requests(); len(got) != 0 {
		t.Errorf("the worker got %+v", got)
	}
}

// Whatever framing a client chose, the worker sees one request with one length.
func TestSmuggling(t *testing.T) {
	w, up := oneWorker(t, echo)
	inner := "POST /admin HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nMcp-Protocol-Version: 2026-07-28\r\nConnection: close\r\n"
	w.raw(head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + inner)
	w.raw(head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner))
	w.raw(head + "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n2\r\n{}\r\n0\r\nAuthorization: Bearer evil\r\nMcp-Session-Id: up-1\r\n\r\n")
	w.raw(head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
	w.raw(head + "Mcp-Name: a\r\n Authorization: evil\r\nContent-Length: 2\r\n\r\n{}") // obsolete folding
	for _, r := range up.requests() {
		if r.uri != "/mcp" || r.header.Get("Authorization") != "Bearer "+internalToken("alice") || r.header.Get("Transfer-Encoding") != "" ||
			r.header.Get("Expect") != "" || r.header.Get("Trailer") != "" || strings.Count(r.head, "HTTP/1.1") != 1 {
			t.Errorf("the worker got %+v", r)
		}
	}
	if n := len(up.requests()); n < 4 {
		t.Errorf("the worker got %d requests", n)
	}
}

// The face to the network is that of the sandbox service: same checks, same texts, same log.
func TestGuardIsTheSame(t *testing.T) {
	type denial struct {
		Status          int
		Body, Challenge string
	}
	cases := [][]string{
		{"Host", "evil.example"}, {"Origin", "http://evil.example"}, {"Authorization", ""}, {"Authorization", "Bearer wrong"},
		{"Authorization", "Basic dG9r"}, {"Authorization", "Bearer " + internalToken("alice")},
	}
	all := map[string][]denial{}
	logs := map[string]string{}
	up := newWorker(t, echo)
	for _, kind := range []string{"workers", "sandboxes"} {
		w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
		if kind == "sandboxes" {
			w.serve(transport.New(transport.Options{Authenticate: authenticate, Logger: zerolog.New(w.security),
				Catalogue: func(string) *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "x"}, nil) }}))
		}
		for _, headers := range cases {
			got := w.do("POST", initialize, headers...)
			all[kind] = append(all[kind], denial{got.status, got.body, got.header.Get("Www-Authenticate")})
		}
		got := w.do("PUT", "", "Host", "localhost")
		all[kind] = append(all[kind], denial{got.status, got.body, got.header.Get("Allow")})
		got = w.do("OPTIONS", "", "Authorization", "")
		all[kind] = append(all[kind], denial{got.status, got.body, got.header.Get("Allow")})
		logs[kind] = w.security.String()
	}
	if diff := cmp.Diff(all["sandboxes"], all["workers"]); diff != "" {
		t.Errorf("denials differ (-sandboxes +workers):\n%s", diff)
	}
	for i, want := range []int{403, 403, 401, 401, 401, 401, 405, 204} {
		if all["workers"][i].Status != want {
			t.Errorf("case %d: %+v", i, all["workers"][i])
		}
	}
	if logs["workers"] != logs["sandboxes"] || strings.Count(logs["workers"], `"security":true`) != 6 {
		t.Errorf("logs differ:\n%s\n%s", logs["workers"], logs["sandboxes"])
	}
	if got := up.requests(); len(got) != 0 {
		t.Errorf("the worker got %+v", got)
	}
}

func TestRequestIsBounded(t *testing.T) {
	up := newWorker(t, echo)
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(_ *gateway.Options, o *transport.Options) { o.BodyBytes = 100 << 10 })
	fits := `{"x":"` + strings.Repeat("y", 90<<10) + `"}`
	if got := w.do("POST", fits, modern...); got.status != 200 || up.requests()[0].body != fits {
		t.Errorf("%d", got.status)
	}
	if got := w.do("POST", fits+strings.Repeat(" ", 10<<10), modern...); got.status != 413 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := len(up.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestExchangesAreBounded(t *testing.T) {
	free := make(chan struct{})
	up := newWorker(t, func(c net.Conn, r seen) {
		if r.method == "GET" {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
		}
		<-free
		echo(c, r)
	})
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address(), "bob": newWorker(t, echo).address()}, func(o *gateway.Options, _ *transport.Options) {
		o.ExchangesPerTenant, o.SessionsPerTenant = 3, 2
	})
	results := make(chan reply, 10)
	for range 3 {
		go func() { results <- w.do("POST", call, modern...) }()
	}
	eventually(t, "three requests run", func() bool { return len(up.requests()) == 3 })
	got := w.do("POST", call, modern...)
	if got.status != 429 || !strings.Contains(got.body, `"id":"call-1"`) || !strings.Contains(got.body, "too many requests") {
		t.Errorf("%+v", got)
	}
	// Streams have places of their own, and so has the other tenant.
	for i := range 3 {
		response, err := w.open(t.Context(), "GET", http.NoBody, "Mcp-Protocol-Version", "2026-07-28")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if want := []int{200, 200, 429}[i]; response.StatusCode != want {
			t.Errorf("stream %d: %d", i, response.StatusCode)
		}
	}
	if got := w.do("POST", call, append(modern, "Authorization", "Bearer tok-bob")...); got.status != 200 {
		t.Errorf("%+v", got)
	}
	close(free)
	for range 3 {
		if got := <-results; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
	eventually(t, "places are given back", func() bool { return w.do("POST", call, modern...).status == 200 })
}

func TestHostIsBounded(t *testing.T) {
	free := make(chan struct{})
	up := newWorker(t, func(c net.Conn, r seen) { <-free; echo(c, r) })
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address(), "bob": newWorker(t, echo).address()}, func(o *gateway.Options, _ *transport.Options) {
		o.ExchangesPerHost = 1
	})
	done := make(chan reply)
	go func() { done <- w.do("POST", call, modern...) }()
	eventually(t, "it runs", func() bool { return len(up.requests()) == 1 })
	if got := w.do("POST", call, append(modern, "Authorization", "Bearer tok-bob")...); got.status != 429 {
		t.Errorf("%+v", got)
	}
	close(free)
	<-done
}

func TestForgetAndShutdown(t *testing.T) {
	up := newWorker(t, func(c net.Conn, r seen) {
		if strings.Contains(r.body, "initialize") {
			echo(c, r)
			return
		}
		_, _ = c.Read(make([]byte, 1)) // until the gateway leaves
	})
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
	id := w.start()
	done := make(chan reply)
	go func() { done <- w.do("POST", call, "Mcp-Session-Id", id) }()
	eventually(t, "it runs", func() bool { return len(up.requests()) == 2 })
	w.gateway.Forget("alice")
	if got := <-done; got.status != 503 || !strings.Contains(got.body, "outcome is unknown and the request was not retried") {
		t.Errorf("%+v", got)
	}
	if got := w.do("POST", call, "Mcp-Session-Id", id); got.status != 404 || w.gateway.Sessions() != 0 {
		t.Errorf("%+v, %d sessions", got, w.gateway.Sessions())
	}
	w.start() // with a good token it begins anew
	if err := w.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := w.do("POST", initialize); got.status != 503 || !strings.Contains(got.body, "shutting down") {
		t.Errorf("%+v", got)
	}
}

func TestClientLeaving(t *testing.T) {
	left := make(chan struct{})
	w, _ := oneWorker(t, func(c net.Conn, _ seen) {
		_, _ = c.Read(make([]byte, 1)) // fails when the other end closes
		close(left)
	})
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nMcp-Protocol-Version: 2026-07-28\r\nContent-Length: %d\r\n\r\n%s", len(list), list)
	time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() })
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the exchange goes on without its client")
	}
	eventually(t, "it is told", func() bool { return w.last().Outcome == gateway.Left })
}
