package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"playground/cli"
	"playground/version"
)

const about = `Playground gives an AI agent a computer of its own: one persistent sandbox per tenant, reached over MCP.

  playground up                    run the whole suite from one folder, without root
  playground user create alice     make a tenant and print its token, once
  playground mcp --tenant alice    serve MCP on standard input and output`

// newRoot returns the command tree.
func newRoot(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "playground",
		Short:         "Sandboxes for AI agents, over MCP",
		Long:          about,
		Version:       version.String(),
		SilenceUsage:  true, // run prints errors with their hints
		SilenceErrors: true,
	}
	root.SetVersionTemplate("playground {{.Version}}\n")
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &cli.UsageError{Err: err} })
	var output string
	root.PersistentFlags().StringVarP(&env.Config, "config", "c", "", "configuration `file` (default: $PLAYGROUND_CONFIG, the folder of \"playground up\", the system's)")
	root.PersistentFlags().StringVarP(&output, "output", "o", "text", "output `format`: text, json or stream-json")
	choices(root, "output", "text", "json", "stream-json")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch output {
		case "text":
		case "json":
			env.JSON = true
		case "stream-json":
			env.JSON, env.Stream = true, true
		default:
			return usage("unknown output format %q: use text, json or stream-json", output)
		}
		return nil
	}
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("unknown command %q", args[0])
		}
		return cmd.Help()
	}
	root.AddCommand(userCommand(env), operatorCommand(env), templateCommand(env), upCommand(env), demoCommand(env), mcpCommand(env), statusCommand(env), doctorCommand(env),
		readyCommand(env), ackCommand(env), cleanCommand(env), facultyCommand(env), versionCommand(env), benchCommand(env))
	root.AddCommand(workCommands(env)...)
	return root
}

// exactly is cobra.ExactArgs as a usage error that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s: %s is missing", cmd.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return usage("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// interruptible runs a command whose context ends with the first signal to stop.
func interruptible(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(ctx, args)
	}
}
