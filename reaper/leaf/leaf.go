// Package leaf runs commands on FreeBSD, each in a leaf jail of its own under its tenant's jail, with limits of its own and a
// supervisor that is the reaper of all that it starts. It knows the order of things; the kernel below it is a Host.
//
// Limits come before the jail, the jail before the process, and at the end they go in the opposite order, so that at no moment
// something runs without them.
package leaf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper/command"
	"playground/reaper/pool"
	"playground/reaper/proof"
	"playground/reaper/supervisor"
)

// A Host is the kernel as a Runner uses it.
type Host interface {
	// Limit puts limits into force for a leaf that does not exist yet, and returns them as rctl(8) rules.
	Limit(jail string, l racct.Limits) (rules []string, err error)
	Unlimit(jail string) error
	CreateLeaf(spec jail.LeafSpec) (jid int, err error)
	// Kernel is what the end of a leaf is brought about with when its supervisor is lost.
	Kernel(jail string, jid int) (proof.Kernel, error)
	// Started returns when a process was started; 0 if there is none.
	Started(pid int) uint64
	// DiskFull reports whether a sandbox's filesystem has no room left.
	DiskFull(root string) bool
}

// Options configure a Runner.
type Options struct {
	Grace    time.Duration // between SIGTERM and the end when a command is cancelled
	Deadline time.Duration // from the beginning of the end to the proof
}

// A Runner runs commands. It implements job.Runner.
type Runner struct {
	attachment func(ctx context.Context, tenant string) (jail.Attachment, error)
	pool       *pool.Pool
	host       Host
	opts       Options

	stop     chan struct{} // closed by Close
	closing  sync.Once
	watchers sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	running  map[string]string // tenants by the names of their leaves
	services map[string]*watch // running services by id
}

// New returns a Runner that asks attachment for a tenant's sandbox and takes supervisors from the pool.
func New(attachment func(context.Context, string) (jail.Attachment, error), p *pool.Pool, host Host, opts Options) *Runner {
	return &Runner{
		attachment: attachment, pool: p, host: host, opts: opts,
		stop: make(chan struct{}), running: make(map[string]string), services: make(map[string]*watch),
	}
}

// Close ends the pool and the watch over what could not be proved. Supervisors of running commands end them by themselves
// once this process is gone.
func (r *Runner) Close() {
	r.closing.Do(func() { close(r.stop) })
	r.watchers.Wait()
	r.pool.Close()
}

// Run runs one command to its proved end; see job.Runner.
func (r *Runner) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	w, err := r.start(ctx, spec, out)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, fault.ProofLost) { // it was ended before it began
			return job.Result{Outcome: command.OutcomeOf(ctx), Cleanup: job.Cleanup{Proven: true}}, nil
		}
		return job.Result{}, err
	}
	defer r.leave(w.jail)
	if spec.Service != "" {
		r.serve(spec.Service, w)
		defer r.serve(spec.Service, nil)
	}
	return w.finish(ctx)
}

// serve notes where a service runs, or with nil that it does not any more.
func (r *Runner) serve(id string, w *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.services[id] = w; w == nil {
		delete(r.services, id)
	}
}

// enter and leave say that a leaf is this Runner's, from before it exists until its end is proved or on record.
func (r *Runner) enter(leaf, tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[leaf] = tenant
}

func (r *Runner) leave(leaf string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, leaf)
}

// Running returns the leaves of commands that run or are being started, by the full names of their jails, with their tenants.
func (r *Runner) Running() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.running)
}

// A Leaf is where a service runs.
type Leaf struct {
	Jail       string // full name
	JID        int
	Supervisor int // process id of the parent of the service's program
}

// Services returns where services run, by id.
func (r *Runner) Services() map[string]Leaf {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]Leaf, len(r.services))
	for id, w := range r.services {
		all[id] = Leaf{Jail: w.jail, JID: w.jid, Supervisor: w.sup.Pid}
	}
	return all
}

