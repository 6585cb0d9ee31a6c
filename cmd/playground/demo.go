package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"playground/cli"
	"playground/config"
	"playground/demo"
	"playground/fault"
	"playground/jail"
	"playground/preflight"
)

// runDemo decides whether this host can isolate, and plays the demonstration. Only the demonstration may go on without.
func runDemo(ctx context.Context, env *cli.Env) error {
	if err := oneFolder("playground demo"); err != nil {
		return err
	}
	options := demo.Options{Env: env, Out: env.Stdout, Colour: isTerminal(os.Stdout)}
	// Folders that do not exist yet, as those of the demonstration.
	folder := filepath.Join(os.TempDir(), "playground-demo-"+strconv.Itoa(os.Getpid()))
	check := func(isolation jail.Isolation) preflight.Report {
		return preflight.Run(ctx, preflight.Options{StateDir: folder, RunDir: folder, Isolation: string(isolation)})
	}
	report := check(config.Default(runtime.GOOS).Sandbox.Isolation)
	if without := check(jail.IsolationNone); len(without.Failed()) > 0 {
		report = without // it would not work without isolation either
	} else {
		options.NoIsolation = len(report.Failed()) > 0
	}
	for _, check := range report.Failed() {
		options.Reason += "\n  " + check.Name + ": " + check.Detail + "\n    mend it: " + check.Remedy
	}
	if len(report.Failed()) > 0 && !options.NoIsolation {
		return fault.New(fault.Unavailable, "this host cannot run the suite:%s", options.Reason)
	}
	return demo.Run(ctx, options)
}

// isTerminal reports whether f is a terminal that takes colours.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
