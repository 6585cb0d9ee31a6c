package main

import (
	"context"

	"github.com/spf13/cobra"

	"playground/cli"
)

// facultyCommand is all about faculties: the workers that a host keeps, and the executables that they are.
func facultyCommand(env *cli.Env) *cobra.Command {
	cmd := group("faculty", "Keep faculty workers, and make the executables they are",
		&cobra.Command{Use: "list", Short: "Show the workers; exit 1 when one does not serve", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.FacultyList(ctx) })},
		onWorker("start", "Start a worker with what the definitions say now", env.FacultyStart),
		onWorker("stop", "Stop a worker, prove that nothing of it is left, and let it be stopped", env.FacultyStop),
		onWorker("restart", "Stop and start a worker with what the definitions say now", env.FacultyRestart),
		facultyLogs(env),
		&cobra.Command{Use: "check", Short: "Check the definitions and the token files", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.FacultyCheck(ctx) })},
	)
	cmd.AddCommand(bundleCommands(env)...)
	return cmd
}

// onWorker returns a command for one worker, or for all.
func onWorker(use, short string, run func(context.Context, cli.FacultyTarget) error) *cobra.Command {
	var target cli.FacultyTarget
	cmd := &cobra.Command{Use: use + " WORKER", Short: short}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if target.All {
			return exactly()(cmd, args)
		}
		return exactly("WORKER")(cmd, args)
	}
	cmd.RunE = interruptible(func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			target.Worker = args[0]
		}
		return run(ctx, target)
	})
	cmd.Flags().BoolVar(&target.All, "all", false, "every worker")
	return cmd
}

func facultyLogs(env *cli.Env) *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{Use: "logs WORKER", Short: "Show what a worker wrote", Args: exactly("WORKER"),
		RunE: interruptible(func(ctx context.Context, args []string) error { return env.FacultyLogs(ctx, args[0], lines, follow) })}
	cmd.Flags().IntVar(&lines, "lines", 40, "how many `lines` of its end")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until interrupted")
	return cmd
}
