// Package mcpclient is what the programs that try a running suite share: the official SDK's client with a tenant's token, and a
// tool's result in the forms that checks need. The service itself does not use it.
package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Bearer adds a token to every request.
type Bearer struct {
	Token string
	Next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b Bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.Token)
	return b.Next.RoundTrip(request)
}

// An Answer is one tool result.
type Answer struct {
	Text    string // all text content, a line end between two
	IsError bool
	Blob    []byte          // of an image or a resource
	Fields  json.RawMessage // structuredContent
}

// Into decodes the structured content; a missing field stays zero and a check then says what is wrong.
func (a Answer) Into(v any) { _ = json.Unmarshal(a.Fields, v) }

// Call calls a tool. A refusal by the tool is an Answer; the error is that of a call that did not come to one.
func Call(ctx context.Context, session *mcp.ClientSession, tool string, args map[string]any) (Answer, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return Answer{}, fmt.Errorf("cannot call %s: %w", tool, err)
	}
	a := Answer{IsError: result.IsError}
	var text []string
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			text = append(text, content.Text)
		case *mcp.ImageContent:
			a.Blob = content.Data
		case *mcp.EmbeddedResource:
			a.Blob = content.Resource.Blob
		}
	}
	a.Text = strings.Join(text, "\n")
	a.Fields, err = json.Marshal(result.StructuredContent)
	return a, err
}
