package demo

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/mcpclient"
	"playground/version"
)

// A client is one tenant's MCP client: the official Go SDK's, as any agent would use it.
type client struct {
	name    string
	session *mcp.ClientSession
	t       *transcript
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
	return &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: mcpclient.Bearer{Token: token, Next: base}}}, base
}

// call calls a tool and shows both directions.
func (c *client) call(ctx context.Context, tool string, args map[string]any) (mcpclient.Answer, error) {
	c.t.asked(c.name, tool+" "+brief(args))
	began := time.Now()
	a, err := c.quiet(ctx, tool, args)
	if err != nil {
		return a, err
	}
	shown := a.Text
	if a.IsError {
		shown = c.t.paint(gold, "refused: ") + shown
	}
	if shown == "" && a.Blob != nil {
		shown = fmt.Sprintf("[%d bytes]", len(a.Blob))
	}
	c.t.answered(shown, time.Since(began))
	return a, nil
}

// quiet calls a tool and shows nothing.
func (c *client) quiet(ctx context.Context, tool string, args map[string]any) (mcpclient.Answer, error) {
	return mcpclient.Call(ctx, c.session, tool, args)
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
