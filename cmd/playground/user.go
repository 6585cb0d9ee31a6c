package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"playground/cli"
)

// usage returns an error that ends the program with status 2.
func usage(format string, args ...any) error {
	return &cli.UsageError{Err: fmt.Errorf(format, args...)}
}

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("%s: unknown command %q", cmd.CommandPath(), args[0])
		}
		return cmd.Help()
	}}
	cmd.AddCommand(commands...)
	return cmd
}

// onTenant returns a command with one argument, the tenant's name.
func onTenant(use, short string, run func(ctx context.Context, tenant string) error) *cobra.Command {
	return &cobra.Command{Use: use + " NAME", Short: short, Args: exactly("NAME"),
		RunE: interruptible(func(ctx context.Context, args []string) error { return run(ctx, args[0]) })}
}

func userCommand(env *cli.Env) *cobra.Command {
	return group("user", "Make, list and destroy tenants",
		userCreate(env),
		&cobra.Command{Use: "list", Short: "List the tenants", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.UserList(ctx) })},
		onTenant("attach", "Make the tenant's sandbox ready and print its session and persona", env.UserAttach),
		onTenant("detach", "Take the tenant's sandbox down; its files stay", env.UserDetach),
		userDestroy(env),
		group("token", "Show, replace or revoke a tenant's token",
			onTenant("show", "Show the token's prefix and dates, never the secret", env.TokenShow),
			onTenant("reset", "Revoke every token of the tenant and print a new one, once", env.TokenReset),
			onTenant("revoke", "Revoke every token of the tenant", env.TokenRevoke),
		),
	)
}

func userCreate(env *cli.Env) *cobra.Command {
	var o cli.CreateOptions
	cmd := onTenant("create", "Make a tenant's sandbox and print its token, once", func(ctx context.Context, tenant string) error {
		return env.UserCreate(ctx, tenant, o)
	})
	cmd.Flags().StringVar(&o.Persona, "persona", "", "who the agent is (default \"NAME assistant\")")
	cmd.Flags().StringVar(&o.Network, "network", "", "what the sandbox can reach (default: as configured)")
	return cmd
}

func userDestroy(env *cli.Env) *cobra.Command {
	var force bool
	cmd := onTenant("destroy", "Destroy a tenant: sandbox, files and tokens", func(ctx context.Context, tenant string) error {
		return env.UserDestroy(ctx, tenant, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "also when something runs in it")
	return cmd
}
