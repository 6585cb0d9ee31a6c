package jail

// Warning says what an operator should know before a tenant gets this network, or "".
func (n Network) Warning() string {
	switch n {
	case NetworkInherit:
		return "the tenant reaches whatever this host reaches, services on its loopback addresses included"
	case NetworkHost:
		return "the tenant reaches whatever this host reaches, services on its loopback addresses and its abstract unix sockets included"
	case NetworkVNET:
		return "a network stack of its own lifts every restriction on address families, and gives the tenant's root the kernel's " +
			"network privileges (routes, interfaces, packet filters) in it; it begins without any interface that is up"
	}
	return ""
}
