package main

import (
	"context"

	"github.com/spf13/cobra"

	"playground/cli"
)

func templateCommand(env *cli.Env) *cobra.Command {
	return group("template", "Make, list and destroy what FreeBSD sandboxes are made from",
		templateCreate(env),
		&cobra.Command{Use: "list", Short: "List the templates", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.TemplateList(ctx) })},
		&cobra.Command{Use: "destroy NAME", Short: "Destroy a template that no sandbox stands on", Args: exactly("NAME"),
			RunE: interruptible(func(ctx context.Context, args []string) error { return env.TemplateDestroy(ctx, args[0]) })},
	)
}

func templateCreate(env *cli.Env) *cobra.Command {
	var from string
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a template from a base.txz, a folder, or this host's own system", Args: exactly("NAME"),
		Example: "  playground template create base --from base.txz\n  playground template create base --from /",
		RunE: interruptible(func(ctx context.Context, args []string) error {
			if from == "" {
				return usage("playground template create: --from SOURCE is missing")
			}
			return env.TemplateCreate(ctx, args[0], from)
		})}
	cmd.Flags().StringVar(&from, "from", "", "`source`: base.txz of a release, a folder that holds a system, or / for this host's own, without its accounts and data")
	return cmd
}
