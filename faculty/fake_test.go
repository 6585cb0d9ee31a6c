package faculty_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"playground/faculty"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/ring"
)

// A world is jaild and reaperd, as far as workers need them, and the operator's files.
type world struct {
	mu        sync.Mutex
	defs      []faculty.Definition
	defsErr   error
	tokens    map[string]string
	sandboxes map[string]jail.Sandbox
	handles   map[string]int
	services  map[string]*fakeService
	next      int
	down      bool              // reaperd does not answer
	startErr  error             // of the next starts
	lostReply bool              // the next start works, and nobody hears
	hang      map[string]bool   // tenants whose commands end only with their caller
	stageSays string            // staging fails with this on its standard error
	staged    map[string]string // tokens by tenant and path
	execs     []job.Spec
	starts    []job.ServiceSpec
	troubles  []string
}

type fakeService struct {
	job.Service
	out    []ring.Chunk
	cursor int64
	ended  chan struct{}
	deaf   bool // it does not end when it is told to
}

func newWorld() *world {
	w := &world{
		tokens: map[string]string{"/t/alice": "s3cret"}, sandboxes: make(map[string]jail.Sandbox), handles: make(map[string]int),
		services: make(map[string]*fakeService), staged: make(map[string]string),
	}
	w.sandboxes["alice"] = jail.Sandbox{Tenant: "alice", ID: "01A", Persona: "alice assistant", Isolation: jail.IsolationNamespaces, Network: jail.NetworkNone}
	w.defs = []faculty.Definition{alice()}
	return w
}

func alice() faculty.Definition {
	return faculty.Definition{
		Tenant: "alice", Program: "/opt/w", Args: []string{"--at", "{address}", "--token={token_file}"},
		Address: netip.MustParseAddrPort("127.0.0.1:9001"), TokenFile: "/t/alice", Env: map[string]string{"MODE": "x"}, RestartDelay: time.Second,
	}
}

func (w *world) load() ([]faculty.Definition, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.defs), w.defsErr
}

func (w *world) token(path string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, ok := w.tokens[path]; ok {
		return []byte(t), nil
	}
	return nil, fault.New(fault.Invalid, "cannot read private file %q", path)
}

func (w *world) Open(_ context.Context, tenant string, _ jail.OpenOptions) (jail.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sandboxes[tenant]
	if !ok {
		return s, fault.New(fault.NotFound, "there is no tenant %q", tenant)
	}
	w.handles[tenant]++
	return s, nil
}

func (w *world) Close(ctx context.Context, tenant string) (jail.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return jail.Sandbox{}, ctx.Err()
	}
	if w.handles[tenant] == 0 {
		return jail.Sandbox{}, fault.New(fault.NotOpen, "the session is not open")
	}
	w.handles[tenant]--
	return w.sandboxes[tenant], nil
}

func (w *world) Get(_ context.Context, tenant string) (jail.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sandboxes[tenant]
	if !ok {
		return s, fault.New(fault.NotFound, "there is no tenant %q", tenant)
	}
	return s, nil
}

var errDown = fault.New(fault.Unavailable, "cannot reach playground-reaperd")

func (w *world) Exec(ctx context.Context, spec job.Spec, _, _ int) (job.Execution, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hang[spec.Tenant] {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return job.Execution{}, ctx.Err()
	}
	if w.down {
		return job.Execution{}, errDown
	}
	if w.handles[spec.Tenant] == 0 {
		return job.Execution{}, fault.New(fault.NotOpen, "the session is not open")
	}
	if w.stageSays != "" && spec.Stdin != nil {
		code := 1
		return job.Execution{Result: job.Result{Outcome: job.Exited, ExitCode: &code}, Stderr: ring.Captured{Tail: []byte(w.stageSays)}}, nil
	}
	spec.Stdin = slices.Clone(spec.Stdin)
	w.execs = append(w.execs, spec)
	if spec.Stdin != nil {
		w.staged[string(spec.Args[0])] = string(spec.Stdin)
	} else {
		for _, path := range spec.Args {
			delete(w.staged, string(path))
		}
	}
	code := 0
	return job.Execution{Result: job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Proven: true}}}, nil
}

