package jail

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"playground/fault"
)

// Values of jailsys parameters (sys/jail.h).
const (
	sysDisable = 0
	sysNew     = 1
	sysInherit = 2
)

// Bounds of the kernel, their NUL included (sys/param.h).
const (
	maxJailName = 256
	maxJailPath = 1024
)

// jailSecurelevel forbids a jail everything that a securelevel can (securelevel(7)).
const jailSecurelevel = 3

var jailNamePart = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// A param is one parameter of a jail. Some are not known to every kernel: those that forbid or name an ability which is not
// compiled in are left out there, since nothing can be forbidden any more.
type param struct {
	pair
	optional bool
}

// denied are the abilities taken from a tenant, each by its negative name: the positive one grants whatever its value.
// A tenant keeps uid 0 inside (allow.suser). FreeBSD 15 has more, all off by default and unknown before.
var denied = [...]string{
	"allow.noset_hostname", "allow.noraw_sockets", "allow.nochflags", "allow.nomount", "allow.noquotas", "allow.nosocket_af",
	"allow.nomlock", "allow.noread_msgbuf", "allow.nosysvipc", "allow.noreserved_ports", "allow.nounprivileged_proc_debug",
}

// A tenantJail is what the jail of one tenant is made from.
type tenantJail struct {
	name    string
	path    string
	network Network
	address netip.Addr // network "address" only
}

// params is the safe set for a hostile tenant that has root inside (jail(8)). The number is the kernel's to choose, and
// every parameter that can be set at creation only is here, so the jail never needs an update.
func (j tenantJail) params() ([]param, error) {
	if err := validJailPart(j.name); err != nil {
		return nil, err
	}
	if err := validJailPath(j.path); err != nil {
		return nil, err
	}
	list := required(
		stringPair("name", j.name),
		stringPair("path", j.path),
		stringPair("host.hostname", j.name),
		flagPair("persist"),
		intPair("children.max", 0), // a tenant with child jails would escape its limits
		intPair("enforce_statfs", 2),
		intPair("securelevel", jailSecurelevel),
		intPair("devfs_ruleset", 0),
	)
	network, err := networkPairs(j.network, j.address)
	if err != nil {
		return nil, err
	}
	list = append(list, required(network...)...)
	for _, name := range denied {
		list = append(list, param{flagPair(name), true})
	}
	for _, name := range []string{"sysvmsg", "sysvsem", "sysvshm"} {
		list = append(list, param{intPair(name, sysDisable), true})
	}
	return list, nil
}

func networkPairs(n Network, address netip.Addr) ([]pair, error) {
	if (n == NetworkAddress) != address.IsValid() {
		return nil, fault.New(fault.Internal, "network %q and address %q do not belong together", n, address)
	}
	switch n {
	case NetworkNone:
		return []pair{intPair("ip4", sysDisable), intPair("ip6", sysDisable)}, nil
	case NetworkInherit:
		return []pair{intPair("ip4", sysInherit), intPair("ip6", sysInherit)}, nil
	case NetworkAddress:
		if address.Zone() != "" || address.Is4In6() {
			return nil, fault.New(fault.Invalid, "address %q is not a plain IPv4 or IPv6 address", address)
		}
		if address.Is4() {
			return []pair{intPair("ip4", sysNew), {"ip4.addr", address.AsSlice()}, intPair("ip6", sysDisable)}, nil
		}
		return []pair{intPair("ip4", sysDisable), intPair("ip6", sysNew), {"ip6.addr", address.AsSlice()}}, nil
	case NetworkVNET:
		return []pair{intPair("vnet", sysNew)}, nil // the kernel refuses ip4 and ip6 beside it
	}
	return nil, fault.New(fault.Invalid, "network %q is not known on FreeBSD", n).WithHint("use none, inherit, address or vnet")
}

// params of a job's jail: what its parent has, and no more. Abilities and the securelevel are inherited by the kernel;
// addresses are only if asked for; children.max must stay unsaid, because naming it, even as 0, needs a parent that has more.
func (l LeafSpec) params() ([]param, error) {
	for _, part := range []string{l.Parent, l.Name} {
		if err := validJailPart(part); err != nil {
			return nil, err
		}
	}
	name := l.FullName()
	if len(name) >= maxJailName {
		return nil, fault.New(fault.Invalid, "jail name %.64q is too long", name)
	}
	if err := validJailPath(l.Root); err != nil {
		return nil, err
	}
	hostname := l.Hostname
	if hostname == "" {
		hostname = l.Parent
	}
	if strings.ContainsRune(hostname, 0) || len(hostname) >= maxJailName {
		return nil, fault.New(fault.Invalid, "hostname %.64q is not valid", hostname)
	}
	return required(
		stringPair("name", name),
		stringPair("path", l.Root),
		stringPair("host.hostname", hostname),
		flagPair("persist"),
		intPair("enforce_statfs", 2),
		intPair("ip4", sysInherit),
		intPair("ip6", sysInherit),
	), nil
}

func required(pairs ...pair) []param {
	list := make([]param, len(pairs))
	for i, p := range pairs {
		list[i] = param{pair: p}
	}
	return list
}

// known drops the optional parameters that the kernel does not have, and returns the rest as pairs.
func known(params []param, has func(name string) (bool, error)) ([]pair, error) {
	pairs := make([]pair, 0, len(params))
	for _, p := range params {
		if p.optional {
			ok, err := has(p.name)
			if err != nil {
				return nil, fmt.Errorf("cannot ask the kernel for jail parameter %q: %w", p.name, err)
			}
			if !ok {
				continue
			}
		}
		pairs = append(pairs, p.pair)
	}
	return pairs, nil
}

// positive is the name under which the kernel describes a parameter: "allow.chflags" of "allow.nochflags".
func positive(name string) string {
	if rest, ok := strings.CutPrefix(name, "allow.no"); ok {
		return "allow." + rest
	}
	return name
}

// validJailPart refuses what the kernel reads as a number ("12"), as a place in the hierarchy ("a.b"), and what rctl(8)
// cannot spell in a rule.
func validJailPart(name string) error {
	if !jailNamePart.MatchString(name) || strings.Trim(name, "0123456789") == "" || len(name) >= maxJailName {
		return fault.New(fault.Invalid, "jail name %.64q is not valid", name).
			WithHint("use letters, digits, - and _, not digits alone")
	}
	return nil
}

func validJailPath(path string) error {
	if !strings.HasPrefix(path, "/") || len(path) >= maxJailPath || strings.ContainsRune(path, 0) {
		return fault.New(fault.Invalid, "jail path %.64q is not valid", path).WithHint("use an absolute path of at most %d bytes", maxJailPath-1)
	}
	return nil
}
