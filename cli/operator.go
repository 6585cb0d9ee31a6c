package cli

import (
	"context"
	"fmt"

	"playground/localapi/userapi"
)

// OperatorTokenCreate mints a token of the operator and prints it. Standard output gets the token alone.
func (e *Env) OperatorTokenCreate(ctx context.Context, name string) error {
	return e.users(func(client *userapi.Client) error {
		token, err := client.CreateOperatorToken(ctx, name)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(token)
		}
		fmt.Fprintf(e.Stderr, "operator token %s for %q; it may do all that /v1 offers, and is shown only now:\n", token.Info.ID, token.Info.Name)
		_, err = fmt.Fprintln(e.Stdout, token.Token)
		return err
	})
}

// OperatorTokenList prints what may be known of the operator's tokens: never a secret.
func (e *Env) OperatorTokenList(ctx context.Context) error {
	return e.users(func(client *userapi.Client) error {
		all, err := client.OperatorTokens(ctx)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(all)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(e.Stderr, "there are no operator tokens; make one: playground operator token create NAME")
			return err
		}
		var rows [][]string
		for _, t := range all {
			used := "never"
			if t.LastUsed != nil {
				used = when(*t.LastUsed)
			}
			rows = append(rows, []string{t.ID, t.Name, when(t.Created), used, yesNo(t.Revoked)})
		}
		return table(e.Stdout, []string{"ID", "NAME", "CREATED", "LAST USED", "REVOKED"}, rows)
	})
}

// OperatorTokenRevoke revokes one token of the operator, named by its id or its prefix.
func (e *Env) OperatorTokenRevoke(ctx context.Context, id string) error {
	return e.users(func(client *userapi.Client) error {
		if err := client.RevokeOperatorToken(ctx, id); err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(map[string]string{"revoked": id})
		}
		_, err := fmt.Fprintf(e.Stdout, "operator token %s is revoked, from the next request on\n", id)
		return err
	})
}
