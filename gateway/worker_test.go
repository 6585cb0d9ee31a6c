package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"playground/gateway"
	"playground/transport"
)

const events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

// chunk is a piece of a chunked body.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

const chunkedEvents = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// hang keeps the connection until the gateway leaves.
func hang(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }

// Whatever a worker does, the client gets an answer, the request is sent once, and the outcome is told.
func TestWorkerMisconduct(t *testing.T) {
	const unknown = "the outcome is unknown and the request was not retried"
	for _, tt := range []struct {
		name    string
		script  func(net.Conn, seen)
		status  int
		body    string // part of it
		outcome gateway.Outcome
		cut     bool // the client sees that the body is not whole
	}{
		{"401", say("%s", answer(401, "secret", "WWW-Authenticate: Bearer")), 502, "did not accept", gateway.Rejected, false},
		{"403", say("%s", answer(403, "secret")), 502, "did not accept", gateway.Rejected, false},
		{"407", say("%s", answer(407, "secret")), 502, "did not accept", gateway.Rejected, false},
		{"301", say("%s", answer(301, "secret", "Location: http://192.0.2.1/")), 502, "did not accept", gateway.Rejected, false},
		{"302", say("%s", answer(302, "secret", "Location: /mcp")), 502, "did not accept", gateway.Rejected, false},
		{"304", say("HTTP/1.1 304 Not Modified\r\n\r\n"), 502, "did not accept", gateway.Rejected, false},
		{"308", say("%s", answer(308, "secret", "Location: //192.0.2.1")), 502, "did not accept", gateway.Rejected, false},
		{"500", say("%s", answer(500, "it broke")), 500, "it broke", gateway.Answered, false},
		{"429", say("%s", answer(429, "slow", "Retry-After: 1")), 429, "slow", gateway.Answered, false},
		{"202", say("HTTP/1.1 202 Accepted\r\n\r\n"), 202, "", gateway.Answered, false},
		{"HTTP/1.0", say("HTTP/1.0 200 OK\r\n\r\nold"), 200, "old", gateway.Answered, false},
		{"leaves", func(net.Conn, seen) {}, 502, unknown, gateway.Broken, false},
		{"leaves in the head", say("HTTP/1.1 200 OK\r\nContent-Ty"), 502, unknown, gateway.Broken, false},
		{"hangs", func(c net.Conn, _ seen) { hang(c) }, 504, unknown, gateway.TimedOut, false},
		{"hangs in the head", func(c net.Conn, _ seen) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n"); hang(c) }, 504, unknown, gateway.TimedOut, false},
		{"hangs in the body", func(c net.Conn, _ seen) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"); hang(c) }, 504, unknown, gateway.TimedOut, false},
		{"leaves in the body", say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), 502, unknown, gateway.Broken, false},
		{"leaves in a chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"), 502, unknown, gateway.Broken, false},
		{"leaves in a large body", say("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n%s", strings.Repeat("x", 40000)), 200, "xxx", gateway.Broken, true},
		{"sends more than announced", say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), 200, "abc", gateway.Answered, false},
		{"answers twice", say("%s%s", answer(200, "one"), answer(200, "two", "Set-Cookie: a=b")), 200, "one", gateway.Answered, false},
		{"two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), 502, unknown, gateway.Broken, false},
		{"negative length", say("HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc"), 502, unknown, gateway.Broken, false},
		{"unknown coding", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"), 502, unknown, gateway.Broken, false},
		{"no HTTP", say("SSH-2.0-OpenSSH\r\n"), 502, unknown, gateway.Broken, false},
		{"HTTP/2", say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 502, unknown, gateway.Broken, false},
		{"bad header", say("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), 502, unknown, gateway.Broken, false},
		{"status 0", say("HTTP/1.1 000 x\r\n\r\n"), 502, unknown, gateway.Broken, false},
		{"status 999", say("HTTP/1.1 999 x\r\n\r\n"), 502, unknown, gateway.Broken, false},
		{"upgrade", say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 502, unknown, gateway.Broken, false},
		{"interim answers", say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n%s", answer(200, "after")), 200, "after", gateway.Answered, false},
		{"interim for ever", func(c net.Conn, _ seen) {
			for err := error(nil); err == nil; {
				_, err = fmt.Fprint(c, "HTTP/1.1 102 Processing\r\n\r\n")
			}
		}, 502, unknown, gateway.Broken, false},
		{"headers for ever", func(c net.Conn, _ seen) {
			_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for err == nil {
				_, err = fmt.Fprintf(c, "X: %s\r\n", strings.Repeat("x", 1000))
			}
		}, 502, unknown, gateway.Broken, false},
		{"one line for ever", func(c net.Conn, _ seen) {
			_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX: ")
			for err == nil {
				_, err = fmt.Fprint(c, strings.Repeat("x", 1000))
			}
		}, 502, unknown, gateway.Broken, false},
		{"announces too much", say("HTTP/1.1 200 OK\r\nContent-Length: 200001\r\n\r\n"), 502, "over the limit", gateway.TooLarge, false},
		{"sends for ever", func(c net.Conn, _ seen) {
			_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
			for err == nil {
				_, err = fmt.Fprint(c, strings.Repeat("x", 1000))
			}
		}, 200, "xxx", gateway.TooLarge, true},
		{"trailers", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Mcp-Session-Id\r\n\r\n3\r\nabc\r\n0\r\nMcp-Session-Id: up-2\r\n\r\n"),
			200, "abc", gateway.Answered, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newWorker(t, tt.script)
			w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) {
				o.AnswerTime, o.ResponseBytes = 2*time.Second, 200_000
				if strings.HasPrefix(tt.name, "hangs") {
					o.AnswerTime = 200 * time.Millisecond
				}
			})
			got := w.do("POST", call, modern...)
			if got.status != tt.status || !strings.Contains(got.body, tt.body) || (got.err != nil) != tt.cut {
				t.Errorf("got %d %.300s %v %v", got.status, got.body, got.header, got.err)
			}
			if got.status > 500 && !strings.Contains(got.body, `"id":"call-1"`) {
				t.Errorf("the answer is nobody's: %s", got.body)
			}
			if tt.body == "abc" && got.body != "abc" || tt.body == "one" && got.body != "one" {
				t.Errorf("body %q", got.body)
			}
			for _, secret := range []string{"secret", "two", internalToken("alice"), up.address().String(), "127.0.0.1"} {
				if strings.Contains(got.body, secret) || strings.Contains(fmt.Sprint(got.header, got.header.Get("Trailer")), secret) {
					t.Errorf("the answer holds %q: %s", secret, got.body)
				}
			}
			if n := len(up.requests()); n != 1 {
				t.Errorf("the worker saw the request %d times", n)
			}
			eventually(t, "it is told", func() bool { return w.last().Outcome != "" })
			if x := w.last(); x.Outcome != tt.outcome || x.Status != tt.status || x.Tenant != "alice" || x.Method != "POST" {
				t.Errorf("told %+v", x)
			}
		})
	}
}

// Idempotent methods are not retried either, and neither is what could not be connected or was reset.
func TestNothingIsRetried(t *testing.T) {
	for _, method := range []string{"POST", "GET", "DELETE"} {
		up := newWorker(t, func(c net.Conn, _ seen) { _ = c.(*net.TCPConn).SetLinger(0) }) // a reset
		w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
		if got := w.do(method, "", "Mcp-Protocol-Version", "2026-07-28"); got.status != 502 || len(up.requests()) != 1 || len(w.dials()) != 1 {
			t.Errorf("%s: %+v, %d requests, %d connections", method, got, len(up.requests()), len(w.dials()))
		}
	}
	var w *world
	w = newWorld(t, map[string]netip.AddrPort{"alice": netip.MustParseAddrPort("127.0.0.1:1")}, func(o *gateway.Options, _ *transport.Options) {
		o.Dial = func(context.Context, string, netip.AddrPort) (gateway.Conn, error) {
			w.dial("")
			return nil, errors.New("connect to 127.0.0.1:1 by token " + internalToken("alice"))
		}
	})
	got := w.do("POST", call, modern...)
	if got.status != 503 || !strings.Contains(got.body, "the request was not sent") || strings.Contains(got.body, "internal-alice") || len(w.dials()) != 1 {
		t.Errorf("%+v, %d connections", got, len(w.dials()))
	}
	if x := w.last(); x.Outcome != gateway.Unreachable || x.Err == nil {
		t.Errorf("told %+v", x)
	}
}

// A worker that answers before it has read a large body is heard.
func TestEarlyAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = bufio.NewReader(c).ReadString('\n')
		fmt.Fprint(c, answer(413, "too much for me"))
		_, _ = io.Copy(io.Discard, c) // or the reset would overtake the answer
	}()
	w := newWorld(t, map[string]netip.AddrPort{"alice": netip.MustParseAddrPort(l.Addr().String())}, nil)
	if got := w.do("POST", `{"x":"`+strings.Repeat("y", 4<<20)+`"}`, modern...); got.status != 413 || got.body != "too much for me" {
		t.Errorf("%+v", got)
	}
	<-done
}

