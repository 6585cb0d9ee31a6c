package main

import (
	"context"

	"github.com/spf13/cobra"

	"playground/cli"
)

func escapeCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "escape", Short: "Let workers try to get out, and show what stopped them", Args: exactly(),
		Long: `Runs the escape suite: sandboxed runs of somebody who is not the operator, whose workers reach for all that this
instance keeps from them. A row says what was tried, and the error that it got.
The exit status is 0 when every attempt was made and failed as it must, 1 otherwise.`,
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Escape(ctx) })}
}
