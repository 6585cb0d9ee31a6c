package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"playground/fault"
)

// A session is what session.json holds of an open session, where sessions outlive the daemon. It lies beside sandbox.json,
// for root's eyes only: its environment may hold the tenant's secrets.
type session struct {
	Handles int               `json:"handles"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

func (s *store) session(id string) string { return s.path(id, "session.json") }

// saveSession writes a tenant's session down, or removes it when none is open. That it may fail is no reason to refuse the
// session, least of all on a full disk: it then does not survive the daemon, or comes back once and is abandoned.
func (m *Manager) saveSession(t *tenant) {
	if keepsSessions {
		_ = m.store.saveSession(t.rec.ID, session{t.handles, t.cwd, t.env})
	}
}

func (s *store) saveSession(id string, open session) error {
	path := s.session(id)
	if open.Handles == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot forget the session: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(open)
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot save the session: %w", err)
	}
	if err := writeSynced(next, data, 0o600); err != nil {
		return full(fmt.Errorf("cannot save the session: %w", err))
	}
	return os.Rename(next, path)
}

func (s *store) loadSession(id string) (session, error) {
	var open session
	data, err := os.ReadFile(s.session(id))
	if errors.Is(err, fs.ErrNotExist) {
		return open, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &open)
	}
	if err == nil && open.Handles < 0 {
		err = errors.New("negative count")
	}
	if err != nil {
		return session{}, fmt.Errorf("cannot read the session: %w", err)
	}
	return open, nil
}

// Reattach brings back the sessions that were open when the daemon or the host stopped: their sandboxes are attached again,
// or adopted where they still stand. It goes on from tenant to tenant whatever fails, and returns what did by tenant; what
// belongs to none is under "". Call it once, before the first request. Where
// sessions do not outlive the daemon it only tells of leftovers that could not be removed.
func (m *Manager) Reattach(ctx context.Context) map[string]error {
	failed := make(map[string]error)
	if !keepsSessions {
		if err := errors.Join(m.store.failed...); err != nil {
			failed[""] = err
		}
		return failed
	}
	for _, t := range m.all() {
		t.mu.Lock()
		if err := m.reattach(ctx, t); err != nil {
			failed[t.rec.Tenant] = err
		}
		t.mu.Unlock()
	}
	if err := errors.Join(append(m.store.failed, m.settleStrays(ctx))...); err != nil {
		failed[""] = err
	}
	return failed
}

func (m *Manager) reattach(ctx context.Context, t *tenant) error {
	open, err := m.store.loadSession(t.rec.ID)
	if err != nil {
		return err
	}
	if open.Handles == 0 {
		return nil
	}
	// The handles count even if attaching fails now: the next command tries again.
	t.handles, t.cwd, t.env, t.used = open.Handles, open.Cwd, open.Env, time.Now()
	return m.ensure(ctx, t)
}

// takeAddressLocked takes an address that no tenant has. The first ones are left out: in a loopback network they are the
// host's.
func (m *Manager) takeAddressLocked() (netip.Addr, error) {
	prefix := m.opts.Addresses
	if !prefix.IsValid() {
		prefix = netip.MustParsePrefix(DefaultAddresses)
	}
	prefix = prefix.Masked()
	addr := prefix.Addr().Next().Next()
	for range maxAddresses {
		// The last one of an IPv4 network is its broadcast address.
		if !prefix.Contains(addr.Next()) {
			break
		}
		if !m.addresses[addr] {
			m.addresses[addr] = true
			return addr, nil
		}
		addr = addr.Next()
	}
	return netip.Addr{}, fault.New(fault.Limit, "all addresses of %v are taken", prefix).WithHint("configure a larger network for tenants")
}

// loopback carries tenants' own addresses: they reach nothing but this host.
const loopback = "lo0"

// maxAddresses bounds the search in a large network.
const maxAddresses = 1 << 16

// aliasArgs are the arguments of ifconfig(8) that add or remove a loopback address.
func aliasArgs(addr netip.Addr, add bool) []string {
	family, act := "inet", "-alias"
	if addr.Is6() {
		family = "inet6"
	}
	text := addr.String()
	if add {
		act = "alias"
		text = netip.PrefixFrom(addr, addr.BitLen()).String()
	}
	return []string{loopback, family, text, act}
}
