package jail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"playground/fault"
)

// A zfsBacking gives every tenant a clone of a template's snapshot: a whole system of its own, bounded by refquota.
type zfsBacking struct {
	store    *store
	zfs      zfs
	quota    int64
	tmpBytes int64
	ruleset  int
	settle   settler
	// table is the host's mount table.
	table func() ([]mounted, error)
}

// validID accepts a ULID as we write it.
func validID(id string) bool {
	_, err := ulid.ParseStrict(strings.ToUpper(id))
	return err == nil && id == strings.ToLower(id)
}

func (b *zfsBacking) root(id string) string { return b.store.path(id, "root") }

func (b *zfsBacking) create(ctx context.Context, _ string, rec record) error {
	t, err := b.store.template(rec.Template)
	if err != nil {
		return err
	}
	if t.Storage != StorageZFS {
		return fault.New(fault.Invalid, "template %q is for storage %q", rec.Template, t.Storage).WithHint("create a template for this storage")
	}
	return b.zfs.clone(ctx, rec.Template, rec.ID, rec.Tenant, b.root(rec.ID), b.quota)
}

func (b *zfsBacking) release(ctx context.Context, id string) error {
	return b.settle(ctx, b.root(id), b.ours(b.root(id)), releaseTimeout)
}

func (b *zfsBacking) ours(root string) func(mounted) bool {
	return oursBelow(root, b.store.dir, b.zfs.sandbox(filepath.Base(filepath.Dir(root))))
}

// destroy refuses while something is mounted in the root: zfs(8) would take it away with the dataset.
func (b *zfsBacking) destroy(ctx context.Context, id string) error {
	table, err := b.table()
	if err != nil {
		return err
	}
	for _, m := range below(table, b.root(id)) {
		if m.fstype != "zfs" || m.from != b.zfs.sandbox(id) || m.on != b.root(id) {
			return fault.New(fault.Busy, "%s is mounted on %q", m.from, m.on).WithHint("unmount it first")
		}
	}
	return b.zfs.destroySandbox(ctx, id, b.root(id))
}

func (b *zfsBacking) mountRoot(ctx context.Context, rec record) error {
	if err := b.mounted(rec); err == nil {
		return nil
	}
	if err := makeMountPoint(filepath.Dir(b.root(rec.ID)), "root"); err != nil {
		return err
	}
	if _, err := b.zfs.run(ctx, zfsProgram, "mount", b.zfs.sandbox(rec.ID)); err != nil {
		return err
	}
	if err := b.mounted(rec); err != nil {
		return err
	}
	// The home folder is the tenant's own, so that its name can differ from tenant to tenant of one template.
	// Nothing is mounted there: one that the tenant replaced by a link, or has no room for any more, is its own affair.
	if err := makeMountPoint(b.root(rec.ID), "/home/"+rec.Tenant); err != nil && !errors.Is(err, fault.Unavailable) && !isNoSpace(err) {
		return err
	}
	return nil
}

func (b *zfsBacking) mounted(rec record) error {
	table, err := b.table()
	if err != nil {
		return err
	}
	want := mount{fstype: "zfs", from: b.zfs.sandbox(rec.ID), on: "/"}
	for _, m := range table {
		if m.matches(want, b.root(rec.ID)) == nil {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "dataset %q is not mounted on %q", want.from, b.root(rec.ID))
}

func (b *zfsBacking) plan(rec record) []mount {
	list := []mount{{fstype: "zfs", from: b.zfs.sandbox(rec.ID), on: "/"}}
	if b.tmpBytes > 0 {
		list = append(list, tmpMount(b.tmpBytes))
	}
	return append(list, b.store.commonMounts(rec, b.ruleset)...)
}

// newBacking returns the storage that the options ask for.
func newBacking(o Options, s *store, run runner, settle settler, table func() ([]mounted, error)) (backing, error) {
	ruleset := o.DevfsRuleset
	if ruleset == 0 {
		ruleset = ownRuleset
	}
	switch o.Storage {
	case StorageDir, "":
		return &dirBacking{store: s, tmpBytes: o.TmpBytes, ruleset: ruleset, settle: settle}, nil
	case StorageZFS:
		if err := validDataset(o.Dataset); err != nil {
			return nil, err
		}
		return &zfsBacking{
			store: s, zfs: zfs{run, o.Dataset}, quota: o.Quota, tmpBytes: o.TmpBytes, ruleset: ruleset, settle: settle, table: table,
		}, nil
	}
	return nil, fault.Wrap(fault.Invalid, fmt.Errorf("%q", o.Storage), "storage is not known").WithHint("use dir or zfs")
}
