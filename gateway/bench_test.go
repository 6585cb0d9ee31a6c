package gateway_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// BenchmarkForward is one request through transport and gateway to a worker and back, on one connection of the client's.
func BenchmarkForward(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	answer := strings.Repeat("x", 1500)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-done }()
	w := newWorld(b, map[string]netip.AddrPort{"alice": netip.MustParseAddrPort(l.Addr().String())}, nil)
	for _, way := range []struct {
		name string
		w    *world
	}{{"direct", &world{t: b, url: "http://" + l.Addr().String() + "/mcp", http: w.http}}, {"gateway", w}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := way.w.do("POST", call, modern...); got.status != 200 || len(got.body) != len(answer) {
					b.Fatal(got)
				}
			}
		})
	}
}
