package jail

// Warning says what an operator should know before a tenant gets this network, or "".
func (n Network) Warning() string {
	switch n {
	case NetworkInherit:
		return "the tenant reaches whatever this host reaches, services on its loopback addresses included"
	case NetworkHost:
		return "the tenant reaches whatever this host reaches, services on its loopback addresses and its abstract unix sockets included"
	case NetworkVNET:
		// A leaf jail uses its parent's stack without owning it (kern_jail.c prison_owns_vnet), so jobs have none of the kernel's
		// network privileges.
		return "a network stack of its own begins without any interface that is up, its loopback included, and commands in the sandbox " +
			"cannot change that: give it interfaces and addresses from the host, with ifconfig(8) and jexec(8)"
	}
	return ""
}
