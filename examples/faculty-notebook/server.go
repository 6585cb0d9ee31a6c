package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// statelessVersion is the first protocol version without sessions. Versions are dates, so they compare as strings.
const statelessVersion = "2026-07-28"

// handler serves MCP at /mcp to callers that show the token, in both eras of the protocol.
func handler(notes *notebook, token string) http.Handler {
	server := newServer(notes)
	get := func(*http.Request) *mcp.Server { return server }
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{SessionTimeout: time.Hour})
	single := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	want := sha256.Sum256([]byte(token))
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(bearer))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		if r.Header.Get("Mcp-Protocol-Version") >= statelessVersion {
			single.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
	return mux
}

type (
	addInput struct {
		Text string   `json:"text" jsonschema:"the note, at most 64 KiB of plain text"`
		Tags []string `json:"tags,omitempty" jsonschema:"words to find it by, without spaces"`
	}
	addOutput struct {
		Hash string `json:"hash" jsonschema:"BLAKE3 of the note in the pile"`
	}
	searchInput struct {
		Query string `json:"query" jsonschema:"words that a note must hold, all of them; empty finds every note"`
		Limit int    `json:"limit,omitempty" jsonschema:"the most notes to return, 1 to 100, 20 if left out"`
	}
	searchOutput struct {
		Notes []note `json:"notes" jsonschema:"newest first"`
		Total int    `json:"total" jsonschema:"how many matched"`
	}
)

func newServer(notes *notebook) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "faculty-notebook", Version: "1.0.0"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // nil would announce logging, which there is none of
		// Whoever caches an answer must not show it to another tenant.
		SetCacheable: func(_ context.Context, _ mcp.Request, cacheable *mcp.Cacheable) { cacheable.CacheScope = "private" },
	})
	mcp.AddTool(server, &mcp.Tool{
		Name: "append_note", Description: "Appends a note to this tenant's pile. It stays: nothing in a pile is changed or removed.",
	}, func(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
		hash, err := notes.add(in.Text, in.Tags)
		if err != nil {
			return nil, addOutput{}, err
		}
		return say("noted as %s", hash), addOutput{hash}, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name: "search_notes", Description: "Finds notes in this tenant's pile, newest first.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, searchOutput, error) {
		found, total, err := notes.search(in.Query, in.Limit)
		if err != nil {
			return nil, searchOutput{}, err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%d notes, %d shown\n", total, len(found))
		for _, one := range found {
			fmt.Fprintf(&text, "%s %s\n", one.At.Format(time.RFC3339), one.Text)
		}
		return say("%s", text.String()), searchOutput{found, total}, nil
	})
	return server
}

func say(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
