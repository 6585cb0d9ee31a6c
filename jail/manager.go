package jail

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"playground/fault"
	"playground/tenancy"
)

// A kernelObject is what holds an attached sandbox.
type kernelObject interface {
	Connect(ctx context.Context) (*os.File, error)
	Detach(ctx context.Context) error // fault.Busy while jobs run
	Gone() <-chan struct{}            // closed when nothing of it runs any more
	Kill()
}

// A Manager owns the sandboxes of a host. All methods may be called at once; acts on one tenant follow each other.
type Manager struct {
	opts   Options
	store  store
	attach func(ctx context.Context, rec record) (kernelObject, error)
	host   hostKernel // FreeBSD

	// mu guards what follows; never held while a tenant's lock is awaited.
	mu         sync.Mutex
	tenants    map[string]*tenant
	uids       map[uint32]bool // first uids of ranges in use
	addresses  map[netip.Addr]bool
	generation uint64
}

// A tenant is one sandbox and its session.
type tenant struct {
	// mu guards what follows.
	mu         sync.Mutex
	rec        record
	object     kernelObject // nil while detached
	generation uint64
	handles    int
	used       time.Time
	cwd        string
	env        map[string]string
	destroyed  bool
}

// NewManager reads the sandboxes of the state folder, and removes what an interrupted create or destroy left there.
func NewManager(opts Options) (*Manager, error) {
	m := &Manager{
		opts:    opts,
		store:   store{dir: opts.StateDir, uidBase: opts.UIDBase, pileSeed: opts.PileSeed},
		tenants: make(map[string]*tenant),
		uids:    make(map[uint32]bool),

		addresses: make(map[netip.Addr]bool),
		// Unlike any of an earlier process, so that nobody takes a new holder for one it knows.
		generation: uint64(time.Now().UnixNano()),
	}
	m.attach = m.attachKernel
	if err := m.prepareHost(); err != nil {
		return nil, err
	}
	records, err := m.store.open()
	if err != nil {
		return nil, err
	}
	for _, rec := range records {
		if _, dup := m.tenants[rec.Tenant]; dup {
			return nil, fault.New(fault.Internal, "two sandboxes in %s say they are tenant %q's", m.store.sandboxes(), rec.Tenant)
		}
		m.tenants[rec.Tenant] = &tenant{rec: rec}
		m.uids[rec.UIDBase] = true
		m.addresses[rec.Address] = true
	}
	return m, nil
}

// Provision makes a sandbox for a new tenant, all or nothing. It is not attached. fault.Exists if the name is taken.
func (m *Manager) Provision(ctx context.Context, spec ProvisionSpec) (Sandbox, error) {
	if err := tenancy.ValidName(spec.Tenant); err != nil {
		return Sandbox{}, err
	}
	if spec.Persona == "" {
		spec.Persona = spec.Tenant + " assistant"
	}
	if strings.ContainsFunc(spec.Persona, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(spec.Persona) > 256 {
		return Sandbox{}, fault.New(fault.Invalid, "persona is not valid").WithHint("use at most 256 bytes without control characters")
	}
	if spec.Network == "" {
		spec.Network = m.opts.Network
	}
	if err := validNetwork(spec.Network); err != nil {
		return Sandbox{}, err
	}
	if err := m.store.checkSource(spec.Source); err != nil {
		return Sandbox{}, err
	}
	t := &tenant{}
	t.mu.Lock() // others that find the new name wait until it is complete
	defer t.mu.Unlock()
	m.mu.Lock()
	if _, taken := m.tenants[spec.Tenant]; taken {
		m.mu.Unlock()
		return Sandbox{}, fault.New(fault.Exists, "tenant %q has a sandbox already", spec.Tenant).
			WithHint("choose another name, or see `playground user list`")
	}
	m.tenants[spec.Tenant] = t
	t.rec = record{Tenant: spec.Tenant, Persona: spec.Persona, Network: spec.Network, UIDBase: m.takeUIDsLocked(), Source: spec.Source}
	if m.store.backing != nil {
		t.rec.Storage, t.rec.Template = m.store.storage, m.opts.Template
	}
	var err error
	if spec.Network == NetworkAddress {
		t.rec.Address, err = m.takeAddressLocked()
	}
	m.mu.Unlock()

	if err == nil {
		t.rec, err = m.store.create(ctx, t.rec)
	}
	if err != nil {
		m.forget(t)
		return Sandbox{}, err
	}
	return m.describe(t), nil
}

// takeUIDsLocked takes a range of uids that no tenant has, and returns its first.
func (m *Manager) takeUIDsLocked() uint32 {
	if m.opts.UIDBase == 0 {
		return 0
	}
	base := m.opts.UIDBase
	for m.uids[base] {
		base += uidRange
	}
	m.uids[base] = true
	return base
}

// forget makes a locked tenant unknown, and its name, uids and address free.
func (m *Manager) forget(t *tenant) {
	t.destroyed = true
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tenants, t.rec.Tenant)
	delete(m.uids, t.rec.UIDBase)
	delete(m.addresses, t.rec.Address)
}

