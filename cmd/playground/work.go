package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"playground/cli"
	"playground/workapi"
	"playground/workloop"
)

// workCommands are the commands of the work loop.
func workCommands(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{runCommand(env), runsCommand(env), decisionsCommand(env), recordsCommand(env), threadCommand(env), configCommand(env), exprCommand(env), escapeCommand(env),
		recordCommand(env, "intend", "Record a goal, which opens a thread"),
		recordCommand(env, "do", "Record an action"),
		recordCommand(env, "know", "Record a fact or a verdict"),
		recordCommand(env, "learn", "Record a lasting insight, or configuration")}
}

func runCommand(env *cli.Env) *cobra.Command {
	var s cli.RunSpec
	var turns int
	var tokens int64
	var budget float64
	cmd := &cobra.Command{Use: "run GOAL", Short: "Give an agent a goal and follow its run", Args: exactly("GOAL"),
		Long: `Starts a run and shows what it does until its end. Ctrl-C only leaves: the run goes on.
The exit status is 0 for done, 1 for any other end and for no end in time, 2 for a refused start, 3 for a question without an answer.`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  playground run 'Record a note whose text is exactly: hello . Use the record_note tool with only the text argument. Then stop.'\n" +
			"  playground run 'Count the lines of every file in /home' --member alice --max-turns 5 --budget 0.10"}
	flags := cmd.Flags()
	flags.StringVar(&s.Member, "member", "", "the `tenant` that the run is for (default: the operator)")
	flags.StringVar(&s.Actor, "actor", "", "the `DID` that the run acts as (default: the member's, or the operator's)")
	flags.IntVar(&turns, "max-turns", 0, "end after this many `turns`")
	flags.Float64Var(&budget, "budget", 0, "end before more `dollars` than these are spent")
	flags.Int64Var(&tokens, "token-budget", 0, "end after this many `tokens`")
	flags.DurationVar(&s.WallClock, "wall-clock", 0, "end after this `time`")
	flags.DurationVar(&s.Timeout, "timeout", 10*time.Minute, "follow for this `time` at most; 0 is for ever")
	flags.StringSliceVar(&s.Tools, "tools", nil, "exactly these `tools`, with commas (default: the tier's)")
	flags.StringSliceVar(&s.Forbidden, "forbid", nil, "never these `tools`, with commas")
	flags.StringSliceVar(&s.Reads, "reads", nil, "`threads` it may read beside its own, with commas")
	flags.StringVar(&s.Workspace, "workspace", "", "the `folder` of the operator's host tools")
	flags.StringVar(&s.Model, "model", "", "the `model` (default: as configured)")
	flags.StringVar(&s.Answer, "answer", "", "the `text` that answers the first question")
	flags.BoolVar(&s.Detach, "detach", false, "start it and do not follow")
	cmd.RunE = interruptible(func(ctx context.Context, args []string) error {
		s.Goal = args[0]
		if flags.Changed("max-turns") {
			s.MaxTurns = &turns
		}
		if flags.Changed("budget") {
			s.BudgetUSD = &budget
		}
		if flags.Changed("token-budget") {
			s.Tokens = &tokens
		}
		return env.Run(ctx, s)
	})
	return cmd
}

func runsCommand(env *cli.Env) *cobra.Command {
	var f workapi.RunFilter
	list := &cobra.Command{Use: "list", Short: "List runs, the newest first", Args: exactly(),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return env.RunsList(ctx, f) })}
	list.Flags().StringVar(&f.State, "state", "", "only this `state`: running, waiting_on_you, done, stopped or stopped_short")
	list.Flags().StringVar(&f.Actor, "actor", "", "only of this `DID`")
	list.Flags().StringVar(&f.Since, "since", "", "only those started since this `time`, as 2026-01-31T12:00:00Z")
	list.Flags().IntVar(&f.Limit, "limit", 50, "at most this many `runs`, up to 500")
	choices(list, "state", workloop.Running, workloop.WaitingOnYou, workloop.Done, workloop.Stopped, workloop.StoppedShort)
	var clock int64
	tail := onThread("tail", "Follow a run from its beginning", func(ctx context.Context, thread string) error { return env.RunsTail(ctx, thread, clock) })
	tail.Flags().Int64Var(&clock, "since-clock", 0, "show only what has this `clock` or a later one")
	return group("runs", "List, follow and stop runs", list,
		onThread("show", "Show a run's row", env.RunsShow), tail,
		onThread("stop", "Stop a run at its next step", env.RunsStop),
		&cobra.Command{Use: "say THREAD TEXT", Short: "Tell a run something; it sees it in its next turn", Args: exactly("THREAD", "TEXT"),
			RunE: interruptible(func(ctx context.Context, args []string) error { return env.RunsSay(ctx, args[0], args[1]) })})
}

// choices lets a shell complete the values of a flag that the command has.
func choices(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // an error: there is no such flag
}

// onThread returns a command with one argument, the id of a thread.
func onThread(use, short string, run func(ctx context.Context, thread string) error) *cobra.Command {
	return &cobra.Command{Use: use + " THREAD", Short: short, Args: exactly("THREAD"),
		RunE: interruptible(func(ctx context.Context, args []string) error { return run(ctx, args[0]) })}
}

func decisionsCommand(env *cli.Env) *cobra.Command {
	var reason string
	answer := func(use, short string, names []string, run func(ctx context.Context, args []string) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: exactly(names...), RunE: interruptible(run)}
		cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the run and the log")
		return cmd
	}
	var value string
	decide := answer("decide QUESTION DECISION", "Answer a question", []string{"QUESTION", "DECISION"}, func(ctx context.Context, args []string) error {
		return env.Decide(ctx, args[0], args[1], reason, value)
	})
	decide.Flags().StringVar(&value, "value", "", "a `value`, JSON or text")
	return group("decisions", "Answer the questions of runs that wait",
		&cobra.Command{Use: "list", Short: "List the questions, the oldest first", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.DecisionsList(ctx) })},
		decide,
		answer("choose QUESTION OPTION", "Answer with one of the options", []string{"QUESTION", "OPTION"}, func(ctx context.Context, args []string) error {
			return env.Decide(ctx, args[0], args[1], reason, "")
		}),
		answer("provide QUESTION VALUE", "Answer with a value, JSON or text", []string{"QUESTION", "VALUE"}, func(ctx context.Context, args []string) error {
			return env.Decide(ctx, args[0], workloop.AnswerProvide, reason, args[1])
		}),
		answer("ack QUESTION", "Say that the question was seen, and let the run go on", []string{"QUESTION"}, func(ctx context.Context, args []string) error {
			return env.Decide(ctx, args[0], workloop.AnswerAck, reason, "")
		}))
}
