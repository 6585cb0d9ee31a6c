package jail

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"playground/fault"
)

// Bounds of the waits for a removed jail. Most are gone within a millisecond; one that was connected to another host lingers
// for as long as TCP keeps the connection, without a process.
const (
	detachWait = 3 * time.Second
	killWait   = 20 * time.Second
	leaveWait  = 300 * time.Millisecond // of each jail, when the daemon stops
	// The kernel forgets a jail's number a moment before it lets go of its root (kern_jail.c prison_deref).
	unmountWait = time.Second
)

// A jailObject is a tenant's jail.
type jailObject struct {
	mounter
	jid     int
	name    string
	root    string
	address netip.Addr         // taken from the loopback interface when the jail is gone
	ours    func(mounted) bool // tells our mounts below root

	// mu guards gone.
	mu   sync.Mutex
	gone chan struct{}
	over bool // gone is closed
}

func (m *Manager) jailOf(rec record) *jailObject {
	o := m.jailAt(m.opts.Prefix+"-"+rec.Tenant, m.store.path(rec.ID, "root"))
	o.address = rec.Address
	return o
}

func (m *Manager) jailAt(name, root string) *jailObject {
	return &jailObject{mounter: mounter{m.host}, name: name, root: root, ours: m.store.backing.ours(root), gone: make(chan struct{})}
}

// attachJail makes the tenant's jail on its storage, or adopts the one that an earlier daemon left.
func (m *Manager) attachJail(ctx context.Context, rec record) (*jailObject, error) {
	if err := m.store.backed(rec); err != nil {
		return nil, err
	}
	o := m.jailOf(rec)
	plan := m.store.backing.plan(rec)
	found, err := m.host.lookup(o.name)
	if err != nil {
		return nil, err
	}
	if found.State == Alive {
		adopted, err := o.adopt(ctx, found, plan)
		if err != nil || adopted {
			return o, err
		}
	}
	// One that is still dying may share its name: limits belong to leaf jails, whose names are never used twice.
	if err := m.makeJail(ctx, rec, o, plan); err != nil {
		ctx = context.WithoutCancel(ctx) // whatever ended it, clearing up must happen
		return nil, errors.Join(err, o.unmountOurs(o.root, o.ours, false), o.removeAlias(ctx))
	}
	return o, nil
}

func (m *Manager) makeJail(ctx context.Context, rec record, o *jailObject, plan []mount) error {
	params, err := tenantJail{name: o.name, path: o.root, network: rec.Network, address: rec.Address}.params()
	if err != nil {
		return err
	}
	if rec.Address.IsValid() {
		if err := m.host.alias(ctx, rec.Address, true); err != nil {
			return err
		}
	}
	if err := m.mountJail(ctx, rec, o, plan); err != nil {
		return err
	}
	o.jid, err = m.host.createJail(o.name, params)
	return err
}

// mountJail puts the tenant's root together. Nothing of the tenant runs, so what is checked stays as it is.
func (m *Manager) mountJail(ctx context.Context, rec record, o *jailObject, plan []mount) error {
	for _, p := range plan {
		if p.fstype == "devfs" {
			if err := m.host.ruleset(p.ruleset); err != nil {
				return err
			}
		}
	}
	if err := m.store.backing.mountRoot(ctx, rec); err != nil {
		return err
	}
	if err := o.mountAll(o.root, plan, o.ours); err != nil {
		return err
	}
	if err := m.host.devices(o.root); err != nil {
		return err
	}
	return resolver(rec.Network, o.root)
}

// resolver gives a jail that reaches further than this host the host's resolv.conf, without which nothing finds a name. One
// that is there already is the tenant's own.
func resolver(n Network, root string) error {
	if n != NetworkInherit && n != NetworkVNET {
		return nil
	}
	data, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// What keeps it away is the tenant's doing, a disk that it filled included, and must not keep it out of its sandbox.
	_ = writeBeneath(root, "/etc/resolv.conf", data, 0o644)
	return nil
}

