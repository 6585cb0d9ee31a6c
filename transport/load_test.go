package transport_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// stall opens connections that announce a large body of alice's and send all of it but the last byte.
func stall(t *testing.T, w *world, n, size int) (closeAll func()) {
	t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	body := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("a", size)
	var conns []net.Conn
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)) // what nobody reads does not go out
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\n"+
			"Accept: */*\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	}
	return func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

func TestStalledBodiesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	const size = 4 << 20
	closeAll := stall(t, w, 60, size)
	defer closeAll()
	runtime.GC()
	var m0 runtime.MemStats
	runtime.ReadMemStats(&m0)
	// 16 places, and what the other connections have sent before they were made to wait.
	if most := uint64(16*(size+size/4) + 60<<20/2); m0.HeapAlloc > most {
		t.Errorf("60 stalled bodies of %d bytes hold %d bytes; at most %d were expected", size, m0.HeapAlloc, most)
	}
	// Neither the other tenant nor alice's own small requests have to wait.
	big := toolCall(7, "exec", m{"session": "pg-bob", "command": "wc -c", "stdin": strings.Repeat("x", 1<<20)}, nil)
	if got := w.do(http.MethodPost, big, "Authorization", "Bearer tok-bob"); got.status != http.StatusOK || !strings.Contains(got.body, "1048576") {
		t.Errorf("another tenant's large request: %d %.200s", got.status, got.body)
	}
	small := toolCall(8, "exec", m{"session": "pg-alice", "command": "echo still here"}, nil)
	if got := w.do(http.MethodPost, small); got.status != http.StatusOK || !strings.Contains(got.body, "still here") {
		t.Errorf("the tenant's own small request: %d %.200s", got.status, got.body)
	}
	// Every place comes back.
	closeAll()
	eventually(t, "the places are given back", func() bool {
		done := make(chan bool, 20)
		for range 20 {
			go func() {
				got := w.do(http.MethodPost, strings.ReplaceAll(big, "pg-bob", "pg-alice"))
				done <- got.status == http.StatusOK
			}()
		}
		for range 20 {
			if !<-done {
				return false
			}
		}
		return true
	})
}

func TestUnreadFilesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	made := toolCall(1, "exec", m{"session": "pg-alice", "command": "head -c 3000000 /dev/zero >big"}, nil)
	if got := w.do(http.MethodPost, made); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	body := toolCall(2, "read", m{"session": "pg-alice", "path": "big"}, nil)
	for range 40 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\n"+
			"Accept: */*\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	time.Sleep(time.Second)
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	if now.HeapAlloc > 250<<20 {
		t.Errorf("40 answers that nobody takes hold %d bytes", now.HeapAlloc)
	}
}

// Each call of a batch has an answer of its own, and a page of output is as large as a file, so that a batch is a large request.
func TestBatchesAreLarge(t *testing.T) {
	w := newWorld(t, nil)
	started := w.do(http.MethodPost, toolCall(1, "job_exec", m{"session": "pg-alice", "command": "sleep 100"}, nil))
	id := regexp.MustCompile(`job-[0-9a-z]+`).FindString(started.body)
	if started.status != http.StatusOK || id == "" {
		t.Fatalf("%d %s", started.status, started.body)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	send := func(body string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice\r\nContent-Type: application/json\r\n"+
			"Accept: */*\r\nMcp-Protocol-Version: 2025-03-26\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return conn
	}
	for range 8 {
		send("[" + toolCall(2, "job_poll", m{"job_id": id, "wait_ms": 20000}, nil) + "]")
	}
	var late net.Conn
	eventually(t, "a ninth batch waits", func() bool { // the others need a moment to have their places
		late = send("[" + toolCall(4, "exec", m{"session": "pg-alice", "command": "echo it is served"}, nil) + "]")
		_ = late.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, err := late.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	})
	if got := w.do(http.MethodPost, toolCall(5, "exec", m{"session": "pg-alice", "command": "echo small"}, nil)); !strings.Contains(got.body, "small") {
		t.Errorf("the tenant's own small request: %d %.200s", got.status, got.body)
	}
	w.do(http.MethodPost, toolCall(3, "job_cancel", m{"job_id": id}, nil)) // upon which all polls are answered
	_ = late.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer, err := http.ReadResponse(bufio.NewReader(late), nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the ninth batch: %v %v", answer, err)
	}
}
