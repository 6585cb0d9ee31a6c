package job

import (
	"fmt"
	"slices"
	"time"

	"playground/fault"
)

// Lost is the record of a clean-up that was not proved: processes of a tenant may be left that nothing bounds. While
// there is one, no start is admitted, over restarts too.
type Lost struct {
	Since time.Time `json:"since"`
	// Tenant and JobID are those of the first command; JobID is empty for a synchronous one.
	Tenant string `json:"tenant"`
	JobID  string `json:"job_id,omitempty"`
	// Pids are the processes that could not be proved gone, of all commands since.
	Pids []Leftover `json:"pids"`
	// Unknown is set when processes that are not in Pids may be left too: nobody could list them.
	Unknown bool `json:"unknown,omitempty"`
	// Reason is for the operator's log. It gets a further line with each further loss.
	Reason string `json:"reason"`
}

// clone returns a copy, nil for nil.
func (l *Lost) clone() *Lost {
	if l == nil {
		return nil
	}
	c := *l
	c.Pids = slices.Clone(l.Pids)
	return &c
}

// A LostStore keeps the record of a lost proof where a new process finds it. Calls come one at a time.
type LostStore interface {
	// Load returns the record, nil if there is none.
	Load() (*Lost, error)
	// Save keeps the record, and takes the last one away for nil. It returns when that is on disk.
	Save(*Lost) error
}

// Lost returns a copy of the record of lost proof, nil if there is none.
func (m *Manager) Lost() *Lost {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost.clone()
}

// LostC returns a channel that is closed when proof is lost, and already is while there is a record. Ask again after Ack
// or Proved: the next loss closes a new one.
func (m *Manager) LostC() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lostC
}

// Ack opens admission again because the operator says so, whatever was left. Without a record it does nothing. If the
// store cannot forget the record, admission stays closed.
func (m *Manager) Ack() error {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	return m.clearLost()
}

// Proved opens admission again because all that the record stands for, unknown processes included, was proved gone after
// all. The caller gives the record, from Lost, that its proof is about: if more was lost meanwhile, nothing changes and
// the error is fault.Busy.
func (m *Manager) Proved(record *Lost) error {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	if now := m.Lost(); now != nil && !now.same(record) {
		return fault.New(fault.Busy, "more processes were left behind meanwhile").WithHint("prove those of the new record too")
	}
	return m.clearLost()
}

// same reports whether nothing was lost between two records: each loss adds to the reason.
func (l *Lost) same(other *Lost) bool {
	return other != nil && l.Since.Equal(other.Since) && l.Reason == other.Reason
}

// clearLost forgets the record, in the store first: if that fails, a restart would close admission again, and an
// operator had better know now. storeMu is held.
func (m *Manager) clearLost() error {
	if m.Lost() == nil {
		return nil
	}
	if err := m.store.Save(nil); err != nil {
		return fault.Wrap(fault.Internal, err, "cannot forget the record of lost proof")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost, m.storeErr = nil, nil
	m.lostC = make(chan struct{})
	return nil
}

// lose closes admission because r's clean-up was not proved, and puts that on record. Admission is closed even if the
// store fails.
func (m *Manager) lose(r *run, pids []Leftover, reason string) {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	what := "a synchronous command"
	if r.id != "" {
		what = r.id
	}
	m.loseLocked(Lost{Tenant: r.tenant, JobID: r.id}, pids, fmt.Sprintf("tenant %s, %s: %s", r.tenant, what, reason))
}

// LoseOther closes admission because the end of what is no tenant's command was not proved, as lose does for one that is. The
// text says what it was and why.
func (m *Manager) LoseOther(pids []Leftover, text string) {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	m.loseLocked(Lost{}, pids, text)
}

// loseLocked is lose and LoseOther; first is the record if there is none yet. storeMu is held.
func (m *Manager) loseLocked(first Lost, pids []Leftover, line string) {
	m.mu.Lock()
	if m.lost == nil {
		// Without its monotonic part the time is the same after a turn through the store.
		first.Since, first.Reason = time.Now().Round(0), line
		m.lost = &first
		close(m.lostC)
	} else {
		m.lost.Reason += "\n" + line
	}
	m.lost.Pids = append(m.lost.Pids, pids...)
	m.lost.Unknown = m.lost.Unknown || len(pids) == 0
	record := m.lost.clone()
	m.mu.Unlock()

	err := m.store.Save(record)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.storeErr = err
}

// loadLost takes over the record of an earlier process. One that cannot be read counts as a loss: what it said is not
// known.
func (m *Manager) loadLost() {
	record, err := m.store.Load()
	if err != nil {
		m.storeErr = err
		record = &Lost{
			Since:   time.Now().Round(0),
			Unknown: true,
			Reason:  fmt.Sprintf("cannot load the record of lost proof: %v", err),
		}
	}
	if record == nil {
		return
	}
	m.lost = record.clone()
	close(m.lostC)
}

// lostErrorLocked returns the refusal of a start while a proof is lost. It is for every tenant, so that it names none.
func (m *Manager) lostErrorLocked() error {
	return fault.New(fault.ProofLost, "starts are refused: it is not proved that all processes of an earlier command are gone").
		WithHint("the operator must look at what is left and then run: playground ack")
}