// Events go out when they come, and nothing is added to them.
func TestStreamFlows(t *testing.T) {
	next := make(chan string)
	w, _ := oneWorker(t, func(c net.Conn, _ seen) {
		fmt.Fprint(c, chunkedEvents)
		for text := range next {
			fmt.Fprint(c, chunk(text))
		}
		fmt.Fprint(c, "0\r\n\r\n")
	})
	response, err := w.open(t.Context(), "POST", strings.NewReader(call), modern...)
	if err != nil { // the head is here before any event is
		t.Fatal(err)
	}
	defer response.Body.Close()
	var all string
	for _, piece := range []string{": hi\n\n", "data: {\"a\"", ":1}\r", "\n\r\n", "id: 1\ndata: \xff\x00\n\n", strings.Repeat("x", 20<<10) + "\n\n"} {
		next <- piece
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != piece {
			t.Fatalf("%q, %v; want %q", got, err, piece)
		}
		all += piece
		time.Sleep(25 * time.Millisecond) // longer than the transport's keep-alive would wait
	}
	close(next)
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v came after it", rest, err)
	}
	if x := w.last(); x.Outcome != gateway.Answered {
		t.Errorf("told %+v", x)
	}
}

// When a stream breaks between events, whoever waits for its answer is told in an event; otherwise the connection breaks too.
func TestBrokenStream(t *testing.T) {
	const told = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"call-1\",\"error\":{"
	for _, tt := range []struct {
		name, sent, body string
		hang, cut, told  bool
	}{
		{"nothing yet", "", call, false, false, true},
		{"after an event", "data: 1\n\n", call, false, false, true},
		{"after an event, CRLF", "data: 1\r\n\r\n", call, false, false, true},
		{"after an event, CR", "data: 1\r\r", call, false, false, true},
		{"after a comment", ": 1\n", call, false, false, true},
		{"timed out", "data: 1\n\n", call, true, false, true},
		{"in an event", "data: 1\n", call, false, true, false},
		{"in a line", "data: 1", call, false, true, false},
		{"can be taken up", "id: 7\ndata: 1\n\n", call, false, true, false},
		{"empty id", "id\ndata: 1\n\n", call, false, true, false},
		{"a notification", "data: 1\n\n", `{"jsonrpc":"2.0","method":"x"}`, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newWorker(t, func(c net.Conn, _ seen) {
				fmt.Fprint(c, chunkedEvents)
				if tt.sent != "" {
					fmt.Fprint(c, chunk(tt.sent))
				}
				if tt.hang {
					hang(c)
				}
			})
			w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) {
				if tt.hang {
					o.AnswerTime = 200 * time.Millisecond
				}
			})
			got := w.do("POST", tt.body, modern...)
			rest, ok := strings.CutPrefix(got.body, tt.sent)
			if got.status != 200 || !ok || (got.err != nil) != tt.cut || strings.HasPrefix(rest, told) != tt.told || !tt.told && rest != "" {
				t.Errorf("%d %q %v", got.status, got.body, got.err)
			}
			if tt.told && !strings.Contains(rest, "the outcome is unknown and the request was not retried") {
				t.Errorf("%q", rest)
			}
			if len(up.requests()) != 1 {
				t.Errorf("%d requests", len(up.requests()))
			}
		})
	}
}