// start makes limits, jail and pipes, and gives them with the command to a supervisor.
func (r *Runner) start(ctx context.Context, spec job.Spec, out job.Output) (_ *watch, err error) {
	att, err := r.attachment(ctx, spec.Tenant)
	if err != nil {
		return nil, err
	}
	if att.Sandbox.Isolation != jail.IsolationJail || att.Sandbox.Name == "" || att.Root == "" {
		return nil, fault.New(fault.Unsupported, "the sandbox is no jail: nothing is run outside of one")
	}
	sup, err := r.pool.Take(ctx)
	if err != nil {
		return nil, err
	}
	leaf := jail.LeafSpec{Parent: att.Sandbox.Name, Name: newName(), Root: att.Root}
	w := &watch{r: r, sup: sup, root: att.Root, jail: leaf.FullName()}
	r.enter(w.jail, spec.Tenant)
	defer func() {
		if err != nil {
			r.leave(w.jail)
		}
	}()
	rules, err := w.prepare(leaf, att.Limits)
	if err != nil {
		sup.Close()
		return nil, err
	}
	c := command.Of(spec, att)
	stdio, err := w.files.Open(spec.Stdin)
	if err == nil {
		err = sup.Start(supervisor.Start{
			Argv: c.Argv, Env: c.Env, Dir: c.Dir, JID: w.jid, Jail: w.jail, Limits: rules,
			Grace: r.opts.Grace, Deadline: r.opts.Deadline,
		}, stdio)
	}
	for _, f := range stdio {
		f.Close()
	}
	if err != nil {
		return nil, w.abandon(err)
	}
	w.files.Pump(spec.Stdin, out)
	return w, nil
}

// prepare makes the leaf jail, its limits first, and returns them.
func (w *watch) prepare(spec jail.LeafSpec, limits racct.Limits) ([]string, error) {
	rules, err := w.r.host.Limit(w.jail, limits)
	if err != nil {
		return nil, err
	}
	w.jid, err = w.r.host.CreateLeaf(spec)
	if err == nil && w.jid <= 0 {
		err = fault.New(fault.Internal, "internal error: the kernel gave the job's jail the number %d", w.jid)
	}
	if err != nil {
		if unlimitErr := w.r.host.Unlimit(w.jail); unlimitErr != nil {
			return nil, fmt.Errorf("%w (and its limits stay: %v)", err, unlimitErr)
		}
		return nil, err
	}
	return rules, nil
}

// abandon takes everything back when the supervisor may not have got its job. Whether it did is not known, so its end is
// proved like any other.
func (w *watch) abandon(cause error) error {
	w.sup.Close()
	w.files.Close()
	select {
	case <-w.sup.Done():
	case <-time.After(w.r.opts.Deadline + slack):
		w.r.watchers.Go(w.goOn)
		return fault.Wrap(fault.ProofLost, cause, "a command was not started, and its supervisor does not end")
	}
	if report := w.recover(w.r.opts.Deadline); !report.Proven {
		w.r.watchers.Go(w.goOn)
		return fault.Wrap(fault.ProofLost, cause, "a command was not started, and its clean-up could not be proved")
	}
	if errors.Is(cause, unix.EMSGSIZE) {
		return fault.New(fault.TooLarge, "the command and its environment are too large together").
			WithHint("write the command to a file and run that")
	}
	return fault.Wrap(fault.Unavailable, cause, "cannot start a command")
}

// slack is what a supervisor gets beyond its deadline to say so.
const slack = 3 * time.Second

// quietTime is for how long at most other starts wait for a recovery, at a time.
const quietTime = 250 * time.Millisecond

// recover ends what a lost supervisor left. Done must be closed.
func (w *watch) recover(limit time.Duration) proof.Report {
	if w.ending == nil {
		kernel, err := w.r.host.Kernel(w.jail, w.jid)
		if err == nil {
			w.ending, err = proof.NewBranch(kernel, w.sup.Pid)
		}
		if err != nil {
			return proof.Report{Survivors: 1, Doubts: []string{err.Error()}}
		}
	}
	var report proof.Report
	for end := time.Now().Add(limit); ; {
		w.r.pool.Quiet(func() {
			until := time.Now().Add(quietTime)
			if end.Before(until) {
				until = end
			}
			report = w.ending.Run(until)
		})
		if report.Proven || !time.Now().Before(end) {
			return report
		}
	}
}
