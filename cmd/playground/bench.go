package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"playground/bench"
	"playground/cli"
)

// benchCommand is for developers of the suite and for those who want to know what a machine can do.
func benchCommand(env *cli.Env) *cobra.Command {
	o := bench.Options{Bin: env.Bin, Say: func(line string) { fmt.Fprintln(env.Stderr, line) }}
	var seconds int
	cmd := &cobra.Command{Use: "bench", Short: "Measure the suite on this machine, in a temporary folder", Args: exactly(), Hidden: true,
		Long: "Start the suite in a temporary folder and measure it: a command's round trip over MCP beside the bare shell and bwrap,\na job's output, the gateway beside nginx, records and runs of the work loop, and memory. Nothing is left behind.",
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			o.Time = time.Duration(seconds) * time.Second
			if o.Rounds < 1 || seconds < 1 {
				return usage("playground bench: --rounds and --seconds must be at least 1")
			}
			if err := oneFolder("playground bench"); err != nil {
				return err
			}
			report, err := bench.Run(ctx, o)
			if err != nil {
				return err
			}
			if !env.JSON {
				return report.WriteTable(env.Stdout)
			}
			encoder := json.NewEncoder(env.Stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(report)
		})}
	cmd.Flags().IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "how often each row takes its turn")
	cmd.Flags().IntVar(&seconds, "seconds", int(bench.DefaultTime/time.Second), "how long commands are measured, in all")
	cmd.Flags().StringVar(&o.State, "state", "", "state `folder`; it must not exist and is removed at the end (default: a temporary one)")
	return cmd
}
