package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"playground/localapi/userapi"
)

// TokenShow prints what may be known of a tenant's newest token: never the secret.
func (e *Env) TokenShow(ctx context.Context, tenant string) error {
	return e.users(func(client *userapi.Client) error {
		info, err := client.Token(ctx, tenant)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(info)
		}
		used := "never"
		if info.LastUsed != nil {
			used = when(*info.LastUsed)
		}
		return pairs(e.Stdout, [][2]string{{"prefix", info.Prefix}, {"created", when(info.Created)}, {"last used", used}, {"revoked", yesNo(info.Revoked)}})
	})
}

// TokenReset revokes every token of a tenant and prints a new one. Standard output gets the token alone.
func (e *Env) TokenReset(ctx context.Context, tenant string) error {
	return e.users(func(client *userapi.Client) error {
		token, err := client.ResetToken(ctx, tenant)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(token)
		}
		fmt.Fprintf(e.Stderr, "the old tokens of %s are revoked; this is the new one, shown only now:\n", tenant)
		_, err = fmt.Fprintln(e.Stdout, token.Token)
		return err
	})
}

// TokenRevoke revokes every token of a tenant.
func (e *Env) TokenRevoke(ctx context.Context, tenant string) error {
	return e.users(func(client *userapi.Client) error {
		if err := client.RevokeToken(ctx, tenant); err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(map[string]string{"revoked": tenant})
		}
		_, err := fmt.Fprintf(e.Stdout, "every token of %s is revoked, from the next request on; a new one: playground user token reset %s\n", tenant, tenant)
		return err
	})
}

// describe prints what a tenant's sandbox is.
func describe(w io.Writer, user userapi.User) error {
	s := user.Sandbox
	if s == nil {
		_, err := fmt.Fprintln(w, user.Problem)
		return err
	}
	appendOnly := "not enforced: " + s.AppendOnly.Reason
	if s.AppendOnly.Enforced {
		appendOnly = "enforced: " + s.AppendOnly.Reason
	}
	lines := [][2]string{{"  session", s.Name}, {"  persona", s.Persona}, {"  isolation", string(s.Isolation)},
		{"  network", strings.TrimSpace(string(s.Network) + " " + s.Address)}, {"  append-only pile", appendOnly}}
	if user.Warning != "" {
		lines = append(lines, [2]string{"  WARNING", user.Warning})
	}
	return pairs(w, lines)
}
