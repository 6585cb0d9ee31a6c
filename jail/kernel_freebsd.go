package jail

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"playground/fault"
)

// keepsSessions: a persistent jail outlives its daemon, so that jobs in it do, and sessions come back after a reboot.
const keepsSessions = true

// prepareHost finds what tenants' roots stand on. Without jails there is nothing, and no sandbox is ever attached.
func (m *Manager) prepareHost() error {
	if m.opts.Isolation != IsolationJail {
		return nil
	}
	if m.opts.Storage == "" {
		m.opts.Storage = StorageDir
	}
	if m.opts.Template == "" {
		m.opts.Template = DefaultTemplate
	}
	if err := validTemplateName(m.opts.Template); err != nil {
		return err
	}
	if err := os.MkdirAll(m.opts.StateDir, 0o700); err != nil {
		return fmt.Errorf("cannot make state folder: %w", err)
	}
	// The kernel's tables name mounts and jails by their real paths.
	dir, err := filepath.EvalSymlinks(m.opts.StateDir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fmt.Errorf("cannot find state folder: %w", err)
	}
	m.opts.StateDir, m.store.dir, m.store.storage = dir, dir, m.opts.Storage
	m.host = freebsd{}
	if m.store.backing, err = newBacking(m.opts, &m.store, runProgram, mounter{m.host}.settle, hostMounts); err != nil {
		return err
	}
	return m.store.makeSharedMount()
}

func hostMounts() ([]mounted, error) { return freebsd{}.mountTable() }

// attachKernel makes the tenant's jail on its storage, or adopts the one that an earlier daemon left.
func (m *Manager) attachKernel(ctx context.Context, rec record) (kernelObject, error) {
	if m.store.backing == nil {
		return nil, fault.New(fault.Unsupported, "isolation %q does not exist on FreeBSD", m.opts.Isolation).WithHint("set sandbox.isolation to jail")
	}
	o, err := m.attachJail(ctx, rec)
	if err != nil { // not o: a nil *jailObject in the interface would not be nil
		// The cause names paths and devices of the host: it is for the daemon's log, not for the tenant.
		return nil, fault.Hide(fault.Unavailable, err, "cannot make the sandbox").
			WithHint("the operator finds the cause in the log of playground-jaild, or with `playground doctor`")
	}
	return o, nil
}

// leave is for a daemon that stops: a jail in which jobs run stays, because jobs belong to another daemon, and the next
// start adopts it.
func (m *Manager) leave(object kernelObject) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	// Busy or not removable: the next start finds it by its name.
	_ = object.Detach(ctx)
}

func validNetwork(n Network) error {
	switch n {
	case NetworkNone, NetworkInherit, NetworkAddress, NetworkVNET:
		return nil
	}
	return fault.New(fault.Invalid, "network %q is not known on FreeBSD", n).WithHint("use none, inherit, address or vnet")
}
