package reaper

import (
	"context"

	"playground/fault"
	"playground/job"
	"playground/racct"
	"playground/reaper/bsdproc"
	"playground/reaper/leaf"
	"playground/reaper/pool"
)

// A Runner runs commands in tenants' jails. It implements job.Runner.
type Runner struct {
	leaves *leaf.Runner
	refuse error // why nothing can be run
}

// NewRunner returns a Runner. It makes this process a reaper, so that what a lost supervisor leaves comes here; where the
// kernel refuses that, or keeps no accounts of jails, every Run is refused.
func NewRunner(jails Jails, opts Options) *Runner {
	supervisors := pool.New([]string{opts.Supervise, "job"}, opts.Warm, opts.Log)
	r := &Runner{leaves: leaf.New(jails.Attachment, supervisors, host{}, leaf.Options{Grace: opts.TermGrace, Deadline: opts.ProofDeadline})}
	if err := bsdproc.Acquire(); err != nil {
		r.refuse = fault.Wrap(fault.Unavailable, err, "commands cannot be run")
	} else if err := racct.Enabled(); err != nil {
		r.refuse = err
	} else {
		supervisors.Fill()
	}
	return r
}

// Run runs one command to its proved end; see job.Runner.
func (r *Runner) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	if r.refuse != nil {
		return job.Result{}, r.refuse
	}
	return r.leaves.Run(ctx, spec, out)
}

// Usage returns what the running commands of each tenant use together, by rctl(8) resource.
func (r *Runner) Usage() (map[string]racct.Usage, error) {
	usage := make(map[string]racct.Usage)
	for name, tenant := range r.leaves.Running() {
		one, err := racct.UsageOf(name)
		if err != nil {
			return nil, err
		}
		if usage[tenant] == nil {
			usage[tenant] = make(racct.Usage)
		}
		usage[tenant].Add(one)
	}
	return usage, nil
}

// Close ends the idle supervisors. Those of running commands end them by themselves once this process is gone.
func (r *Runner) Close() { r.leaves.Close() }
