package jail

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

// fakeSystem makes a folder that looks like a FreeBSD system.
func fakeSystem(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "system")
	for _, dir := range []string{"bin", "etc/ssh", "usr/bin", "usr/home", "usr/local/etc", "var/empty", "root", "rescue"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"bin/sh": "#!", "bin/freebsd-version": "#!/bin/sh\nUSERLAND_VERSION=\"13.2-RELEASE-p1\"\n", "etc/passwd": "root", "rescue/a": "crunched", "root/.profile": "x",
		"usr/bin/su": "su",
	} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink("usr/home", filepath.Join(root, "home")),
		os.Link(filepath.Join(root, "rescue/a"), filepath.Join(root, "rescue/b")),
		os.Chmod(filepath.Join(root, "usr/bin/su"), 0o755|fs.ModeSetuid),
		os.Chmod(filepath.Join(root, "var/empty"), 0o555),
		syscall.Mkfifo(filepath.Join(root, "var/fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCopyTree(t *testing.T) {
	from, to := fakeSystem(t), filepath.Join(t.TempDir(), "copy")
	if err := copyTree(t.Context(), from, to, func(rel string) bool { return rel == "etc/ssh" }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(to, "usr/bin/su")); err != nil || info.Mode() != 0o755|fs.ModeSetuid {
		t.Errorf("setuid file: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(to, "var/empty")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("folder without write permission: %v, %v", info.Mode(), err)
	}
	a, err := os.Stat(filepath.Join(to, "rescue/a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(filepath.Join(to, "rescue/b"))
	if err != nil || !os.SameFile(a, b) {
		t.Errorf("two names of one file became two files: %v", err)
	}
	if link, err := os.Readlink(filepath.Join(to, "home")); err != nil || link != "usr/home" {
		t.Errorf("link: %q, %v", link, err)
	}
	for _, gone := range []string{"var/fifo", "etc/ssh"} {
		if _, err := os.Lstat(filepath.Join(to, gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was copied: %v", gone, err)
		}
	}
	src, err := os.Stat(filepath.Join(from, "bin/sh"))
	if err != nil {
		t.Fatal(err)
	}
	if dst, err := os.Stat(filepath.Join(to, "bin/sh")); err != nil || !dst.ModTime().Equal(src.ModTime()) {
		t.Errorf("time of a file: %v", err)
	}
	if err := copyTree(t.Context(), from, to, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto what is there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := copyTree(ctx, from, filepath.Join(t.TempDir(), "x"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// thinManager is a manager on thin storage whose kernel is a fake.
func thinManager(t *testing.T, dir string, settle settler) *Manager {
	t.Helper()
	if _, err := newTemplates(t, dir).Create(t.Context(), "base", fakeSystem(t)); err != nil {
		t.Fatal(err)
	}
	m, _ := newManager(t, dir)
	m.opts.Template = "base"
	b, err := newBacking(m.opts, &m.store, runProgram, settle, hostMounts)
	if err != nil {
		t.Fatal(err)
	}
	m.store.backing, m.store.storage = b, StorageDir
	return m
}

func settled(context.Context, string, func(mounted) bool, time.Duration) error { return nil }

func TestThinStorage(t *testing.T) {
	dir := t.TempDir()
	m := thinManager(t, dir, settled)
	sb := provision(t, m, "alice")
	for _, path := range []string{"etc/passwd", "root-home/.profile", "usr-local/etc", "home/alice", "workspace", "tmp", "root", "var/empty"} {
		if _, err := os.Lstat(m.store.path(sb.ID, path)); err != nil {
			t.Error(err)
		}
	}
	rec, err := m.store.load(sb.ID)
	if err != nil || rec.Template != "base" {
		t.Fatalf("record %+v, %v", rec, err)
	}
	var plan []string
	for _, p := range m.store.backing.plan(rec) {
		line := p.fstype + " " + p.on
		if p.readOnly {
			line += " ro"
		}
		if p.noSuid {
			line += " nosuid"
		}
		// Everything a tenant can write must not honour setuid, and nothing may come from outside the state folder.
		if p.fstype == "nullfs" && (!p.readOnly && !p.noSuid || !strings.HasPrefix(p.from, dir+"/")) {
			t.Errorf("mount %+v", p)
		}
		plan = append(plan, line)
	}
	want := []string{
		"nullfs / ro", "nullfs /etc nosuid", "nullfs /var nosuid", "nullfs /root nosuid", "nullfs /usr/local nosuid", "nullfs /home nosuid",
		"nullfs /workspace nosuid", "nullfs /tmp nosuid", "devfs /dev", "fdescfs /dev/fd", "nullfs /pile nosuid", "nullfs /shared ro",
		"nullfs /shared/shared.pile nosuid",
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(m.store.sandboxes()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestThinStorageIsAllOrNothing(t *testing.T) {
	m := thinManager(t, t.TempDir(), settled)
	m.opts.Template = "other"
	if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "bob"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("template that is missing: %v", err)
	}
	for _, dir := range []string{m.store.sandboxes(), filepath.Join(m.store.dir, "piles")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	m.opts.Template = "base"
	provision(t, m, "bob") // the name is free
}

// A refusingBacking looks at a new tenant's pile while its storage is made, and then makes none.
type refusingBacking struct {
	backing
	piles  func(id string) string
	sealed bool
}

func (b *refusingBacking) create(_ context.Context, _ string, rec record) error {
	b.sealed = hasAppendFlag(filepath.Join(b.piles(rec.ID), "self.pile"))
	return errFake
}

// A pile that cannot be removed any more must not be left by a tenant that never came to be: the flag is set last.
func TestPileIsSealedLast(t *testing.T) {
	m := thinManager(t, t.TempDir(), settled)
	refusing := &refusingBacking{backing: m.store.backing, piles: m.store.pile}
	m.store.backing = refusing
	if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "alice"}); !errors.Is(err, errFake) {
		t.Errorf("storage that cannot be made: %v", err)
	}
	if refusing.sealed {
		t.Error("the pile was append-only before the storage was there")
	}
	m.store.backing = refusing.backing
	probe := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setAppendOnly(probe, true)
	able := hasAppendFlag(probe)
	setAppendOnly(probe, false)
	if sb := provision(t, m, "alice"); hasAppendFlag(filepath.Join(m.store.pile(sb.ID), "self.pile")) != able {
		t.Errorf("the flag can be set: %v; the pile is %+v", able, sb.AppendOnly)
	}
}

func TestStorageInUseStays(t *testing.T) {
	busy := true
	m := thinManager(t, t.TempDir(), func(context.Context, string, func(mounted) bool, time.Duration) error {
		if busy {
			return fault.New(fault.Busy, "/home/op is mounted on /mnt").WithHint("umount /mnt")
		}
		return nil
	})
	sb := provision(t, m, "alice")
	err := m.Destroy(t.Context(), "alice")
	if !errors.Is(err, fault.Busy) || fault.HintOf(err) != "umount /mnt" {
		t.Errorf("destroy: %v, hint %q", err, fault.HintOf(err))
	}
	if _, err := os.Stat(m.store.path(sb.ID, "home/alice")); err != nil {
		t.Error(err)
	}
	busy = false
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
}

func TestOtherStorageStays(t *testing.T) {
	m := thinManager(t, t.TempDir(), settled)
	sb := provision(t, m, "alice")
	m.store.storage = StorageZFS
	if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("destroy with another storage configured: %v", err)
	}
	m.store.storage = StorageDir
	if _, err := os.Stat(m.store.path(sb.ID, "home/alice")); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
}

func TestLeftoversDoNotStopTheStart(t *testing.T) {
	m := thinManager(t, t.TempDir(), func(context.Context, string, func(mounted) bool, time.Duration) error {
		return fault.New(fault.Busy, "something is mounted there")
	})
	left := m.store.path(gonePrefix+testID, "")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	provision(t, m, "alice")
	records, err := m.store.open()
	if err != nil || len(records) != 1 || len(m.store.failed) != 1 {
		t.Errorf("%d records, %v, told %v", len(records), err, m.store.failed)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error(err)
	}
	m.store.backing.(*dirBacking).settle = settled
	if _, err := m.store.open(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
}

func TestBackingOptions(t *testing.T) {
	for _, o := range []Options{{Storage: "nfs"}, {Storage: StorageZFS}, {Storage: StorageZFS, Dataset: "z/-r"}} {
		if _, err := newBacking(o, &store{}, runProgram, settled, hostMounts); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	b, err := newBacking(Options{Storage: StorageZFS, Dataset: "z/pg", TmpBytes: 1 << 20, DevfsRuleset: 44}, &store{dir: "/s"}, runProgram, settled, hostMounts)
	if err != nil {
		t.Fatal(err)
	}
	plan := b.plan(record{ID: testID, Tenant: "alice"})
	want := []mount{
		{fstype: "zfs", from: "z/pg/sandboxes/" + testID, on: "/"}, {fstype: "tmpfs", on: "/tmp", size: 1 << 20, mode: 0o1777, noSuid: true},
		{fstype: "devfs", on: "/dev", ruleset: 44},
	}
	if diff := cmp.Diff(want, plan[:3], cmp.AllowUnexported(mount{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	ours := b.ours("/s/sandboxes/" + testID + "/root")
	if !ours(mounted{fstype: "zfs", from: "z/pg/sandboxes/" + testID, on: "/s/sandboxes/" + testID + "/root"}) {
		t.Error("our dataset is not ours")
	}
}

func TestSharedMount(t *testing.T) {
	s := store{dir: t.TempDir()}
	for range 2 {
		if err := s.makeSharedMount(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(s.sharedMount(), "shared.pile"))
	if err != nil || info.Size() != 0 || info.Mode() != 0o444 {
		t.Errorf("%v, %v", info, err)
	}
}
