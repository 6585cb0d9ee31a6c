package faculty

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"playground/fault"
	"playground/job"
)

// Options say what a Manager works with.
type Options struct {
	// Load returns the definitions as they are now.
	Load   func() ([]Definition, error)
	Token  func(path string) ([]byte, error) // reads a worker's token
	Jails  Jails
	Reaper Reaper
	Dir    string // the Manager's own folder: marks and logs
	Path   string // PATH of workers
	// Failed tells the operator of the host what no caller asks for; id is "" for what is about no worker.
	Failed func(id string, err error)
	// Note tells what a worker does: that it was started, how it ended.
	Note func(id, text string)
}

// A Manager keeps the workers of a host. Run must be called once; the other methods may be called while it runs.
type Manager struct {
	opts   Options
	host   *host
	booted chan struct{} // closed when nothing of an earlier process is left
	spawn  func(*keeper) // set by Run

	// mu guards what follows.
	mu      sync.Mutex
	keepers map[string]*keeper
	closed  bool
}

// Bounds of ending all workers at a stop; less than the daemon has.
const (
	stopLimit = 50 * time.Second
	awayLimit = 10 * time.Second // while reaperd does not answer
)

// NewManager returns a Manager.
func NewManager(opts Options) *Manager {
	return &Manager{
		opts: opts, booted: make(chan struct{}), keepers: make(map[string]*keeper),
		host: &host{jails: opts.Jails, reaper: opts.Reaper, token: opts.Token, path: opts.Path, marks: marks(opts.Dir), failed: opts.Failed, note: opts.Note,
			places: newPlaces(startsAtOnce)},
	}
}

// Run starts the workers that are defined, but for those that were stopped by hand, and keeps them until ctx ends. Then it ends
// them all and returns when nothing is left, or an error. Definitions that are not valid are no reason not to run: then there
// are no workers until the operator mends them and starts some.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	if err := m.host.marks.make(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot make the folder for workers")
	}
	giveUp, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running, limit sync.WaitGroup
	defer limit.Wait()
	defer cancel()
	m.spawn = func(k *keeper) { running.Go(func() { k.run(ctx, giveUp) }) }
	ready()
	if err := m.boot(ctx); err == nil {
		m.startAll()
	}
	<-ctx.Done()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	limit.Go(func() { m.limitStop(giveUp, cancel) })
	running.Wait()
	return m.leftovers()
}

// limitStop ends a stop that takes too long, or in which nobody is there to end anything: a reaperd that was stopped first has
// ended all workers itself.
func (m *Manager) limitStop(ctx context.Context, giveUp func()) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for away := time.Duration(0); ctx.Err() == nil && away < awayLimit; {
		pause(ctx, time.Second)
		if _, err := m.opts.Reaper.Services(ctx); errors.Is(err, fault.Unavailable) {
			away += time.Second
		} else {
			away = 0
		}
	}
	giveUp()
}

// boot ends all workers of an earlier process: how they were started, and with which token, is not known any more.
func (m *Manager) boot(ctx context.Context) error {
	for told := false; ; {
		err := m.endAll(ctx)
		if err == nil {
			close(m.booted)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !told {
			told = true
			m.opts.Failed("", err)
		}
		pause(ctx, againAfter)
	}
}

func (m *Manager) endAll(ctx context.Context) error {
	services, err := m.opts.Reaper.Services(ctx)
	if err != nil {
		return err
	}
	var ending sync.WaitGroup
	errs := make([]error, len(services))
	for i, s := range services {
		if s.State == job.Terminal || s.Name != servicePrefix && !strings.HasPrefix(s.Name, servicePrefix+"-") {
			continue
		}
		ending.Go(func() {
			if _, err := m.opts.Reaper.Stop(ctx, s.ID); err != nil && !errors.Is(err, fault.NotFound) {
				errs[i] = err
			}
		})
	}
	ending.Wait()
	return errors.Join(errs...)
}

// startAll starts what is defined.
func (m *Manager) startAll() {
	defs, err := m.opts.Load()
	if err != nil {
		m.opts.Failed("", err)
		return
	}
	for _, def := range defs {
		k, err := m.keep(def)
		if err != nil {
			return // it is being stopped
		}
		if _, stopped := m.host.marks.get(markStopped, k.id); stopped {
			continue
		}
		k.wish(k.as(def, (*Machine).Start))
	}
}

// keep returns the worker's keeper, and makes one if there is none.
func (m *Manager) keep(def Definition) (*keeper, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fault.New(fault.Unavailable, "playground-facultyd is stopping")
	}
	k := m.keepers[def.ID()]
	if k == nil {
		k = newKeeper(m.host, def)
		m.keepers[k.id] = k
		m.spawn(k)
	}
	return k, nil
}

