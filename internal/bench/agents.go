package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An agent is one tenant's MCP client.
type agent struct {
	client  *mcp.ClientSession
	session string
}

type agents []agent

// bearer adds a token to every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// connect makes tenants and opens a session of each.
func (b *bench) connect(ctx context.Context, count int) (agents, error) {
	var all agents
	for i := range count {
		out, err := exec.CommandContext(ctx, b.path("playground"), "-c", b.suite.ConfigPath, "-o", "json", "user", "create", fmt.Sprintf("tenant%c", 'a'+i)).Output()
		if err != nil {
			return nil, fmt.Errorf("cannot make a tenant: %w", err)
		}
		var created struct{ Token string }
		if err := json.Unmarshal(out, &created); err != nil {
			return nil, err
		}
		transport := &mcp.StreamableClientTransport{Endpoint: "http://" + b.suite.Config.HTTP.Listen + "/mcp", DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: bearer{created.Token, &http.Transport{MaxIdleConnsPerHost: 64}}}}
		client, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			return nil, err
		}
		a := agent{client: client}
		var opened struct{ Session string }
		if err := a.call(ctx, &opened, "open_session", map[string]any{}); err != nil {
			return nil, err
		}
		a.session = opened.Session
		all = append(all, a)
	}
	return all, nil
}

func (all agents) close() {
	for _, a := range all {
		_ = a.client.Close() // the suite stops next
	}
}

// call calls a tool and decodes its structured answer.
func (a agent) call(ctx context.Context, v any, tool string, args map[string]any) error {
	result, err := a.client.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return fmt.Errorf("cannot call %s: %w", tool, err)
	}
	if result.IsError {
		text, _ := json.Marshal(result.Content)
		return fmt.Errorf("%s was refused: %s", tool, text)
	}
	if v == nil {
		return nil
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// exec is one round trip, login shell and all.
func (all agents) exec(ctx context.Context, worker int) error {
	a := all[worker%len(all)]
	return a.call(ctx, nil, "exec", map[string]any{"session": a.session, "command": "true"})
}

// stream runs a job that writes as fast as it can, polls it, and returns MB of output a second.
func (a agent) stream(ctx context.Context) (float64, error) {
	var started struct {
		JobID string `json:"job_id"`
	}
	// A file in memory and cat: the producer must cost less than what is measured.
	err := a.call(ctx, nil, "exec", map[string]any{"session": a.session, "command": "yes 0123456789abcdef0123456789abcdef | head -c 64000000 >big"})
	if err != nil {
		return 0, err
	}
	err = a.call(ctx, &started, "job_exec", map[string]any{"session": a.session, "command": "cat" + strings.Repeat(" big", 32)})
	if err != nil {
		return 0, err
	}
	var p struct {
		Next   json.Number `json:"next_cursor"`
		Result *struct {
			StdoutBytes int64 `json:"stdout_bytes"`
			DurationMS  int64 `json:"duration_ms"`
		}
	}
	p.Next = "0"
	for p.Result == nil {
		if err := a.call(ctx, &p, "job_poll", map[string]any{"job_id": started.JobID, "cursor": p.Next, "wait_ms": 1000}); err != nil {
			return 0, err
		}
	}
	return float64(p.Result.StdoutBytes) / 1e6 / (float64(p.Result.DurationMS) / 1e3), nil
}

// busy returns the resident memory with eight jobs of each of four tenants.
func (all agents) busy(ctx context.Context) (float64, error) {
	for i := range 32 {
		a := all[i%len(all)]
		if err := a.call(ctx, nil, "job_exec", map[string]any{"session": a.session, "command": "sleep 60"}); err != nil {
			return 0, err
		}
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return memory(os.Getpid()), nil
}
