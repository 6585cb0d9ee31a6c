package reaper

import (
	"context"

	"playground/fault"
	"playground/job"
)

// A Runner runs commands in tenants' jails. It implements job.Runner.
type Runner struct{}

// NewRunner returns a Runner.
func NewRunner(Jails, Options) *Runner { return &Runner{} }

// Run refuses: nothing may run un-jailed by silence.
func (r *Runner) Run(context.Context, job.Spec, job.Output) (job.Result, error) {
	return job.Result{}, fault.New(fault.Unsupported, "this version cannot run commands in FreeBSD jails yet").WithHint("see CHANGELOG.md")
}

// Close does nothing.
func (r *Runner) Close() {}

// Gone reports false: what is left of another version's jobs is not known here.
func Gone([]job.Leftover) bool { return false }
