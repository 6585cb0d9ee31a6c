package main

import (
	"context"
	"slices"

	"playground/config"
	"playground/preflight"
)

// required are the checks without which no worker is started: this is root, the securelevel is what the configuration asks for,
// and the kernel can bound what a worker uses. The securelevel is raised late in the boot, so that an early start is refused,
// and tried again by daemon(8).
func required() []string { return []string{"root", "securelevel", "racct"} }

// fit refuses a host that is not fit for workers.
func fit(ctx context.Context, c config.Config) error {
	report := preflight.Run(ctx, c.HostChecks())
	report.Checks = slices.DeleteFunc(report.Checks, func(check preflight.Check) bool { return !slices.Contains(required(), check.Name) })
	return report.Refusal("faculty workers cannot run on this host")
}
