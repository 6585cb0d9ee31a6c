package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"playground/cli"
)

func upCommand(env *cli.Env) *cobra.Command {
	var o cli.UpOptions
	cmd := &cobra.Command{Use: "up", Short: "Run the whole suite from one state folder", Args: exactly(),
		Long: "Run the daemons from one state folder as this user, until Ctrl-C. The first start writes playground.toml\ninto the folder; the flags below are for that start.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if env.Config != "" { // a state folder has its own; to ignore the other would start another suite than was meant
				return usage("playground up: the configuration is the one in the state folder; name that with --state instead of -c")
			}
			if err := oneFolder(cmd.CommandPath()); err != nil {
				return err
			}
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			return env.Up(cmd.Context(), o, signals)
		}}
	cmd.Flags().StringVar(&o.State, "state", "", "state `folder` (default: $XDG_STATE_HOME/playground or ~/.local/state/playground)")
	cmd.Flags().StringVar(&o.Listen, "listen", "", "`address` for MCP over HTTP (default 127.0.0.1:8787)")
	cmd.Flags().StringVar(&o.Isolation, "isolation", "", "auto, namespaces, jail, or none (for demonstrations only)")
	return cmd
}

func demoCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "demo", Short: "Start the suite in a temporary folder and show what it does", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return runDemo(ctx, env) })}
}

func mcpCommand(env *cli.Env) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "mcp --tenant NAME", Short: "Serve MCP on standard input and output, as one tenant", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if tenant == "" {
				return usage("playground mcp: --tenant NAME is missing")
			}
			return env.MCP(ctx, tenant)
		})}
	cmd.Flags().StringVar(&tenant, "tenant", "", "the tenant's `NAME`")
	return cmd
}

func statusCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show the daemons, tenants and jobs", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Status(ctx) })}
}

func doctorCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Check this host; exit 0 for pass, 1 for warnings, 2 for failures", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Doctor(ctx) })}
}

func readyCommand(env *cli.Env) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{Use: "ready", Short: "Wait until the suite answers", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Ready(ctx, timeout) })}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait, such as 30s (default: ask once)")
	return cmd
}

func ackCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "ack", Short: "Accept that a job's end was not proved, and allow starts again", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Ack(ctx) })}
}

func cleanCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "clean", Short: "Remove what commands of an earlier reaperd left, and say what", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.Clean(ctx) })}
}

func versionCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return env.Version() }}
}
