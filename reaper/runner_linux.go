package reaper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper/command"
	"playground/reaper/jobinit"
	"playground/seqpacket"
)

// A Runner runs commands in tenants' sandboxes. It implements job.Runner.
type Runner struct {
	jails Jails
	opts  Options

	cgroups *racct.Cgroups // nil: rlimits only

	// mu guards what follows.
	mu       sync.Mutex
	holders  map[string]*holderConn
	trees    map[string]map[*tree]struct{} // running jobs by tenant
	services map[string]*tree              // those that are services, by id
}

// A holderConn is a connection to one tenant's holder.
type holderConn struct {
	generation uint64

	// mu makes a start and its answer one act.
	mu   sync.Mutex
	conn *seqpacket.Conn
}

// NewRunner returns a Runner.
func NewRunner(jails Jails, opts Options) *Runner {
	return &Runner{
		jails: jails, opts: opts, holders: make(map[string]*holderConn),
		trees: make(map[string]map[*tree]struct{}), services: make(map[string]*tree),
	}
}

// Run runs one command to its proved end; see job.Runner.
func (r *Runner) Run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	t, err := r.start(ctx, spec, out)
	if err != nil {
		if ctx.Err() != nil { // it was ended before it began
			return job.Result{Outcome: command.OutcomeOf(ctx), Cleanup: job.Cleanup{Proven: true}}, nil
		}
		return job.Result{}, err
	}
	r.enter(spec, t)
	defer r.leave(spec, t)
	return t.finish(ctx, r.opts, func() { r.endOthers(spec.Tenant, t) })
}

func (r *Runner) enter(spec job.Spec, t *tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trees[spec.Tenant] == nil {
		r.trees[spec.Tenant] = make(map[*tree]struct{})
	}
	r.trees[spec.Tenant][t] = struct{}{}
	if spec.Service != "" {
		r.services[spec.Service] = t
	}
}

func (r *Runner) leave(spec job.Spec, t *tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.trees[spec.Tenant], t); len(r.trees[spec.Tenant]) == 0 {
		delete(r.trees, spec.Tenant)
	}
	delete(r.services, spec.Service)
}

// endOthers kills the tenant's other jobs: they may be what keeps one from ending, by taking all processor time from it. That
// costs the tenant its jobs, and not the host its proof.
func (r *Runner) endOthers(tenant string, t *tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.trees[tenant] {
		if other != t && other.isolated {
			other.hammer()
		}
	}
}

// start gets an init for the command and tells it what to run.
func (r *Runner) start(ctx context.Context, spec job.Spec, out job.Output) (*tree, error) {
	att, err := r.jails.Attachment(ctx, spec.Tenant)
	if err != nil {
		return nil, err
	}
	message, err := json.Marshal(startOf(spec, att, r.cgroups != nil))
	if err != nil {
		return nil, err
	}
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "cannot start a command")
	}
	defer theirs.Close()
	pidfd, err := r.takeInit(ctx, att, theirs)
	if err != nil {
		ours.Close()
		return nil, err
	}
	t := &tree{conn: ours, pidfd: pidfd, isolated: att.Sandbox.Isolation != jail.IsolationNone}
	if err := t.write(r.opts.Journal); err != nil {
		t.abandon()
		return nil, fault.Hide(fault.Unavailable, err, "cannot write down a command")
	}
	if err := r.bound(t, att.Limits); err != nil {
		t.abandon()
		return nil, fault.Hide(fault.Unavailable, err, "cannot set the limits of a command")
	}
	stdio, err := t.files.Open(spec.Stdin)
	if err == nil {
		err = ours.Send(message, stdio...)
	}
	for _, f := range stdio {
		f.Close()
	}
	if err != nil {
		t.abandon()
		if errors.Is(err, unix.EMSGSIZE) {
			return nil, fault.New(fault.TooLarge, "the command and its environment are too large together").
				WithHint("write the command to a file and run that")
		}
		return nil, fault.Hide(fault.Unavailable, err, "cannot start a command")
	}
	t.files.Pump(spec.Stdin, out)
	return t, nil
}

