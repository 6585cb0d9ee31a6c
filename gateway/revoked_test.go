package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"playground/fault"
	"playground/gateway"
	"playground/transport"
)

// A request whose token is revoked while its body comes does not reach the worker.
func TestRevokedWhileTheBodyComes(t *testing.T) {
	up := newWorker(t, echo)
	var revoked atomic.Bool
	w := newWorld(t, map[string]netip.AddrPort{"alice": up.address()}, func(_ *gateway.Options, o *transport.Options) {
		o.Authenticate = func(ctx context.Context, token string) (string, string, error) {
			if revoked.Load() {
				return "", "", fault.New(fault.Denied, "no such token")
			}
			return authenticate(ctx, token)
		}
	})
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Protocol-Version: 2026-07-28\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(call))
	head := make([]byte, 25) // 100 Continue: its body is being read
	if _, err := io.ReadFull(c, head); err != nil || !strings.Contains(string(head), "100 Continue") {
		t.Fatal(string(head), err)
	}
	revoked.Store(true)
	w.gateway.Forget("alice")
	fmt.Fprint(c, call)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(up.requests()); n != 0 || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
		t.Errorf("the worker saw %d requests; the answer is %s", n, answer)
	}
}
