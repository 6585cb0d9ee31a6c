package config

import (
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"playground/jail"
)

func (v rawSandbox) check(c *checker, p platform) {
	oneOf(c, "sandbox.isolation", v.Isolation, p.isolations)
	oneOf(c, "sandbox.network", v.Network, p.networks)
	span(c, "sandbox.handle_ttl", v.HandleTTL, "1m", "8760h")
	// Each tenant takes 65,536 uids from here up: start above the host's own users and leave room for many tenants.
	between(c, "sandbox.uid_base", v.UIDBase, 65_536, 2_000_000_000)
	if v.PileSeed != "" {
		absolute(c, "sandbox.pile_seed", v.PileSeed)
	}
	if !langForm.MatchString(v.Lang) {
		c.refuse("sandbox.lang", v.Lang, "it must be a locale's name, such as C.UTF-8")
	}
	for _, dir := range strings.Split(v.Path, ":") {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.ContainsAny(dir, "\x00\n") {
			c.refuse("sandbox.path", v.Path, "it must be absolute folders separated by colons; %q is not one", dir)
			break
		}
	}
	v.checkStorage(c, p)
	between(c, "sandbox.devfs_ruleset", v.DevfsRuleset, 0, 65_535)
	v.checkAddresses(c)
}

var (
	// A dataset's parts begin with neither a hyphen, which could be read as an option, nor a dot.
	datasetForm  = regexp.MustCompile(`^[A-Za-z0-9_:][A-Za-z0-9_:.-]*(/[A-Za-z0-9_:][A-Za-z0-9_:.-]*)*$`)
	templateForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
)

// checkStorage checks what sandboxes stand on. A bound that the storage cannot keep is refused: a file must not promise it.
func (v rawSandbox) checkStorage(c *checker, p platform) {
	oneOf(c, "sandbox.storage", v.Storage, p.storages)
	zfs := v.Storage == string(jail.StorageZFS)
	switch {
	case v.Dataset == "" && zfs:
		c.refuse("sandbox.dataset", v.Dataset, "storage zfs needs a dataset for Playground, such as zroot/playground")
	case v.Dataset != "" && (!datasetForm.MatchString(v.Dataset) || len(v.Dataset) > 200):
		c.refuse("sandbox.dataset", v.Dataset, "it must be the name of a ZFS filesystem, such as zroot/playground")
	}
	if !templateForm.MatchString(v.Template) || strings.Contains(v.Template, "..") {
		c.refuse("sandbox.template", v.Template, "it must be a-z, 0-9, -, _ and ., at most 63, beginning with a letter or digit")
	}
	unlimited(c, "sandbox.quota", v.Quota, 64<<20, 1<<60)
	if v.Quota != 0 && !zfs {
		c.refuse("sandbox.quota", v.Quota, "storage %s cannot bound what a tenant writes: use zfs, or 0", v.Storage)
	}
	unlimited(c, "sandbox.tmp_bytes", v.TmpBytes, 1<<20, 1<<50)
}

// checkAddresses checks the network that tenants' own addresses come from.
func (v rawSandbox) checkAddresses(c *checker) {
	const key = "sandbox.addresses"
	prefix, err := netip.ParsePrefix(v.Addresses)
	if err != nil {
		c.refuse(key, v.Addresses, "it must be a network, such as %s", jail.DefaultAddresses)
		return
	}
	addr := prefix.Addr()
	switch {
	case addr.Is4In6(), addr.IsMulticast(), addr.IsLinkLocalUnicast(), addr.IsUnspecified():
		c.refuse(key, v.Addresses, "its addresses cannot be a host's own")
	case prefix.Masked() != prefix:
		c.refuse(key, v.Addresses, "write it as %s", prefix.Masked())
	// The first addresses and the last one are nobody's, so that a smaller network has none.
	case addr.BitLen()-prefix.Bits() < 3:
		c.refuse(key, v.Addresses, "it has no room for tenants: it must hold at least 8 addresses")
	}
}

// build copies checked values.
func (v rawSandbox) build(p platform) Sandbox {
	isolation := jail.Isolation(v.Isolation)
	if v.Isolation == isolationAuto {
		isolation = p.auto
	}
	return Sandbox{
		Isolation: isolation,
		Network:   jail.Network(v.Network),
		HandleTTL: v.HandleTTL.must(),
		UIDBase:   uint32(v.UIDBase),
		PileSeed:  v.PileSeed,
		Lang:      v.Lang,
		Path:      v.Path,

		Storage:      jail.Storage(v.Storage),
		Dataset:      v.Dataset,
		Template:     v.Template,
		Quota:        int64(v.Quota),
		DevfsRuleset: int(v.DevfsRuleset),
		TmpBytes:     int64(v.TmpBytes),
		Addresses:    netip.MustParsePrefix(v.Addresses),
	}
}