// UseCgroups gives each job a cgroup, where one is delegated to this daemon; the error says why not. Call it before Run.
func (r *Runner) UseCgroups() error {
	cgroups, err := racct.OpenCgroups()
	if err == nil {
		r.cgroups = cgroups
	}
	return err
}

// bound puts the init, which has started nothing yet, into the job's cgroup.
func (r *Runner) bound(t *tree, limits racct.Limits) error {
	if r.cgroups == nil {
		return nil
	}
	pid, err := t.pid()
	if err != nil {
		return err
	}
	group, err := r.cgroups.New(strings.ToLower(ulid.Make().String()), limits)
	if err != nil {
		return err
	}
	t.cgroup = group
	return group.Add(pid)
}

// takeInit hands the job's connection to one of the sandbox's inits and returns that init's pidfd. A holder that closed
// meanwhile is asked for anew once.
func (r *Runner) takeInit(ctx context.Context, att jail.Attachment, job *seqpacket.Conn) (*os.File, error) {
	tenant := att.Sandbox.Tenant
	for attempt := 0; ; attempt++ {
		h, err := r.holder(ctx, tenant, att.Generation)
		if err != nil {
			return nil, err
		}
		pidfd, err := h.start(job)
		if err == nil {
			return pidfd, nil
		}
		r.drop(tenant, h)
		if attempt > 0 {
			return nil, fault.Hide(fault.Unavailable, err, "cannot start a command in the sandbox").WithHint("try again; if it stays, run `playground doctor`")
		}
		if att, err = r.jails.Attachment(ctx, tenant); err != nil {
			return nil, err
		}
	}
}

// holder returns the connection to the tenant's holder of that generation.
func (r *Runner) holder(ctx context.Context, tenant string, generation uint64) (*holderConn, error) {
	r.mu.Lock()
	h := r.holders[tenant]
	r.mu.Unlock()
	if h != nil && h.generation == generation {
		return h, nil
	}
	f, err := r.jails.Connect(ctx, tenant)
	if err != nil {
		return nil, err
	}
	conn, err := seqpacket.FromFile(f)
	if err != nil {
		return nil, fault.Hide(fault.Internal, err, "cannot use the sandbox's connection")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.holders[tenant]; now != nil && now != h && now.generation == generation {
		conn.Close() // another start was faster
		return now, nil
	}
	if h != nil {
		h.conn.Close()
	}
	h = &holderConn{generation: generation, conn: conn}
	r.holders[tenant] = h
	return h, nil
}

func (r *Runner) drop(tenant string, h *holderConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[tenant] == h {
		delete(r.holders, tenant)
	}
	h.conn.Close()
}

// Close drops the connections to holders.
func (r *Runner) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tenant, h := range r.holders {
		h.conn.Close()
		delete(r.holders, tenant)
	}
}

func (h *holderConn) start(job *seqpacket.Conn) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.conn.Send([]byte("start"), job.File()); err != nil {
		return nil, err
	}
	h.conn.SetDeadline(time.Now().Add(startTimeout))
	defer h.conn.SetDeadline(time.Time{})
	data, files, err := h.conn.Recv(make([]byte, 4096))
	if err != nil {
		return nil, err
	}
	var reply struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, fmt.Errorf("internal error: malformed reply of holder: %w", err)
	}
	if reply.Error != "" || len(files) != 1 {
		for _, f := range files {
			f.Close()
		}
		return nil, errors.New(reply.Error)
	}
	return pollable(files[0])
}

// startTimeout bounds getting an init; a cold one takes some 5 ms.
const startTimeout = 15 * time.Second

// pollable makes the runtime's poller watch a received descriptor.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// startOf is the init's message for a command.
func startOf(spec job.Spec, att jail.Attachment, once bool) jobinit.Start {
	c := command.Of(spec, att)
	return jobinit.Start{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Once: once}
}