// leftovers is an error that names what could not be ended, nil if all is.
func (m *Manager) leftovers() error {
	var left []string
	for _, id := range slices.Sorted(maps.Keys(m.keepers)) {
		if w := m.keepers[id].worker(); w.State != Stopped || w.LastExit != nil && !w.LastExit.Result.Cleanup.Proven {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fault.New(fault.ProofLost, "these workers are not proved to have ended: %s", strings.Join(left, ", ")).
		WithHint("playground-reaperd ends all that it runs when it stops")
}

// find returns the keeper of a worker that is kept, whatever the definitions say by now.
func (m *Manager) find(id string) (*keeper, error) {
	m.mu.Lock()
	k := m.keepers[id]
	m.mu.Unlock()
	if k != nil {
		return k, nil
	}
	if _, err := m.defined(id); err == nil {
		return nil, fault.New(fault.NotFound, "worker %q was never started", id).WithHint("playground faculty start %s", id)
	}
	return nil, unknownWorker(id)
}

func unknownWorker(id string) error {
	return fault.New(fault.NotFound, "there is no worker %.70q", id).WithHint("see `playground faculty list`")
}

// defined returns the worker's definition as it is now.
func (m *Manager) defined(id string) (Definition, error) {
	defs, err := m.opts.Load()
	if err != nil {
		return Definition{}, err
	}
	for _, def := range defs {
		if def.ID() == id {
			return def, nil
		}
	}
	return Definition{}, unknownWorker(id)
}

// ready waits until workers may be started.
func (m *Manager) ready(ctx context.Context) error {
	select {
	case <-m.booted:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	select {
	case <-m.booted:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "workers of an earlier playground-facultyd could not be ended yet").
			WithHint("look whether playground-reaperd runs: playground status")
	}
}

// Start starts a worker with what the definitions say now, and forgets that it was stopped by hand or ended too often. It returns
// when the worker runs, or when it is known why it does not.
func (m *Manager) Start(ctx context.Context, id string) (Worker, error) {
	return m.begin(ctx, id, (*Machine).Start)
}

// Restart is Stop and Start, but nothing is stopped when the definitions are not valid.
func (m *Manager) Restart(ctx context.Context, id string) (Worker, error) {
	return m.begin(ctx, id, (*Machine).Restart)
}

func (m *Manager) begin(ctx context.Context, id string, wish func(*Machine, time.Time) Act) (Worker, error) {
	def, err := m.defined(id)
	if err != nil {
		return Worker{}, err
	}
	if err := m.ready(ctx); err != nil {
		return Worker{}, err
	}
	k, err := m.keep(def)
	if err != nil {
		return Worker{}, err
	}
	if err := m.host.marks.drop(markStopped, id); err != nil {
		return Worker{}, fault.Wrap(fault.Unavailable, err, "cannot forget that worker %q was stopped", id)
	}
	k.wish(k.as(def, wish))
	return k.settle(ctx, func(s State) bool { return s != Starting && s != Stopping })
}

// Stop stops a worker and returns when nothing of it is left. It stays stopped until somebody starts it, over restarts of this
// process too. It does not look at the definitions.
func (m *Manager) Stop(ctx context.Context, id string) (Worker, error) {
	k, err := m.find(id)
	if err != nil {
		return Worker{}, err
	}
	// A disk that is full must not keep it from being stopped now.
	if err := m.host.marks.set(markStopped, id, ""); err != nil {
		m.opts.Failed(id, err)
	}
	k.wish((*Machine).Stop)
	return k.settle(ctx, func(s State) bool { return s == Stopped })
}

// Log returns what a worker's log holds from a position on, a negative one being counted from the end.
func (m *Manager) Log(id string, from int64) (LogPage, error) {
	k, err := m.find(id)
	if err != nil {
		return LogPage{}, err
	}
	return k.log.read(from)
}

// Report takes what a check found of one life of a worker.
func (m *Manager) Report(id string, health Health) error {
	k, err := m.find(id)
	if err != nil {
		return err
	}
	return k.report(health)
}

// List returns all workers, by id: those that are kept, and those that are only defined.
func (m *Manager) List(ctx context.Context) (Listing, error) {
	var listing Listing
	defs, err := m.opts.Load()
	if err != nil {
		listing.Problem = err.Error()
	}
	m.mu.Lock()
	keepers := maps.Clone(m.keepers)
	m.mu.Unlock()
	unknown := "it is new in the definitions"
	select {
	case <-m.booted:
	default:
		unknown = "it waits until the workers of an earlier playground-facultyd have ended"
	}
	now := make(map[string]Definition)
	for _, def := range defs {
		now[def.ID()] = def
		if keepers[def.ID()] == nil {
			listing.Workers = append(listing.Workers, Worker{
				ID: def.ID(), Tenant: def.Tenant, Name: def.Name, Address: def.Address.String(), State: Stopped,
				Problem: unknown, Stale: true,
			})
		}
	}
	vitals := m.vitals(ctx)
	for id, k := range keepers {
		w := k.worker()
		if def, ok := now[id]; err == nil && !ok {
			w.Stale = true
		} else if err == nil {
			w.Stale = !reflect.DeepEqual(def, k.definition())
		}
		_, w.ByHand = m.host.marks.get(markStopped, id)
		if v, ok := vitals[w.Run]; ok {
			w.Pid, w.Usage = v.Pid, v.Usage
		}
		listing.Workers = append(listing.Workers, w)
	}
	slices.SortFunc(listing.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return listing, nil
}

// vitals returns what reaperd says of running services, by id; a list is useful without, too.
func (m *Manager) vitals(ctx context.Context) map[string]Service {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	services, err := m.opts.Reaper.Services(ctx)
	if err != nil {
		return nil
	}
	vitals := make(map[string]Service, len(services))
	for _, s := range services {
		vitals[s.ID] = s
	}
	return vitals
}
