package transport_test

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Pages of output that nobody takes are as large as files when they are text with control characters. They are bounded, polls that
// wait for a place hold none, and none is lost.
func TestUnreadPagesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	started := w.do(http.MethodPost, toolCall(1, "job_exec", m{"session": "pg-alice", "command": `head -c 262144 /dev/zero | tr '\0' '\001'; sleep 100`}, nil))
	id := regexp.MustCompile(`job-[0-9a-z]+`).FindString(started.body)
	if started.status != http.StatusOK || id == "" {
		t.Fatalf("%d %s", started.status, started.body)
	}
	poll := toolCall(2, "job_poll", m{"job_id": id, "wait_ms": 1000}, nil)
	whole := func(body string) bool { return strings.Count(body, `\u0001`) >= 262144 }
	eventually(t, "the whole page is there", func() bool { return whole(w.do(http.MethodPost, poll).body) })
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for range 300 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		conns = append(conns, conn)
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\n"+
			"Accept: */*\r\nContent-Length: %d\r\n\r\n%s", len(poll), poll)
	}
	// Until all of them were looked at; a slow machine makes this test prove less, not fail.
	time.Sleep(3 * time.Second)
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	if now.HeapAlloc > 150<<20 {
		t.Errorf("300 answers that nobody takes hold %d MiB", now.HeapAlloc>>20)
	}
	// Neither the other tenant nor alice's small requests wait for them.
	for tenant, token := range map[string]string{"bob": "tok-bob", "alice": "tok-alice"} {
		began := time.Now()
		got := w.do(http.MethodPost, toolCall(3, "exec", m{"session": "pg-" + tenant, "command": "echo still here"}, nil), "Authorization", "Bearer "+token)
		if !strings.Contains(got.body, "still here") {
			t.Errorf("%s: %d %.200s", tenant, got.status, got.body)
		}
		t.Logf("%s had an answer after %v", tenant, time.Since(began))
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	// Every place comes back, and the page is still there.
	eventually(t, "the page is served again", func() bool { return whole(w.do(http.MethodPost, poll).body) })
}
