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
	http    http.Transport // of a client over HTTP
	t       *transcript
}

// connect opens an MCP connection over transport, with the newest version of the protocol or the given one.
func (c *client) connect(ctx context.Context, protocol string, transport mcp.Transport) (err error) {
	began := time.Now()
	c.session, err = mcp.NewClient(&mcp.Implementation{Name: "playground-demo", Version: version.String()},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		return fmt.Errorf("cannot connect %s: %w", c.name, err)
	}
	result := c.session.InitializeResult()
	if result != nil && result.ServerInfo != nil {
		c.t.answered(fmt.Sprintf("connected to %s %s, MCP %s", result.ServerInfo.Name, result.ServerInfo.Version, result.ProtocolVersion), time.Since(began))
	}
	return nil
}

// overHTTP connects a tenant's client to the suite's endpoint. hangUp closes it.
func (d *demo) overHTTP(ctx context.Context, tenant, protocol string) (*client, error) {
	endpoint := "http://" + d.suite.Config.HTTP.Listen + "/mcp"
	c := &client{name: tenant, t: d.t}
	d.t.asked(tenant, "connect to "+endpoint)
	bearer := mcpclient.Bearer{Token: d.tokens[tenant], Next: &c.http}
	if err := c.connect(ctx, protocol, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer}}); err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	d.clients = append(d.clients, c)
	return c, nil
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