// Nothing is added to a stream that a client would have to unpack, or whose length it was told.
func TestBrokenStreamOfOtherForm(t *testing.T) {
	for _, header := range []string{"Content-Encoding: gzip\r\nTransfer-Encoding: chunked", "Content-Length: 100"} {
		w, _ := oneWorker(t, say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%s\r\n\r\n", header))
		if got := w.do("POST", call, modern...); got.status != 200 || got.body != "" || got.err == nil {
			t.Errorf("%s: %+v", header, got)
		}
	}
}

// A stream without a request ends cleanly at its time, so that its client opens another one.
func TestStreamTime(t *testing.T) {
	up := newWorker(t, func(c net.Conn, _ seen) { fmt.Fprint(c, events+"data: 1\n\n"); hang(c) })
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) {
		o.StreamTime, o.AnswerTime = 200*time.Millisecond, time.Hour
	})
	if got := w.do("GET", "", "Mcp-Protocol-Version", "2026-07-28"); got.status != 200 || got.body != "data: 1\n\n" || got.err != nil {
		t.Errorf("%+v", got)
	}
}

// A worker that sends faster than its client reads fills no memory.
func TestFloodIsBounded(t *testing.T) {
	up := newWorker(t, func(c net.Conn, _ seen) {
		_, err := fmt.Fprint(c, events)
		for err == nil {
			_, err = fmt.Fprint(c, "data: "+strings.Repeat("x", 64<<10)+"\n\n")
		}
	})
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) { o.ResponseBytes = 1 << 40 })
	var open []*http.Response
	for range 8 {
		response, err := w.open(t.Context(), "POST", strings.NewReader(call), modern...)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, response)
	}
	for range 20 { // every buffer on the way is full by then
		time.Sleep(10 * time.Millisecond)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("8 streams that nobody reads hold %d bytes", m.HeapAlloc)
	}
	for _, response := range open {
		_ = response.Body.Close()
	}
	eventually(t, "the exchanges end with their clients", func() bool { return w.count(gateway.Left) == 8 })
}

func (w *world) count(o gateway.Outcome) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.exchanges {
		if x.Outcome == o {
			n++
		}
	}
	return n
}

// The environment's proxy is nobody's destination.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	w, _ := oneWorker(t, echo)
	if got := w.do("POST", call, modern...); got.status != 200 {
		t.Errorf("%+v", got)
	}
}
