package catalogue

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
	"playground/jail"
)

// Bounds of a session's environment. execve(2) would refuse far more, but with a text that helps nobody.
const (
	envEntries = 64
	envBytes   = 32 << 10
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
	if err := checkEnv(env); err != nil {
		return nil, err
	}
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

func checkEnv(env map[string]string) error {
	if len(env) > envEntries {
		return fault.New(fault.TooLarge, "env has %d entries; %d is the most", len(env), envEntries)
	}
	size := 0
	for name, value := range env {
		if !envName(name) {
			return fault.New(fault.Invalid, "env name %.100q is not a variable name", name).WithHint("use letters, digits and _, not a digit first")
		}
		if strings.IndexByte(value, 0) >= 0 {
			return fault.New(fault.Invalid, "env value of %q holds a NUL byte", name)
		}
		size += len(name) + len(value)
	}
	if size > envBytes {
		return fault.New(fault.TooLarge, "env is %d bytes long; %d is the most", size, envBytes).WithHint("put large values into a file with write")
	}
	return nil
}

func envName(name string) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && r != '_' && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