// adopt takes over a jail of this name if it is the tenant's and complete. Otherwise it goes, unless jobs run in it.
func (o *jailObject) adopt(ctx context.Context, found Info, plan []mount) (bool, error) {
	if found.Path != o.root || found.Parent != 0 {
		return false, fault.New(fault.Unavailable, "there is a jail %q that is not ours", o.name).WithHint("stop it, or configure another host.prefix")
	}
	o.jid = found.JID
	table, err := o.host.mountTable()
	if err != nil {
		return false, err
	}
	for _, p := range plan {
		there, ok := topAt(table, filepath.Join(o.root, p.on))
		if !ok || there.matches(p, o.root) != nil {
			return false, o.Detach(ctx)
		}
	}
	return true, nil
}

// Root is the host path of the jail's root, which the leaf jails of jobs are made with.
func (o *jailObject) Root() string { return o.root }

// Connect refuses: on FreeBSD a job is started in a leaf jail, without help from inside.
func (o *jailObject) Connect(context.Context) (*os.File, error) {
	return nil, fault.New(fault.Unsupported, "a jail needs no connection to start a job")
}

// Detach removes the jail unless jobs run in it, which is fault.Busy. A job that begins in this very moment is ended by it.
func (o *jailObject) Detach(ctx context.Context) error {
	all, err := o.host.jails(false) // children.cur would count dying ones too
	if err != nil {
		return err
	}
	jobs := slices.DeleteFunc(all, func(j Info) bool { return j.Parent != o.jid })
	if len(jobs) > 0 {
		return fault.New(fault.Busy, "%d jobs are running in the sandbox", len(jobs))
	}
	return o.remove(ctx, detachWait)
}

// remove ends the jail and unmounts its root. If the jail lingers the mounts stay: the next attach uses them again, and
// destroying the sandbox waits for them.
func (o *jailObject) remove(ctx context.Context, wait time.Duration) error {
	if err := o.host.removeJail(o.jid); err != nil {
		return err
	}
	err := waitGone(ctx, o.host.stateOf, o.jid, wait)
	if errors.Is(err, fault.Busy) {
		return nil
	}
	if err != nil {
		return err
	}
	// What stays busy is a leaf that lingers, or has a mount of the operator's on it.
	if err := o.unmountWhenFree(ctx, o.root, o.ours, unmountWait); err != nil {
		return err
	}
	return o.removeAlias(ctx)
}

func (o *jailObject) removeAlias(ctx context.Context) error {
	if !o.address.IsValid() {
		return nil
	}
	return o.host.alias(ctx, o.address, false)
}

// Gone is closed when the jail was removed, by us or by anybody. The kernel is asked at each call.
func (o *jailObject) Gone() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		if state, err := o.host.stateOf(o.jid); err == nil && state != Alive {
			o.over = true
			close(o.gone)
		}
	}
	return o.gone
}

// Kill removes the jail with all that runs in it, and waits until it is gone or only a reference to it is left.
func (o *jailObject) Kill() {
	// An error leaves the jail to the next start, which finds it by its name.
	_ = o.remove(context.Background(), killWait)
}

// settleStrays deals with the jails on our sandboxes that belong to no session, left by a daemon that was killed. One of a
// tenant is adopted, so that the sweep detaches it when its jobs have ended; one of nobody's is removed.
func (m *Manager) settleStrays(ctx context.Context) error {
	if m.store.backing == nil {
		return nil
	}
	known := make(map[string]bool)
	for _, t := range m.all() {
		t.mu.Lock()
		o := m.jailOf(t.rec)
		known[o.root] = true
		if t.object == nil {
			if found, err := m.host.lookup(o.name); err == nil && found.State == Alive && found.Path == o.root && found.Parent == 0 {
				o.jid = found.JID
				t.object = o
			}
		}
		t.mu.Unlock()
	}
	all, err := m.host.jails(false)
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range all {
		if info.Parent != 0 || known[info.Path] || !m.store.isRoot(info.Path) {
			continue
		}
		o := m.jailAt(info.Name, info.Path)
		o.jid = info.JID
		if err := o.remove(ctx, detachWait); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove stray jail %q: %w", info.Name, err))
		}
	}
	return errors.Join(errs...)
}

// isRoot reports whether a path is where some sandbox's root would be.
func (s *store) isRoot(path string) bool {
	rest, ok := strings.CutPrefix(path, s.sandboxes()+"/")
	id, name, _ := strings.Cut(rest, "/")
	return ok && validID(id) && name == "root"
}
