package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"playground/config"
	"playground/fault"
	"playground/preflight"
)

// Doctor checks the host as the daemons do when they start. It ends with 0, 1 or 2 for pass, warnings and failures.
func (e *Env) Doctor(ctx context.Context) error {
	report, err := e.Preflight(ctx)
	if err != nil {
		return err
	}
	if e.JSON {
		err = e.printJSON(report)
	} else {
		err = report.WriteText(e.Stdout)
	}
	if err != nil {
		return err
	}
	if code := report.ExitCode(); code != 0 {
		return StatusError(code)
	}
	return nil
}

// Preflight makes the host's checks for the configuration, or, where there is none yet, for what "playground up" would
// write.
func (e *Env) Preflight(ctx context.Context) (preflight.Report, error) {
	c, err := e.load()
	if e.Config == "" && errors.Is(err, fault.NotFound) {
		c = config.Default(runtime.GOOS)
		state, err := e.StateDir()
		if err != nil {
			return preflight.Report{}, err
		}
		c.Host.StateDir, c.Host.RunDir = filepath.Join(state, "data"), filepath.Join(state, "run")
		fmt.Fprintf(e.Stderr, "there is no configuration yet; checking for `playground up` in %s\n", state)
	} else if err != nil {
		return preflight.Report{}, err
	}
	report := check(ctx, c)
	if workers, some := facultyCheck(ctx, c); some {
		report.Checks = append(report.Checks, workers)
	}
	return report, nil
}

// check makes the host's checks for one configuration.
func check(ctx context.Context, c config.Config) preflight.Report {
	report := preflight.Run(ctx, c.HostChecks())
	report.Checks = append(report.Checks, workerChecks(c)...)
	return report
}
