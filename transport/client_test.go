package transport_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/transport"
)

var eras = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The official client, over loopback HTTP, in every version.
func TestOfficialClient(t *testing.T) {
	w := newWorld(t, nil)
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			progress := make(chan string, 100)
			c := w.connect("tok-alice", version, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
			})
			if got := c.InitializeResult().ProtocolVersion; got != version {
				t.Fatalf("version %q", got)
			}
			if stateful := c.ID() != ""; stateful != (version < "2026") {
				t.Errorf("session id %q", c.ID())
			}
			if list, err := c.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 8 || version >= "2026" && list.CacheScope != "private" {
				t.Fatalf("tools: %+v, %v", list, err)
			}
			if _, err := c.ListPrompts(t.Context(), nil); err == nil {
				t.Error("prompts are listed")
			}
			params := &mcp.CallToolParams{Name: "exec", Arguments: m{"session": "pg-alice", "command": "sleep 0.2; echo hi"}}
			params.SetProgressToken("p")
			if r, err := c.CallTool(t.Context(), params); err != nil || r.IsError || !strings.HasSuffix(text(r), "\nhi\n") {
				t.Errorf("exec: %+v, %v", r, err)
			}
			if len(progress) == 0 {
				t.Error("no progress")
			}
			data := make([]byte, 3<<20)
			if version < "2025-11-25" {
				data = data[:1000] // the race detector makes large bodies slow
			}
			_, _ = rand.Read(data)
			if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: m{"session": "pg-alice", "path": "f", "base64": base64.StdEncoding.EncodeToString(data)}}); err != nil || r.IsError {
				t.Fatalf("write: %+v, %v", r, err)
			}
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: m{"session": "pg-alice", "path": "f"}})
			if err != nil || r.IsError || !bytes.Equal(r.Content[0].(*mcp.EmbeddedResource).Resource.Blob, data) {
				t.Fatalf("3 MiB did not come back: %v", err)
			}
			if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: m{"session": "pg-bob", "command": "true"}}); err != nil || !strings.HasPrefix(text(r), "unknown session") {
				t.Errorf("foreign session: %q, %v", text(r), err)
			}
			if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "rm"}); err == nil {
				t.Error("an unknown tool answered")
			}
		})
	}
}

// A client of the newest version that goes away ends its command.
func TestDisconnectCancels(t *testing.T) {
	w := newWorld(t, nil)
	headers, meta := modern("exec")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() {
		_, _ = w.try(ctx, "POST", w.url, strings.NewReader(toolCall(1, "exec", m{"session": "pg-alice", "command": "sleep 30"}, meta)), headers...)
	})
	eventually(t, "the command ran", func() bool { return len(w.jobs.Specs()) == 1 })
	time.Sleep(50 * time.Millisecond)
	cancel()
	wg.Wait()
	eventually(t, "the call was cancelled", func() bool { return strings.Contains(w.log.String(), `"outcome":"cancelled"`) })
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// An older client that goes away does not, but can cancel with a notification in its session.
func TestCancelledNotification(t *testing.T) {
	w := newWorld(t, nil)
	c := w.connect("tok-alice", "2025-11-25", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: m{"session": "pg-alice", "command": "sleep 30"}})
	})
	eventually(t, "the command ran", func() bool { return len(w.jobs.Specs()) == 1 })
	cancel() // the client sends notifications/cancelled
	wg.Wait()
	eventually(t, "the call was cancelled", func() bool { return strings.Contains(w.log.String(), `"outcome":"cancelled"`) })

	// Over raw HTTP: the connection breaks, the command goes on to its end.
	id := w.start("tok-alice")
	ctx, cancel = context.WithCancel(t.Context())
	wg.Go(func() {
		_, _ = w.try(ctx, "POST", w.url, strings.NewReader(toolCall(7, "exec", m{"session": "pg-alice", "command": "sleep 0.5; echo done > f"}, nil)), "Mcp-Session-Id", id)
	})
	eventually(t, "the command ran", func() bool { return len(w.jobs.Specs()) == 2 })
	cancel()
	wg.Wait()
	eventually(t, "the call ended well", func() bool { return strings.Contains(w.log.String(), `"outcome":"ok"`) })
}

func TestThousandPolls(t *testing.T) {
	w := newWorld(t, nil)
	c := w.connect("tok-alice", "", nil)
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "job_exec", Arguments: m{"session": "pg-alice", "command": "sleep 1; echo news"}})
	if err != nil || r.IsError {
		t.Fatalf("job_exec: %v %v", r, err)
	}
	id := r.StructuredContent.(m)["job_id"].(string)
	headers, meta := modern("job_poll")
	var wg sync.WaitGroup
	failed := make(chan string, 1000)
	for i := range 1000 {
		wg.Go(func() {
			r, err := w.try(t.Context(), "POST", w.url, strings.NewReader(toolCall(i, "job_poll", m{"job_id": id, "wait_ms": 20000}, meta)), headers...)
			if err != nil || r.status != 200 || !strings.Contains(r.body, "news") {
				failed <- r.body
			}
		})
	}
	wg.Wait()
	if n := len(failed); n > 0 {
		t.Errorf("%d polls failed, the first with %q", n, <-failed)
	}
}

// A tool that is silent for long sends comments in both eras, and the answer is still whole.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t, func(o *transport.Options) { o.PingEvery = 20 * time.Millisecond })
	headers, meta := modern("exec")
	session := w.start("tok-alice")
	for name, h := range map[string][]string{"modern": headers, "stateful": {"Mcp-Session-Id", session}, "legacy stateless": nil} {
		use := meta
		if name != "modern" {
			use = m{"progressToken": "x"} // events between the comments
		}
		for range 2 {
			r := w.do("POST", toolCall(3, "exec", m{"session": "pg-alice", "command": "sleep 0.2; echo fin"}, use), h...)
			if r.status != 200 || strings.Count(r.body, ": keep-alive\n\n") < 3 || !strings.Contains(r.body, `fin\n`) || r.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: %d %v %q", name, r.status, r.header, r.body)
			}
		}
	}
	// The protocol's own error statuses are not spoilt by comments.
	if r := w.do("POST", toolCall(4, "none", m{}, meta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "none"); r.status != 400 || !strings.Contains(r.body, "-32602") {
		t.Errorf("unknown tool: %d %q", r.status, r.body)
	}
	// The stream of a session has them too.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r, _ := w.try(ctx, "GET", w.url, nil, "Mcp-Session-Id", session)
	if strings.Count(r.body, ": keep-alive\n\n") < 3 {
		t.Errorf("GET: %d %q", r.status, r.body)
	}
}