// List describes every sandbox, by tenant.
func (m *Manager) List(context.Context) ([]Sandbox, error) {
	m.mu.Lock()
	names := slices.Sorted(maps.Keys(m.tenants))
	m.mu.Unlock()
	list := make([]Sandbox, 0, len(names))
	for _, name := range names {
		t, err := m.lock(name)
		if err != nil {
			continue // destroyed meanwhile
		}
		list = append(list, m.describe(t))
		t.mu.Unlock()
	}
	return list, nil
}

// Get describes one sandbox.
func (m *Manager) Get(_ context.Context, name string) (Sandbox, error) {
	t, err := m.lock(name)
	if err != nil {
		return Sandbox{}, err
	}
	defer t.mu.Unlock()
	return m.describe(t), nil
}

// Open attaches the sandbox, if it is not, and counts one more handle. Cwd and Env, where named, hold for the session.
func (m *Manager) Open(ctx context.Context, name string, opts OpenOptions) (Sandbox, error) {
	if err := opts.Validate(); err != nil {
		return Sandbox{}, err
	}
	t, err := m.lock(name)
	if err != nil {
		return Sandbox{}, err
	}
	defer t.mu.Unlock()
	if err := m.ensure(ctx, t); err != nil {
		return Sandbox{}, err
	}
	if opts.Cwd != "" {
		t.cwd = opts.Cwd
	}
	if opts.Env != nil {
		t.env = maps.Clone(opts.Env)
	}
	t.handles++
	t.used = time.Now()
	m.saveSession(t)
	return m.describe(t), nil
}

// Close gives one handle back. The last one detaches the sandbox, or leaves that to the sweep while jobs run.
func (m *Manager) Close(ctx context.Context, name string) (Sandbox, error) {
	t, err := m.lock(name)
	if err != nil {
		return Sandbox{}, err
	}
	defer t.mu.Unlock()
	if t.handles == 0 {
		return Sandbox{}, notOpen()
	}
	t.handles--
	t.used = time.Now()
	if t.handles == 0 {
		m.endSession(ctx, t)
	}
	m.saveSession(t)
	return m.describe(t), nil
}

// Attachment returns what is needed to run a command in an open sandbox. A sandbox whose kernel object was lost is made
// anew. fault.NotOpen without an open handle.
func (m *Manager) Attachment(ctx context.Context, name string) (Attachment, error) {
	t, err := m.lockOpen(ctx, name)
	if err != nil {
		return Attachment{}, err
	}
	defer t.mu.Unlock()
	t.used = time.Now()
	cwd := t.cwd
	if cwd == "" {
		cwd = m.workspace(t.rec)
	}
	a := Attachment{Sandbox: m.describe(t), Generation: t.generation, Env: m.environment(t), Cwd: cwd, Limits: m.opts.Limits}
	if r, ok := t.object.(interface{ Root() string }); ok {
		a.Root = r.Root()
	}
	return a, nil
}

