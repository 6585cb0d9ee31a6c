package jail

import (
	"context"
	"net/netip"
	"os"
	"time"

	"playground/fault"
	"playground/localtcp"
)

// A dialer is a kernel object with a network of its own that only the object itself reaches.
type dialer interface {
	Dial(ctx context.Context, to netip.AddrPort) (*os.File, error)
}

// Dial connects to a program that listens in the tenant's sandbox, at a loopback address of the sandbox's own network (Linux).
// It does not attach a sandbox, since then nothing could listen in it. The connection is a TCP socket; the caller closes it.
//
// fault.NotOpen when the sandbox is not attached; fault.Unsupported where its network is not its own or cannot be reached;
// fault.Unavailable when nothing takes the connection.
func (m *Manager) Dial(ctx context.Context, name, address string) (*os.File, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !localtcp.Valid(to) {
		return nil, fault.New(fault.Invalid, "%.64q is not a loopback address with a port", address)
	}
	t, err := m.lock(name)
	if err != nil {
		return nil, err
	}
	object, sandbox := t.object, m.describe(t)
	t.used = time.Now()
	t.mu.Unlock() // a program that takes no connection must not hold up the tenant's commands
	switch sandbox.Network {
	case NetworkHost, NetworkInherit, NetworkAddress:
		return nil, fault.New(fault.Unsupported, "the sandbox of tenant %q shares the host's network: connect to the address itself", name)
	}
	if !sandbox.Attached {
		return nil, fault.New(fault.NotOpen, "the sandbox of tenant %q is not open, so that nothing listens in it", name).
			WithHint("start its worker")
	}
	d, ok := object.(dialer)
	if !ok {
		return nil, fault.New(fault.Unsupported, "what listens in the sandbox of tenant %q cannot be reached: its network is %s", name, sandbox.Network).
			WithHint("create the tenant with network address or inherit")
	}
	return d.Dial(ctx, to)
}
