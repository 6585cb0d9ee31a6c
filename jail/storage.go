package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"playground/fault"
)

// A Storage is what FreeBSD sandboxes stand on.
type Storage string

// The storages.
const (
	// StorageDir is thin: a template's folder, mounted read-only, under folders of the tenant's own. Nothing bounds the disk
	// that a tenant with root inside takes.
	StorageDir Storage = "dir"
	// StorageZFS is a clone of a template's snapshot, bounded by refquota.
	StorageZFS Storage = "zfs"
)

// Defaults of Options that only FreeBSD uses.
const (
	DefaultTemplate  = "base"
	DefaultAddresses = "127.80.0.0/16" // loopback: reaches nothing but this host
)

// A backing is what tenants' roots stand on. Where the platform builds roots by itself there is none.
type backing interface {
	// create makes what belongs to a tenant's root: dir is its folder, complete but not at its final place yet.
	create(ctx context.Context, dir string, rec record) error
	// release makes sure that nothing in the kernel uses the tenant's root any more; fault.Busy if that cannot be had.
	release(ctx context.Context, id string) error
	// destroy removes what is outside of the folder, after release. There may be nothing.
	destroy(ctx context.Context, id string) error
	// mountRoot mounts the root where that takes more than the plan.
	mountRoot(ctx context.Context, rec record) error
	// plan is what is mounted on the tenant's root, in order.
	plan(rec record) []mount
	// ours tells our mounts at a tenant's root from others'.
	ours(root string) func(mounted) bool
}

var templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func validTemplateName(name string) error {
	if !templateName.MatchString(name) || strings.Contains(name, "..") {
		return fault.New(fault.Invalid, "template name %.64q is not valid", name).WithHint("use a-z, 0-9, -, _ and ., at most 63, beginning with a letter or digit")
	}
	return nil
}

func (s *store) templates() string { return filepath.Join(s.dir, "templates") }

// templateRoot is the folder of a template's files.
func (s *store) templateRoot(name string) string { return filepath.Join(s.templates(), name, "root") }

// template reads what a template says of itself.
func (s *store) template(name string) (Template, error) {
	var t Template
	if err := validTemplateName(name); err != nil {
		return t, err
	}
	data, err := os.ReadFile(filepath.Join(s.templates(), name, "template.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return t, fault.New(fault.NotFound, "there is no template %q", name).WithHint("playground template create %s SOURCE", name)
	}
	if err != nil {
		return t, fmt.Errorf("cannot read template %q: %w", name, err)
	}
	if err := json.Unmarshal(data, &t); err != nil || t.Name != name {
		return t, fault.New(fault.Internal, "cannot use template %q: its template.json is not its own", name)
	}
	return t, nil
}

// A copied folder lies in the tenant's folder under another name, because some names are taken there.
type copied struct{ name, on string }

// skeleton are the folders that a tenant of thin storage has of its own, filled from the template. They come beside home,
// workspace and tmp, which every tenant has.
var skeleton = [...]copied{{"etc", "/etc"}, {"var", "/var"}, {"root-home", "/root"}, {"usr-local", "/usr/local"}}

// A dirBacking is thin storage.
type dirBacking struct {
	store    *store
	tmpBytes int64
	ruleset  int
	settle   settler
}

// A settler waits until nothing uses a root, and unmounts what is ours there.
type settler func(ctx context.Context, root string, ours func(mounted) bool, timeout time.Duration) error

func (b *dirBacking) create(ctx context.Context, dir string, rec record) error {
	t, err := b.store.template(rec.Template)
	if err != nil {
		return err
	}
	if t.Storage != StorageDir {
		return fault.New(fault.Invalid, "template %q is for storage %q", rec.Template, t.Storage).WithHint("create a template for this storage")
	}
	for _, c := range skeleton {
		from := filepath.Join(b.store.templateRoot(rec.Template), c.on)
		if err := copyTree(ctx, from, filepath.Join(dir, c.name), nil); err != nil {
			return full(fmt.Errorf("cannot copy the template's %s: %w", c.on, err))
		}
	}
	// The folder is mounted on /home, with the tenant's own home in it.
	if err := os.Chmod(filepath.Join(dir, "home"), 0o755); err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(dir, "home", rec.Tenant), 0o700)
}

