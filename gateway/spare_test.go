package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/gateway"
	"playground/transport"
)

// A connection that waits for a request is used once, and not when its other end has closed it or spoken first.
func TestSpares(t *testing.T) {
	up := newWorker(t, func(c net.Conn, r seen) { fmt.Fprint(c, answer(200, "ok")) })
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, nil)
	const requests = 30
	for range requests {
		if got := w.do("POST", call, modern...); got.status != 200 || got.body != "ok" {
			t.Fatalf("%+v", got)
		}
	}
	if n := len(up.requests()); n != requests {
		t.Errorf("%d requests arrived", n)
	}
	// What waits is closed when nothing comes.
	eventually(t, "nothing waits any more", func() bool {
		up.mu.Lock()
		defer up.mu.Unlock()
		return len(up.open) == 0
	})
	if n := len(w.dials()); n < requests || n > 3*requests {
		t.Errorf("%d connections for %d requests", n, requests)
	}
}

// A worker that serves one connection after another is not held up by one that waits.
func TestSpareWithSerialWorker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				fmt.Fprint(c, answer(200, "ok"))
			}
			_ = c.Close()
		}
	}()
	w := newWorld(t, map[string]netip.AddrPort{"alice": netip.MustParseAddrPort(l.Addr().String())}, nil)
	const requests = 60
	began := time.Now()
	for i := range requests {
		if got := w.do("POST", call, modern...); got.status != 200 {
			t.Fatalf("request %d: %+v", i, got)
		}
	}
	// A second each is what a connection waits for at most.
	if took := time.Since(began); took > requests*time.Second/4 {
		t.Errorf("%d requests took %v", requests, took)
	}
	if err := w.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	<-done
}

// Making a connection in advance costs nobody time, however long it takes: a stream's end does not wait for it, and no exchange is
// said to have taken longer.
func TestSlowSpare(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		whole  bool
	}{
		"whole":  {answer(200, "ok"), true},
		"stream": {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ok\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			up := newWorker(t, say("%s", c.answer))
			asked, hold := make(chan time.Time, 1), make(chan struct{})
			release := sync.OnceFunc(func() { close(hold) })
			defer time.AfterFunc(20*time.Second, release).Stop() // long after anybody should have had to wait
			var w *world
			w = newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) {
				o.Dial = func(_ context.Context, _ string, to netip.AddrPort) (gateway.Conn, error) {
					w.dial("")
					if len(w.dials()) == 3 { // the first two requests have connections of their own
						asked <- time.Now()
						<-hold
					}
					return net.Dial("tcp", to.String())
				}
			})
			began := time.Now()
			for range 2 {
				began = time.Now()
				if got := w.do("POST", call, modern...); got.status != 200 || !strings.Contains(got.body, "ok") {
					t.Fatalf("%+v", got)
				}
			}
			var dialled time.Time
			select {
			case dialled = <-asked:
			case <-time.After(10 * time.Second):
				t.Fatal("nothing was made in advance")
			}
			select {
			case <-hold:
				t.Error("the answer's end waited for the connection")
			default:
			}
			release()
			eventually(t, "both are told", func() bool { return w.told() == 2 })
			if took := w.last().Took; c.whole && took > dialled.Sub(began) {
				t.Errorf("it is said to have taken %v, and had %v", took, dialled.Sub(began))
			}
		})
	}
}

func TestSpoiltSpares(t *testing.T) {
	for name, spoil := range map[string]func(net.Conn){
		"closed": func(c net.Conn) { _ = c.Close() },
		"spoken": func(c net.Conn) { fmt.Fprint(c, answer(200, "poison")) },
	} {
		t.Run(name, func(t *testing.T) {
			up := newWorker(t, func(c net.Conn, r seen) { fmt.Fprint(c, answer(200, "ok")) })
			trap, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			spoilt := make(chan struct{}, 100)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := trap.Accept()
					if err != nil {
						return
					}
					spoil(c)
					spoilt <- struct{}{}
					defer c.Close()
				}
			}()
			defer func() { _ = trap.Close(); <-done }()
			// The first two requests have connections of their own; what is made in advance after them is spoilt.
			var w *world
			w = newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(o *gateway.Options, _ *transport.Options) {
				o.Dial = func(ctx context.Context, _ string, to netip.AddrPort) (gateway.Conn, error) {
					w.dial("")
					if len(w.dials()) == 3 {
						to = netip.MustParseAddrPort(trap.Addr().String())
					}
					var d net.Dialer
					return d.DialContext(ctx, "tcp", to.String())
				}
			})
			for i := range 2 {
				if got := w.do("POST", call, modern...); got.status != 200 {
					t.Fatalf("request %d: %+v", i, got)
				}
			}
			select {
			case <-spoilt:
			case <-time.After(10 * time.Second):
				t.Fatal("nothing was made in advance")
			}
			time.Sleep(20 * time.Millisecond) // until what was sent is there
			if got := w.do("POST", call, modern...); got.status != 200 || got.body != "ok" {
				t.Errorf("%+v", got)
			}
			if n := len(up.requests()); n != 3 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}
