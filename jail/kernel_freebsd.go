package jail

import (
	"context"

	"playground/fault"
)

// attachKernel refuses: nothing may run un-jailed by silence.
func (m *Manager) attachKernel(context.Context, record) (kernelObject, error) {
	return nil, fault.New(fault.Unsupported, "this version cannot make FreeBSD jails yet").WithHint("see CHANGELOG.md")
}

func validNetwork(n Network) error {
	switch n {
	case NetworkNone, NetworkInherit, NetworkAddress, NetworkVNET:
		return nil
	}
	return fault.New(fault.Invalid, "network %q is not known on FreeBSD", n).WithHint("use none, inherit, address or vnet")
}
