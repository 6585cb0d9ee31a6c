package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/version"
)

// A client is one tenant's MCP client: the official Go SDK's, as any agent would use it.
type client struct {
	name    string
	session *mcp.ClientSession
	t       *transcript
}

// bearer adds the tenant's token to every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(request)
}

// connect opens an MCP connection over transport.
func connect(ctx context.Context, t *transcript, name string, transport mcp.Transport) (*client, error) {
	began := time.Now()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "playground-demo", Version: version.String()},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).Connect(ctx, transport, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot connect %s: %w", name, err)
	}
	result := session.InitializeResult()
	if result != nil && result.ServerInfo != nil {
		t.answered(fmt.Sprintf("connected to %s %s, MCP %s", result.ServerInfo.Name, result.ServerInfo.Version, result.ProtocolVersion), time.Since(began))
	}
	return &client{name: name, session: session, t: t}, nil
}

// overHTTP returns a transport to the suite's endpoint.
func overHTTP(endpoint, token string) (mcp.Transport, *http.Transport) {
	base := &http.Transport{}
	return &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer{token, base}}}, base
}

// An answer is one tool result in the forms the checks need.
type answer struct {
	text    string
	isError bool
	blob    []byte
	fields  json.RawMessage // structuredContent
}

// into decodes the structured content; a missing field stays zero and a check then says what is wrong.
func (a answer) into(v any) { _ = json.Unmarshal(a.fields, v) }

// call calls a tool and shows both directions.
func (c *client) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	c.t.asked(c.name, tool+" "+brief(args))
	began := time.Now()
	a, err := c.quiet(ctx, tool, args)
	if err != nil {
		return a, err
	}
	shown := a.text
	if a.isError {
		shown = c.t.paint(gold, "refused: ") + shown
	}
	if shown == "" && a.blob != nil {
		shown = fmt.Sprintf("[%d bytes]", len(a.blob))
	}
	c.t.answered(shown, time.Since(began))
	return a, nil
}

// quiet calls a tool and shows nothing.
func (c *client) quiet(ctx context.Context, tool string, args map[string]any) (answer, error) {
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return answer{}, fmt.Errorf("cannot call %s: %w", tool, err)
	}
	a := answer{isError: result.IsError}
	var text []string
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			text = append(text, content.Text)
		case *mcp.ImageContent:
			a.blob = content.Data
		case *mcp.EmbeddedResource:
			a.blob = content.Resource.Blob
		}
	}
	a.text = strings.Join(text, "\n")
	a.fields, err = json.Marshal(result.StructuredContent)
	return a, err
}

// brief shows arguments on one line.
func brief(args map[string]any) string {
	var parts []string
	for name, value := range args {
		text := fmt.Sprint(value)
		if s, ok := value.(string); ok {
			text = fmt.Sprintf("%q", s)
			if name == "command" {
				text = s
			}
		}
		if len(text) > 150 {
			text = text[:100] + fmt.Sprintf("... (%d bytes)", len(text))
		}
		parts = append(parts, name+"="+text)
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}
