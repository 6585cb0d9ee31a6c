package job

import (
	"context"
	"crypto/rand"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"playground/fault"
	"playground/ring"
)

// A service is a program that the host itself runs in a tenant's sandbox: it has no time limit, takes none of the places of the
// tenant's commands, and no command of the tenant can find or cancel it. It ends like a job: with its whole tree, proved.

// How many services may run at once, and what is kept of the output of each until it is polled.
const (
	ServicesPerHost   = 64
	ServicesPerTenant = 8

	serviceRing = 1 << 20
)

// ServiceLease is how long a service goes on that nobody polls: whoever decided that it should run is gone, and so nobody could
// stop it.
const ServiceLease = 2 * time.Minute

// Bounds of a service's program and environment: together they fit one message to the process that starts it.
const (
	serviceWords = 1024
	serviceBytes = 64 << 10
)

var (
	serviceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	envForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// A ServiceSpec is a service to start. A tenant has at most one running service of a name.
type ServiceSpec struct {
	Tenant string
	Name   string
	Argv   []string // Argv[0] is an absolute path inside the sandbox
	Env    []string // NAME=value: all that the program gets
}

// A Service is a service without its output.
type Service struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Name    string    `json:"name"`
	State   State     `json:"state"`
	Started time.Time `json:"started"`
	Cursor  int64     `json:"cursor"` // the oldest output that is still kept: where to begin polling
	Result  *Result   `json:"result,omitempty"`
}

func (s ServiceSpec) check() error {
	switch {
	case s.Tenant == "":
		return fault.New(fault.Invalid, "the tenant is missing")
	case !serviceName.MatchString(s.Name):
		return fault.New(fault.Invalid, "%.64q is no name of a service", s.Name).
			WithHint("use small letters, digits and hyphens, at most 64, beginning and ending with a letter or digit")
	case len(s.Argv) == 0 || !path.IsAbs(s.Argv[0]):
		return fault.New(fault.Invalid, "the program must be an absolute path inside the sandbox")
	}
	size := 0
	for _, word := range slices.Concat(s.Argv, s.Env) {
		if strings.IndexByte(word, 0) >= 0 {
			return fault.New(fault.Invalid, "an argument or an environment variable has a NUL byte")
		}
		size += len(word) + 1
	}
	if len(s.Argv)+len(s.Env) > serviceWords || size > serviceBytes {
		return fault.New(fault.TooLarge, "the program's arguments and environment have %d words and %d bytes, over the limits of %d and %d",
			len(s.Argv)+len(s.Env), size, serviceWords, serviceBytes).WithHint("put them into a file in the sandbox")
	}
	for _, entry := range s.Env {
		if !envForm.MatchString(entry) {
			return fault.New(fault.Invalid, "an environment variable is not of the form NAME=value")
		}
	}
	return nil
}

// StartService admits a service and returns at once. One of the same tenant and name that runs still is fault.Exists.
func (m *Manager) StartService(s ServiceSpec) (Service, error) {
	if err := s.check(); err != nil {
		return Service{}, err
	}
	spec := Spec{Tenant: s.Tenant, Mode: Program, Cwd: "/", Argv: words(s.Argv), Env: words(s.Env)}
	spec.Service = "svc-" + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{
		id: spec.Service, tenant: s.Tenant, service: s.Name, cancel: cancel,
		log: ring.New(serviceRing, m.limits.RingChunks),
	}
	if err := m.admitService(r); err != nil {
		cancel(err)
		return Service{}, err
	}
	go func() {
		m.runJob(ctx, r, spec)
		r.lease.Stop()
	}()
	return Service{ID: r.id, Tenant: r.tenant, Name: r.service, State: Running, Started: r.started}, nil
}

