package main

import (
	"context"

	"github.com/spf13/cobra"

	"playground/cli"
)

func operatorCommand(env *cli.Env) *cobra.Command {
	return group("operator", "Mint, list and revoke the operator's own tokens",
		group("token", "Tokens that speak for the operator at /v1",
			&cobra.Command{Use: "create NAME", Short: "Mint a token for what NAME says and print it, once", Args: exactly("NAME"),
				RunE: interruptible(func(ctx context.Context, args []string) error { return env.OperatorTokenCreate(ctx, args[0]) })},
			&cobra.Command{Use: "list", Short: "List the tokens, without their secrets", Args: exactly(),
				RunE: interruptible(func(ctx context.Context, _ []string) error { return env.OperatorTokenList(ctx) })},
			&cobra.Command{Use: "revoke ID", Short: "Revoke a token", Args: exactly("ID"),
				RunE: interruptible(func(ctx context.Context, args []string) error { return env.OperatorTokenRevoke(ctx, args[0]) })},
		),
	)
}
