package job

import (
	"slices"
	"strings"
	"time"

	"playground/fault"
)

// Counts are a tenant's, or the host's, commands and handles.
type Counts struct {
	Active   int `json:"active"`             // running commands
	Retained int `json:"retained"`           // job handles, of running and ended jobs
	Services int `json:"services,omitempty"` // running services, which count in neither
}

// A HostStatus is what a Manager holds at one moment.
type HostStatus struct {
	Active    int               `json:"active"`
	Retained  int               `json:"retained"`
	Services  int               `json:"services,omitempty"`
	PerTenant map[string]Counts `json:"per_tenant"`
	Lost      *Lost             `json:"lost,omitempty"`
	// StoreError says why the lost proof is known to this process only, and would be forgotten with it.
	StoreError string `json:"store_error,omitempty"`
	Draining   bool   `json:"draining"`
}

func (t *tally) counts() Counts {
	return Counts{Active: t.active, Retained: t.retained, Services: t.services}
}

// Counts returns what a tenant has.
func (m *Manager) Counts(tenant string) Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked()
	if t, ok := m.tenants[tenant]; ok {
		return t.counts()
	}
	return Counts{}
}

// Status returns what the Manager holds.
func (m *Manager) Status() HostStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked()
	s := HostStatus{
		Active:    len(m.runs) - m.serving,
		Retained:  len(m.jobs),
		Services:  m.serving,
		PerTenant: make(map[string]Counts, len(m.tenants)),
		Lost:      m.lost.clone(),
		Draining:  m.draining,
	}
	for name, t := range m.tenants {
		s.PerTenant[name] = t.counts()
	}
	if m.storeErr != nil {
		s.StoreError = m.storeErr.Error()
	}
	return s
}

// admit takes a slot for r, and a handle if it is a job. All limits are checked under one lock, and nothing is changed
// if one is reached.
func (m *Manager) admit(r *run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked()
	if err := m.openLocked(r.tenant); err != nil {
		return err
	}
	if err := m.activeLocked(r.tenant); err != nil {
		return err
	}
	if r.log != nil {
		if err := m.placeLocked(r.tenant); err != nil {
			return err
		}
		m.jobs[r.id] = r
		m.tallyLocked(r.tenant).retained++
	}
	m.runs[r] = struct{}{}
	m.tallyLocked(r.tenant).active++
	r.state, r.started, r.done = Running, time.Now(), make(chan struct{})
	return nil
}

// openLocked returns an error while no start of tenant may be admitted at all.
func (m *Manager) openLocked(tenant string) error {
	if m.draining {
		return fault.New(fault.Unavailable, "the host is shutting down").WithHint("try again in a moment")
	}
	if m.lost != nil {
		return m.lostErrorLocked()
	}
	if t := m.tenants[tenant]; t != nil && t.dropping > 0 {
		return fault.New(fault.Busy, "the sandbox is being taken down").WithHint("call open_session in a moment")
	}
	return nil
}

// activeLocked returns an error if tenant or the host run as much as they may.
func (m *Manager) activeLocked(tenant string) error {
	if t := m.tenants[tenant]; t != nil && t.active >= m.limits.ActivePerTenant {
		e := fault.New(fault.Limit, "%d commands are running, the limit of a tenant", t.active)
		if ids := m.idsLocked(tenant, func(r *run) bool { return r.state != Terminal }); ids != "" {
			return e.WithHint("wait for one to end, or call job_cancel for one of: %s", ids)
		}
		return e.WithHint("wait for one to end")
	}
	if active := len(m.runs) - m.serving; active >= m.limits.ActivePerHost {
		return fault.New(fault.Limit, "the host runs %d commands, its limit", active).
			WithHint("try again in a moment; if it lasts, ask the operator, who can raise jobs.active_per_host")
	}
	return nil
}

