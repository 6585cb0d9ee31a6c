package jail

import (
	"context"

	"playground/fault"
	"playground/jail/holder"
)

// attachKernel starts the sandbox's holder.
func (m *Manager) attachKernel(_ context.Context, rec record) (kernelObject, error) {
	o, err := attach(m.opts.Supervise, holder.Config{
		Isolated:  m.opts.Isolation == IsolationNamespaces,
		Hostname:  m.opts.Prefix + "-" + rec.Tenant,
		Tenant:    rec.Tenant,
		Loopback:  rec.Network == NetworkNone,
		Resolver:  rec.Network == NetworkHost,
		Root:      m.store.path(rec.ID, "root"),
		Home:      m.store.path(rec.ID, "home"),
		Workspace: m.store.path(rec.ID, "workspace"),
		Source:    m.store.source(rec),
		Tmp:       m.store.path(rec.ID, "tmp"),
		Pile:      m.store.pile(rec.ID),
		Shared:    m.store.shared(),
		Limits:    m.opts.Limits,
		Warm:      m.opts.Warm,
	}, idRange{rec.UIDBase, sharedGID(m.opts.UIDBase)}, m.opts.Log)
	if err != nil {
		return nil, err // not o: a nil *object in the interface would not be nil
	}
	return o, nil
}

func validNetwork(n Network) error {
	if n != NetworkNone && n != NetworkHost {
		return fault.New(fault.Invalid, "network %q is not known on Linux", n).WithHint("use none or host")
	}
	return nil
}