// Connect returns a connection on which jobs can be started in the open sandbox.
func (m *Manager) Connect(ctx context.Context, name string) (*os.File, error) {
	t, err := m.lockOpen(ctx, name)
	if err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	return t.object.Connect(ctx)
}

// Destroy removes the sandbox and its storage; the pile stays. fault.Busy while jobs run.
func (m *Manager) Destroy(ctx context.Context, name string) error {
	t, err := m.lock(name)
	if err != nil {
		return err
	}
	defer t.mu.Unlock()
	if err := t.detach(ctx); err != nil {
		if errors.Is(err, fault.Busy) {
			return fault.New(fault.Busy, "tenant %q has running jobs", name).WithHint("wait for them, or destroy with --force to end them")
		}
		return err
	}
	if err := m.store.remove(ctx, t.rec); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "cannot remove the storage of tenant %q", name).WithHint("%s", fault.HintOf(err))
	}
	m.forget(t)
	return nil
}

// lock returns the tenant, locked.
func (m *Manager) lock(name string) (*tenant, error) {
	m.mu.Lock()
	t := m.tenants[name]
	m.mu.Unlock()
	if t == nil {
		return nil, notFound(name)
	}
	t.mu.Lock()
	if t.destroyed {
		t.mu.Unlock()
		return nil, notFound(name)
	}
	return t, nil
}

func (m *Manager) lockOpen(ctx context.Context, name string) (*tenant, error) {
	t, err := m.lock(name)
	if err != nil {
		return nil, err
	}
	if t.handles == 0 {
		err = notOpen()
	} else {
		err = m.ensure(ctx, t)
	}
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	return t, nil
}

// ensure attaches the sandbox unless it is.
func (m *Manager) ensure(ctx context.Context, t *tenant) error {
	if t.object != nil {
		select {
		case <-t.object.Gone():
			t.object = nil
		default:
			return nil
		}
	}
	object, err := m.attach(ctx, t.rec)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.generation++
	t.generation = m.generation
	m.mu.Unlock()
	t.object = object
	return nil
}

// detach ends the kernel object unless jobs run.
func (t *tenant) detach(ctx context.Context) error {
	if t.object == nil {
		return nil
	}
	select {
	case <-t.object.Gone():
	default:
		if err := t.object.Detach(ctx); err != nil {
			return err
		}
	}
	t.object = nil
	return nil
}

func (m *Manager) endSession(ctx context.Context, t *tenant) {
	t.handles, t.cwd, t.env = 0, "", nil
	t.detach(ctx) // refused while jobs run; the sweep tries again
}

func (m *Manager) all() []*tenant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.tenants))
}

func (m *Manager) describe(t *tenant) Sandbox {
	network := t.rec.Network
	if m.opts.Isolation == IsolationNone {
		network = NetworkHost // whatever was asked for: nothing keeps it from the host's
	}
	address := ""
	if t.rec.Address.IsValid() {
		address = t.rec.Address.String()
	}
	attached := t.object != nil
	if attached {
		select {
		case <-t.object.Gone():
			attached = false
		default:
		}
	}
	return Sandbox{
		Tenant: t.rec.Tenant, ID: t.rec.ID, Name: m.opts.Prefix + "-" + t.rec.Tenant, Persona: t.rec.Persona,
		Network: network, Address: address, Isolation: m.opts.Isolation, AppendOnly: appendOnly(m.store.pile(t.rec.ID) + "/self.pile"),
		Created: t.rec.Created, Attached: attached, Handles: t.handles,
	}
}

func notFound(name string) error {
	return fault.New(fault.NotFound, "there is no tenant %.64q", name).WithHint("see `playground user list`")
}

func notOpen() error {
	return fault.New(fault.NotOpen, "the session is not open").WithHint("call open_session first")
}