// placeLocked makes sure that one more handle of tenant has a place. It gives up ended jobs whose final page was given
// out, the oldest first: for the tenant's limit one of its own, for the host's limit anybody's.
func (m *Manager) placeLocked(tenant string) error {
	var victim *run
	if t := m.tenants[tenant]; t != nil && t.retained >= m.limits.RetainedPerTenant {
		if victim = m.oldestObservedLocked(func(r *run) bool { return r.tenant == tenant }); victim == nil {
			return m.fullLocked(tenant, "%d jobs are kept, the limit of a tenant, and none can be given up yet", t.retained)
		}
	} else if len(m.jobs) >= m.limits.RetainedPerHost {
		if victim = m.oldestObservedLocked(func(*run) bool { return true }); victim == nil {
			return m.fullLocked(tenant, "the host keeps %d jobs, its limit, and none can be given up yet", len(m.jobs))
		}
	}
	if victim != nil {
		m.removeLocked(victim)
	}
	return nil
}

// fullLocked returns the refusal for want of a handle. It names the tenant's own jobs that could give theirs up, never
// another tenant's.
func (m *Manager) fullLocked(tenant, format string, n int) error {
	e := fault.New(fault.Limit, format, n)
	if ids := m.idsLocked(tenant, func(r *run) bool { return r.state == Terminal }); ids != "" {
		e.Message += "; poll these ended jobs until they give their result: " + ids
		return e.WithHint("call job_poll with each of these job ids until it returns a result, then start again")
	}
	if ids := m.idsLocked(tenant, func(*run) bool { return true }); ids != "" {
		e.Message += "; these jobs are running: " + ids
		return e.WithHint("wait for one to end and poll it until it returns a result, or call job_cancel first")
	}
	return e.WithHint("try again in a moment; kept jobs expire %s after their end", span(m.limits.TTL))
}

// idsLocked returns the ids of a tenant's jobs that match, the oldest first.
func (m *Manager) idsLocked(tenant string, matches func(*run) bool) string {
	var runs []*run
	for _, r := range m.jobs {
		if r.tenant == tenant && matches(r) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int {
		if c := a.started.Compare(b.started); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.id
	}
	return strings.Join(ids, ", ")
}

// oldestObservedLocked returns the job that matches, was seen to its end and ended first, or nil.
func (m *Manager) oldestObservedLocked(matches func(*run) bool) *run {
	var oldest *run
	for _, r := range m.jobs {
		if r.observed && matches(r) && (oldest == nil || r.ended.Before(oldest.ended)) {
			oldest = r
		}
	}
	return oldest
}

// removeLocked forgets an ended job.
func (m *Manager) removeLocked(r *run) {
	delete(m.jobs, r.id)
	m.tallyLocked(r.tenant).retained--
	m.forgetTallyLocked(r.tenant)
}

// sweepLocked forgets ended jobs whose time is over.
func (m *Manager) sweepLocked() {
	now := time.Now()
	if m.sweepAt.IsZero() || now.Before(m.sweepAt) {
		return
	}
	m.sweepAt = time.Time{}
	for _, r := range m.jobs {
		if r.state != Terminal {
			continue
		}
		if expires := r.ended.Add(m.limits.TTL); expires.After(now) {
			m.sweepByLocked(expires)
		} else {
			m.removeLocked(r)
		}
	}
}

// sweepByLocked sees to a sweep at the given time or before. The timer gives memory back on an idle host; every call
// that looks at jobs sweeps too, so that none is seen after its time.
func (m *Manager) sweepByLocked(at time.Time) {
	if !m.sweepAt.IsZero() && !at.Before(m.sweepAt) {
		return
	}
	m.sweepAt = at
	if m.sweeper != nil {
		m.sweeper.Stop()
	}
	if !m.draining {
		m.sweeper = time.AfterFunc(time.Until(at), m.sweep)
	}
}

// sweep is the timer's call.
func (m *Manager) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked()
}

// tallyLocked returns tenant's tally, a new one if it has none.
func (m *Manager) tallyLocked(tenant string) *tally {
	t, ok := m.tenants[tenant]
	if !ok {
		t = new(tally)
		m.tenants[tenant] = t
	}
	return t
}

// forgetTallyLocked drops an empty tally, so that tenants that are gone take no memory.
func (m *Manager) forgetTallyLocked(tenant string) {
	if t, ok := m.tenants[tenant]; ok && *t == (tally{}) {
		delete(m.tenants, tenant)
	}
}
