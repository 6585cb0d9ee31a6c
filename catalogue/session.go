package catalogue

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
	"playground/jail"
)

type sessionView struct {
	Session    string          `json:"session"`
	Persona    string          `json:"persona"`
	Isolation  jail.Isolation  `json:"isolation"`
	AppendOnly jail.AppendOnly `json:"append_only"`
	Network    jail.Network    `json:"network"`
}

func (c *catalogue) openSession(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	// A tenant's credentials name it already. Every other name is refused with one text, whether it exists or not.
	if tenant, ok := args.optionalText("tenant"); ok && tenant != c.tenant {
		return nil, fault.New(fault.NotFound, "unknown tenant").WithHint("leave tenant out: your credentials say who you are")
	}
	env, _ := args["env"].(map[string]string)
	s, err := c.provider.Open(ctx, c.tenant, jail.OpenOptions{Cwd: args.text("cwd"), Env: env})
	if err != nil {
		return nil, err
	}
	if c.options.OnOpen != nil {
		c.options.OnOpen(s.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "session %s is open\npersona: %s\nisolation: %s\nnetwork: %s\n", s.Name, s.Persona, s.Isolation, s.Network)
	if s.AppendOnly.Enforced {
		fmt.Fprintf(&b, "append-only pile: enforced (%s)", s.AppendOnly.Reason)
	} else {
		fmt.Fprintf(&b, "append-only pile: not enforced (%s)", s.AppendOnly.Reason)
	}
	if s.Isolation == jail.IsolationNone {
		b.WriteString("\nWARNING: isolation is off; commands run on the host itself")
	}
	return result(b.String(), sessionView{s.Name, s.Persona, s.Isolation, s.AppendOnly, s.Network}), nil
}

type closedView struct {
	Session string `json:"session"`
	Handles int    `json:"handles"`
}

func (c *catalogue) closeSession(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	session := args.text("session")
	s, err := c.provider.Close(ctx, c.tenant, session)
	if err != nil {
		return nil, err
	}
	if c.options.OnClose != nil {
		c.options.OnClose(session)
	}
	words := "session " + session + " is closed; its files stay"
	if s.Handles > 0 {
		words = fmt.Sprintf("session %s: one handle given back, %d still open", session, s.Handles)
	}
	return result(words, closedView{session, s.Handles}), nil
}