func (w *world) Start(_ context.Context, spec job.ServiceSpec) (job.Service, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.down:
		return job.Service{}, errDown
	case w.startErr != nil:
		return job.Service{}, w.startErr
	}
	for _, s := range w.services {
		if s.Tenant == spec.Tenant && s.Name == spec.Name && s.State != job.Terminal {
			return job.Service{}, fault.New(fault.Exists, "it runs already")
		}
	}
	w.next++
	s := &fakeService{ended: make(chan struct{})}
	s.Service = job.Service{ID: fmt.Sprintf("svc-%d", w.next), Tenant: spec.Tenant, Name: spec.Name, State: job.Running, Started: time.Now()}
	w.services[s.ID] = s
	w.starts = append(w.starts, spec)
	if w.lostReply {
		w.lostReply = false
		return job.Service{}, fault.New(fault.Unavailable, "lost the connection")
	}
	return s.Service, nil
}

func (w *world) Poll(ctx context.Context, id string, cursor int64, wait time.Duration) (job.Page, error) {
	w.mu.Lock()
	s, ok := w.services[id]
	down := w.down
	w.mu.Unlock()
	if down {
		return job.Page{}, errDown
	}
	if !ok {
		return job.Page{}, fault.New(fault.NotFound, "unknown service")
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		return job.Page{}, ctx.Err()
	case <-time.After(min(wait, time.Second)):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return job.Page{}, errDown
	}
	page := job.Page{JobID: id, State: s.State, NextCursor: s.cursor}
	if cursor < s.cursor {
		page.Chunks = s.out
	}
	if s.State == job.Terminal {
		page.Result = s.Result
	}
	return page, nil
}

func (w *world) Stop(_ context.Context, id string) (job.Result, error) {
	w.mu.Lock()
	s, ok := w.services[id]
	down := w.down
	w.mu.Unlock()
	switch {
	case down:
		return job.Result{}, errDown
	case !ok:
		return job.Result{}, fault.New(fault.NotFound, "unknown service")
	case s.deaf:
		return job.Result{}, fault.New(fault.Busy, "it does not end in time")
	}
	w.end(id, job.Result{Outcome: job.Cancelled, Cleanup: job.Cleanup{Killed: 2, Proven: true}})
	return *s.Result, nil
}

func (w *world) Services(context.Context) ([]faculty.Service, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errDown
	}
	var list []faculty.Service
	for _, s := range w.services {
		list = append(list, faculty.Service{Service: s.Service, Pid: 42, Usage: map[string]int64{"maxproc": 1}})
	}
	return list, nil
}

// end ends a service.
func (w *world) end(id string, result job.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.services[id]; s != nil && s.State != job.Terminal {
		s.State, s.Result = job.Terminal, &result
		close(s.ended)
	}
}

// exit ends the running service by itself.
func (w *world) exit(code int) {
	for _, s := range w.running() {
		w.end(s, job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Proven: true}})
	}
}

// restart is a reaperd that ended with all it ran, and is there again.
func (w *world) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.services {
		if s.State != job.Terminal {
			s.State = job.Terminal
			close(s.ended)
		}
	}
	w.services, w.down = make(map[string]*fakeService), false
}

func (w *world) running() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id, s := range w.services {
		if s.State != job.Terminal {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// set changes the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) trouble(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles = append(w.troubles, id+": "+err.Error())
}

// A bench is a running Manager over a world.
type bench struct {
	*faculty.Manager
	t    *testing.T
	w    *world
	stop func() error
}

// run starts a manager in dir. It must be called in a bubble, and stop before that ends.
func run(t *testing.T, w *world, dir string) *bench {
	t.Helper()
	m := faculty.NewManager(faculty.Options{
		Load: w.load, Token: w.token, Jails: w, Reaper: w, Dir: dir, Path: "/usr/bin:/bin", Failed: w.trouble, Note: func(string, string) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- m.Run(ctx, func() { close(ready) }) }()
	<-ready
	b := &bench{Manager: m, t: t, w: w}
	b.stop = func() error {
		cancel()
		return <-ended
	}
	synctest.Wait()
	return b
}

// worker returns a worker as List tells of it.
func (b *bench) worker(id string) faculty.Worker {
	b.t.Helper()
	listing, err := b.List(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, worker := range listing.Workers {
		if worker.ID == id {
			return worker
		}
	}
	b.t.Fatalf("no worker %s in %+v", id, listing)
	return faculty.Worker{}
}

// reach waits, in the bubble's time, until a worker is in a state.
func (b *bench) reach(id string, state faculty.State) faculty.Worker {
	b.t.Helper()
	for range 2000 {
		synctest.Wait()
		if w := b.worker(id); w.State == state {
			return w
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("%s is not %s but %+v", id, state, b.worker(id))
	return faculty.Worker{}
}

func (b *bench) log(id string) string {
	b.t.Helper()
	page, err := b.Log(id, -100_000)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(page.Data)
}

// is fails the test unless err is of a kind and says something.
func is(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s with %q", err, kind, text)
	}
}
