package job

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"playground/fault"
	"playground/ring"
)

// A State is where a job is in its life. It only ever moves forward.
type State string

// The states. A job stays Cancelling until its clean-up has ended, and its output goes on until then.
const (
	Running    State = "running"
	Cancelling State = "cancelling"
	Terminal   State = "terminal"
)

// A Manager admits commands within Limits, runs them through a Runner, keeps the output of jobs for polling, and shuts
// admission for everybody once a command's clean-up is not proved. All methods may be called at once from any goroutine.
//
// It has no goroutine of its own: each job has one, which ends with the job, and Shutdown waits for all of them.
type Manager struct {
	runner Runner
	limits Limits
	store  LostStore

	// storeMu makes changes of the lost record one at a time, in the store and in memory alike. It is taken before mu.
	storeMu sync.Mutex

	// mu guards all below. No call to the Runner or to the store happens under it.
	mu       sync.Mutex
	runs     map[*run]struct{} // what is running: jobs and synchronous commands
	jobs     map[string]*run   // handles of jobs by id, running and ended ones
	services map[string]*run   // those of services
	serving  int               // how many of runs are services
	tenants  map[string]*tally // only tenants that have something
	lost     *Lost             // nil = all is proved
	lostC    chan struct{}     // closed while lost is not nil
	storeErr error             // the last failure to keep lost on disk
	draining bool
	sweepAt  time.Time   // when the next ended job expires; zero = none is kept
	sweeper  *time.Timer // sweeps at sweepAt
}

// A tally counts what one tenant has.
type tally struct {
	active   int // running jobs and synchronous commands
	retained int // handles
	services int // running services
	dropping int // calls of DropTenant under way: no start is admitted
}

// A run is one command, from its admission on.
type run struct {
	id      string // "" for a synchronous command, which nobody can name
	tenant  string
	service string      // its name; "" for what is no service
	lease   *time.Timer // a service's
	started time.Time
	cancel  context.CancelCauseFunc
	log     *ring.Log     // nil for a synchronous command
	done    chan struct{} // closed when its slot is free and, if its proof was lost, that is on record

	// Guarded by Manager.mu.
	state    State
	result   *Result // set once, with Terminal
	ended    time.Time
	observed bool // the final page was given out
}

// NewManager returns a Manager over r. If lost has a record of an earlier lost proof, or cannot be read, admission stays
// closed until Ack or Proved. NewManager panics for limits that Validate refuses.
func NewManager(r Runner, l Limits, lost LostStore) *Manager {
	if err := l.Validate(); err != nil {
		panic("internal error: job: " + err.Error())
	}
	m := &Manager{
		runner:  r,
		limits:  l,
		store:   lost,
		runs:    make(map[*run]struct{}),
		jobs:    make(map[string]*run),
		tenants: make(map[string]*tally),
		lostC:   make(chan struct{}),

		services: make(map[string]*run),
	}
	m.loadLost()
	return m
}

// A Status is a job without its output.
type Status struct {
	JobID  string `json:"job_id"`
	State  State  `json:"state"`
	Cursor int64  `json:"cursor"` // the oldest output that is still kept: where to begin polling
}

// Start admits a job and returns at once. The slices of spec must not be changed afterwards.
func (m *Manager) Start(spec Spec) (Status, error) {
	if err := m.check(&spec); err != nil {
		return Status{}, err
	}
	limit, err := timeout(spec.Timeout, m.limits.JobMax, m.limits.JobMax, "leave it out for the longest time")
	if err != nil {
		return Status{}, err
	}
	spec.Timeout = limit
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{
		id:     newID(),
		tenant: spec.Tenant,
		cancel: cancel,
		log:    ring.New(m.limits.RingBytes, m.limits.RingChunks),
	}
	if err := m.admit(r); err != nil {
		cancel(err)
		return Status{}, err
	}
	go m.runJob(ctx, r, spec)
	return Status{JobID: r.id, State: Running}, nil
}

// newID returns a job id. Its random part makes ids of others impossible to guess, though knowing one gives no access.
func newID() string {
	return "job-" + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

// Cancel asks a job to end and returns without waiting for it: poll for its end. It may be called again, and leaves an
// ended job as it is.
func (m *Manager) Cancel(tenant, id string) (Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.findLocked(tenant, id)
	if err != nil {
		return Status{}, err
	}
	m.cancelLocked(r)
	oldest, _ := r.log.Bounds()
	return Status{JobID: r.id, State: r.state, Cursor: oldest}, nil
}

// cancelLocked asks r to end.
func (m *Manager) cancelLocked(r *run) {
	if r.state == Running {
		r.state = Cancelling
	}
	r.cancel(ErrCancelled)
}

// findLocked returns a tenant's job. The error is the same whether the id is unknown or another tenant's.
func (m *Manager) findLocked(tenant, id string) (*run, error) {
	m.sweepLocked()
	r, ok := m.jobs[id]
	if !ok || r.tenant != tenant {
		return nil, fault.New(fault.NotFound, "unknown job").
			WithHint("use a job_id that job_exec returned; a job is kept for %s after its end", span(m.limits.TTL))
	}
	return r, nil
}

// DropTenant cancels all that a tenant runs, services included, waits until it is proved gone, and forgets the tenant's jobs. No start of the
// tenant is admitted meanwhile. It fails with ctx, and with fault.ProofLost when something may be left; the jobs are kept
// then.
func (m *Manager) DropTenant(ctx context.Context, tenant string) error {
	m.mu.Lock()
	t := m.tallyLocked(tenant)
	t.dropping++
	runs := m.cancelAllLocked(func(r *run) bool { return r.tenant == tenant })
	m.mu.Unlock()

	err := waitAll(ctx, runs)

	m.mu.Lock()
	defer m.mu.Unlock()
	t.dropping--
	defer m.forgetTallyLocked(tenant)
	switch {
	case err != nil:
		return fault.Wrap(fault.Busy, err, "cannot stop all commands of tenant %q", tenant).
			WithHint("they are being killed; try again in a moment")
	case m.lost != nil:
		return m.lostErrorLocked()
	}
	for _, r := range m.jobs {
		if r.tenant == tenant {
			m.removeLocked(r)
		}
	}
	m.forgetServicesLocked(func(r *run) bool { return r.tenant == tenant })
	return nil
}

// Shutdown refuses new starts, cancels all that runs and waits for its end. Ended jobs can be polled still. It may be
// called again when ctx ended first.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.draining = true
	runs := m.cancelAllLocked(func(*run) bool { return true })
	m.mu.Unlock()

	err := waitAll(ctx, runs)

	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return fault.Wrap(fault.Busy, err, "cannot stop %d commands", len(m.runs))
	}
	if m.sweeper != nil {
		m.sweeper.Stop()
	}
	return nil
}

// cancelAllLocked asks what is running and matches to end, and returns it.
func (m *Manager) cancelAllLocked(matches func(*run) bool) []*run {
	var runs []*run
	for r := range m.runs {
		if matches(r) {
			m.cancelLocked(r)
			runs = append(runs, r)
		}
	}
	return runs
}

// waitAll waits for the end of all runs.
func waitAll(ctx context.Context, runs []*run) error {
	for _, r := range runs {
		select {
		case <-r.done:
			continue // even if ctx has ended too: all may be over
		default:
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
