package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"playground/cli"
	"playground/policy"
	"playground/record"
)

// recordCommand writes a record; its name is the act.
func recordCommand(env *cli.Env, name, short string) *cobra.Command {
	n := cli.NewRecord{Act: record.Act(strings.ToUpper(name))}
	cmd := &cobra.Command{Use: name + " TEXT", Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if n.Body != "" && len(args) == 0 {
				return nil
			}
			return exactly("TEXT")(cmd, args)
		},
		RunE: interruptible(func(ctx context.Context, args []string) error {
			n.Text = strings.Join(args, " ")
			return env.RecordWrite(ctx, n)
		})}
	cmd.Flags().StringVar(&n.Thread, "thread", "", "the `thread` (default: a new one)")
	cmd.Flags().StringVar(&n.Actor, "actor", "", "the author's `DID` (default: the operator's)")
	cmd.Flags().StringVar(&n.Override, "act", "", "another `act`: INTEND, DO, KNOW, LEARN, GET, PUT, CALL or MAP")
	cmd.Flags().StringVar(&n.Body, "body", "", "the body, a `JSON` object; TEXT goes into it")
	cmd.Flags().StringVar(&n.Fulfills, "fulfills", "", "`id` of the record that this one fulfills")
	cmd.Flags().StringSliceVar(&n.Parents, "parents", nil, "`ids` of the records that this one builds on, with commas")
	return cmd
}

func recordsCommand(env *cli.Env) *cobra.Command {
	return group("records", "Check the log",
		&cobra.Command{Use: "verify", Short: "Check that every record is what it was; exit 1 when one is not", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.RecordsVerify(ctx) })})
}

func threadCommand(env *cli.Env) *cobra.Command {
	var after int64
	var limit int
	page := func(cmd *cobra.Command, most int) *cobra.Command {
		cmd.Flags().Int64Var(&after, "after", 0, "only what comes after this `sequence`")
		cmd.Flags().IntVar(&limit, "limit", most, "at most `this` many")
		return cmd
	}
	return group("thread", "Read threads of records",
		page(&cobra.Command{Use: "list", Short: "List threads", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.ThreadList(ctx, after, limit) })}, 100),
		onThread("show", "Show a thread's state and participants", env.ThreadShow),
		page(onThread("records", "Show a thread's records", func(ctx context.Context, thread string) error {
			return env.ThreadRecords(ctx, thread, after, limit)
		}), 0))
}

func configCommand(env *cli.Env) *cobra.Command {
	var p cli.PermissionRule
	add := &cobra.Command{Use: "add-permission-rule", Short: "Add or replace a permission rule for tool calls", Args: exactly(),
		Example: `  playground config add-permission-rule --name no-exec --action deny --priority 100 --expression 'resource == "tool:exec"'`,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			switch "" {
			case p.Name:
				return usage("playground config add-permission-rule: --name is missing")
			case p.Action:
				return usage("playground config add-permission-rule: --action is missing")
			case p.Expression:
				return usage("playground config add-permission-rule: --expression is missing")
			}
			return env.AddPermissionRule(ctx, p)
		})}
	add.Flags().StringVar(&p.Name, "name", "", "the rule's `name`; a rule of this name is replaced")
	add.Flags().StringVar(&p.Action, "action", "", "`allow` or deny")
	add.Flags().StringVar(&p.Expression, "expression", "", "`CEL` that is true for the calls the rule is about")
	add.Flags().Int64Var(&p.Priority, "priority", 0, "a `number`: rules of higher ones are asked first")
	add.Flags().StringVar(&p.Namespace, "namespace", "default", "the rule's `namespace`")
	choices(add, "action", string(policy.Allow), string(policy.Deny))
	add.Flags().BoolVar(&p.Disable, "disable", false, "keep the rule, switched off")
	return group("config", "Show the configuration, and set what the engine reads live",
		&cobra.Command{Use: "path", Short: "Print which configuration file is used", Args: exactly(), RunE: func(*cobra.Command, []string) error { return env.PrintConfigPath() }},
		&cobra.Command{Use: "show", Short: "Print the configuration file", Args: exactly(), RunE: func(*cobra.Command, []string) error { return env.ConfigShow() }},
		add,
		&cobra.Command{Use: "list-permission-rules", Short: "List the permission rules in the order they are asked", Args: exactly(),
			RunE: interruptible(func(ctx context.Context, _ []string) error { return env.ListPermissionRules(ctx) })})
}

func exprCommand(env *cli.Env) *cobra.Command {
	var in, over string
	check := &cobra.Command{Use: "check CEL", Short: "Compile an expression", Args: exactly("CEL"),
		RunE: func(_ *cobra.Command, args []string) error { return env.ExprCheck(args[0], in) }}
	eval := &cobra.Command{Use: "eval CEL", Short: "Evaluate an expression", Args: exactly("CEL"),
		RunE: func(_ *cobra.Command, args []string) error { return env.ExprEval(args[0], in, over) }}
	for _, cmd := range []*cobra.Command{check, eval} {
		cmd.Flags().StringVar(&in, "context", string(policy.Permission), "the `names` it may use: permission or hook")
		choices(cmd, "context", string(policy.Permission), string(policy.Observer))
	}
	eval.Flags().StringVar(&over, "record", "", "what it is asked about, a `JSON` object")
	return group("expr", "Try expressions of permission rules and hooks", check, eval)
}