// releaseTimeout covers the minute for which TCP keeps a closed connection, and with it the jail (net.inet.tcp.msl).
const releaseTimeout = 90 * time.Second

func (b *dirBacking) release(ctx context.Context, id string) error {
	root := b.store.path(id, "root")
	return b.settle(ctx, root, b.ours(root), releaseTimeout)
}

func (b *dirBacking) destroy(context.Context, string) error { return nil }

func (b *dirBacking) mountRoot(context.Context, record) error { return nil }

func (b *dirBacking) ours(root string) func(mounted) bool { return oursBelow(root, b.store.dir, "") }

func (b *dirBacking) plan(rec record) []mount {
	list := []mount{{fstype: "nullfs", from: b.store.templateRoot(rec.Template), on: "/", readOnly: true}}
	for _, c := range skeleton {
		list = append(list, b.own(rec, c.name, c.on))
	}
	list = append(list, b.own(rec, "home", "/home"), b.own(rec, "workspace", "/workspace"))
	if b.tmpBytes > 0 {
		list = append(list, tmpMount(b.tmpBytes))
	} else {
		list = append(list, b.own(rec, "tmp", "/tmp"))
	}
	return append(list, b.store.commonMounts(rec, b.ruleset)...)
}

func (b *dirBacking) own(rec record, name, on string) mount {
	return mount{fstype: "nullfs", from: b.store.path(rec.ID, name), on: on, noSuid: true}
}

func tmpMount(size int64) mount {
	return mount{fstype: "tmpfs", on: "/tmp", size: size, mode: 0o1777, noSuid: true}
}

// commonMounts are those of every jail: devices, the tenant's pile, and the host's. The host's pile is one file over an empty
// one in a folder that cannot be written, because two jails with a writable folder in common could pass each other open
// folders through a socket in it, and with those leave their roots (CVE-2025-15576).
func (s *store) commonMounts(rec record, ruleset int) []mount {
	list := []mount{
		{fstype: "devfs", on: "/dev", ruleset: ruleset},
		{fstype: "fdescfs", on: "/dev/fd"},
		{fstype: "nullfs", from: s.pile(rec.ID), on: "/pile", noSuid: true},
		{fstype: "nullfs", from: s.sharedMount(), on: "/shared", readOnly: true},
		{fstype: "nullfs", from: filepath.Join(s.shared(), "shared.pile"), on: "/shared/shared.pile", file: true, readOnly: rec.Source != "", noSuid: true},
	}
	if rec.Source != "" {
		list = append(list, mount{fstype: "nullfs", from: s.source(rec), on: SourcePath, readOnly: true, noSuid: true})
	}
	return list
}

func (s *store) sharedMount() string { return filepath.Join(s.dir, "shared-mount") }

// makeSharedMount makes the folder that carries the host's pile into jails.
func (s *store) makeSharedMount() error {
	if err := os.MkdirAll(s.sharedMount(), 0o755); err != nil {
		return fmt.Errorf("cannot make state folder: %w", err)
	}
	if err := os.Chmod(s.sharedMount(), 0o755); err != nil { // whatever the umask
		return fmt.Errorf("cannot set mode of state folder: %w", err)
	}
	err := writeSynced(filepath.Join(s.sharedMount(), "shared.pile"), nil, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// backed refuses a sandbox that stands on another storage than the configured one: only that could mount or remove it.
func (s *store) backed(rec record) error {
	if s.backing == nil || rec.Storage == s.storage {
		return nil
	}
	return fault.New(fault.Unavailable, "the sandbox stands on storage %q, and %q is configured", rec.Storage, s.storage).
		WithHint("set sandbox.storage back")
}

// usedBy lists the tenants whose sandboxes stand on a template.
func (s *store) usedBy(template string) ([]string, error) {
	entries, err := os.ReadDir(s.sandboxes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var tenants []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), makingPrefix) || strings.HasPrefix(e.Name(), gonePrefix) {
			continue
		}
		rec, err := s.load(e.Name())
		if err != nil {
			return nil, err
		}
		if rec.Template == template {
			tenants = append(tenants, rec.Tenant)
		}
	}
	slices.Sort(tenants)
	return tenants, nil
}