func words(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

// admitService takes a service's place. An ended one of the same name gives its handle up, and so does the oldest ended one where
// there are too many: a service's end is told by whoever keeps it.
func (m *Manager) admitService(r *run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openLocked(r.tenant); err != nil {
		return err
	}
	for _, other := range m.services {
		if other.tenant == r.tenant && other.service == r.service && other.state != Terminal {
			return fault.New(fault.Exists, "service %q of tenant %q runs already, as %s", r.service, r.tenant, other.id).WithHint("stop it first")
		}
	}
	if t := m.tenants[r.tenant]; t != nil && t.services >= ServicesPerTenant {
		return fault.New(fault.Limit, "%d services of tenant %q are running, the limit of a tenant", t.services, r.tenant).WithHint("stop one first")
	}
	if m.serving >= ServicesPerHost {
		return fault.New(fault.Limit, "the host runs %d services, its limit", m.serving).WithHint("stop one first")
	}
	m.forgetServicesLocked(func(other *run) bool { return other.tenant == r.tenant && other.service == r.service })
	m.services[r.id], m.runs[r] = r, struct{}{}
	m.tallyLocked(r.tenant).services++
	m.serving++
	r.state, r.started, r.done = Running, time.Now(), make(chan struct{})
	r.lease = time.AfterFunc(ServiceLease, func() { m.expire(r) })
	m.trimServicesLocked()
	return nil
}

// expire ends a service that nobody polls.
func (m *Manager) expire(r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.state != Terminal {
		m.cancelLocked(r)
	}
}

// forgetServicesLocked forgets ended services that match.
func (m *Manager) forgetServicesLocked(matches func(*run) bool) {
	for id, r := range m.services {
		if r.state == Terminal && matches(r) {
			delete(m.services, id)
		}
	}
}

// trimServicesLocked keeps at most as many ended services as may run, the youngest.
func (m *Manager) trimServicesLocked() {
	for len(m.services)-m.serving > ServicesPerHost {
		var oldest *run
		for _, r := range m.services {
			if r.state == Terminal && (oldest == nil || r.ended.Before(oldest.ended)) {
				oldest = r
			}
		}
		if oldest == nil {
			return
		}
		delete(m.services, oldest.id)
	}
}

// Services returns the running services and those that ended last, by tenant and name.
func (m *Manager) Services() []Service {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Service, 0, len(m.services))
	for _, r := range m.services {
		list = append(list, r.describeService())
	}
	slices.SortFunc(list, func(a, b Service) int {
		return strings.Compare(a.Tenant+" "+a.Name+" "+a.ID, b.Tenant+" "+b.Name+" "+b.ID)
	})
	return list
}

// describeService is called with Manager.mu held.
func (r *run) describeService() Service {
	oldest, _ := r.log.Bounds()
	s := Service{ID: r.id, Tenant: r.tenant, Name: r.service, State: r.state, Started: r.started, Cursor: oldest}
	if r.result != nil {
		result := *r.result
		s.Result = &result
	}
	return s
}

func (m *Manager) findServiceLocked(id string) (*run, error) {
	r, ok := m.services[id]
	if !ok {
		return nil, fault.New(fault.NotFound, "unknown service").WithHint("playground-reaperd forgets services when it is started anew")
	}
	return r, nil
}

// PollService is Poll for a service, and renews its lease.
func (m *Manager) PollService(ctx context.Context, id string, cursor int64, wait time.Duration) (Page, error) {
	m.mu.Lock()
	r, err := m.findServiceLocked(id)
	m.mu.Unlock()
	if err != nil {
		return Page{}, err
	}
	r.lease.Reset(ServiceLease) // one that has ended has nothing to lose
	defer r.lease.Reset(ServiceLease)
	return m.poll(ctx, r, cursor, wait)
}

// StopService asks a service to end, waits for the proof that nothing of it is left, and returns its end, also of one that had
// ended before. fault.Busy when ctx ends first: it is still being ended then.
func (m *Manager) StopService(ctx context.Context, id string) (Result, error) {
	m.mu.Lock()
	r, err := m.findServiceLocked(id)
	if err == nil && r.state != Terminal {
		m.cancelLocked(r)
	}
	m.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	if err := waitAll(ctx, []*run{r}); err != nil {
		return Result{}, fault.Wrap(fault.Busy, err, "service %s does not end in time", id).WithHint("it is being killed; try again in a moment")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return *r.result, nil
}
