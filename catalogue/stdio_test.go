package catalogue_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/catalogue"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
)

// Over stdio, in both eras, the end of input ends the calls and gives the handles back.
func TestServe(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			jails := &sandboxtest.Jails{Prefix: "pg"}
			jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
			provider := sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg"})
			serverIn, clientOut := io.Pipe()
			clientIn, serverOut := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- catalogue.Serve(t.Context(), provider, "alice", catalogue.Options{}, serverIn, serverOut)
				_ = serverOut.Close()
			}()
			c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: clientIn, Writer: clientOut},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "open_session"}); err != nil || r.IsError {
					t.Fatalf("open: %v, %v", r, err)
				}
			}
			big := strings.Repeat("x", 3<<20)
			if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: m{"session": "pg-alice", "path": "f", "text": big}}); err != nil || r.IsError {
				t.Fatalf("write: %v, %v", r, err)
			}
			called := make(chan struct{})
			go func() {
				defer close(called)
				_, _ = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: m{"session": "pg-alice", "command": "sleep 30"}})
			}()
			for len(jobs.Specs()) < 2 {
				time.Sleep(5 * time.Millisecond)
			}
			_ = clientOut.Close() // what a client that exits does
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Serve: %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("it did not end")
			}
			if n := jails.Handles("alice"); n != 0 {
				t.Errorf("%d handles left", n)
			}
			<-called
			_ = c.Close()
		})
	}
}

func TestServeEndsWithContext(t *testing.T) {
	jails := &sandboxtest.Jails{Prefix: "pg"}
	jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
	provider := sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg"})
	ctx, cancel := context.WithCancel(t.Context())
	in, clientOut := io.Pipe()
	defer clientOut.Close()
	ended := make(chan error, 1)
	go func() { ended <- catalogue.Serve(ctx, provider, "alice", catalogue.Options{}, in, io.Discard) }()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}`
	_, _ = io.WriteString(clientOut, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open_session","arguments":{},`+meta+"}}\n")
	for jails.Handles("alice") == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	_, _ = io.WriteString(clientOut, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"session":"pg-alice","command":"sleep 30"},`+meta+"}}\n")
	for len(jobs.Specs()) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil || jails.Handles("alice") != 0 {
			t.Errorf("Serve: %v, %d handles", err, jails.Handles("alice"))
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it did not end")
	}
}

// Requests piped in are answered although the input has ended.
func TestServePipedRequests(t *testing.T) {
	jobs := &sandboxtest.Jobs{Root: t.TempDir()}
	provider := sandbox.New(&sandboxtest.Jails{Prefix: "pg"}, jobs, sandbox.Options{Prefix: "pg"})
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"session":"pg-alice","command":"sleep 0.1; echo hi"}}}
{"jsonrpc":"2.0","id":3,"method":"nonsense"}
`
	var out bytes.Buffer
	if err := catalogue.Serve(t.Context(), provider, "alice", catalogue.Options{}, io.NopCloser(strings.NewReader(in)), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":1`, `"id":2`, `"id":3`, `\nhi\n`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	out.Reset()
	bad := io.NopCloser(strings.NewReader("not json\n"))
	if err := catalogue.Serve(t.Context(), provider, "alice", catalogue.Options{}, bad, &out); err == nil {
		t.Error("nonsense ended without an error")
	}
}
