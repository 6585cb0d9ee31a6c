package jail

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"playground/fault"
)

func TestMountVectors(t *testing.T) {
	for _, c := range []struct {
		mount mount
		want  [][]byte
	}{
		{mount{fstype: "nullfs", from: "/t/root", on: "/", readOnly: true}, [][]byte{
			z("fstype"), z("nullfs"), z("fspath"), z("/j"), z("target"), z("/t/root"), z("ro"), nil,
		}},
		{mount{fstype: "nullfs", from: "/s/home", on: "/home", noSuid: true, readOnly: true}, [][]byte{
			z("fstype"), z("nullfs"), z("fspath"), z("/j/home"), z("target"), z("/s/home"), z("nosuid"), nil, z("ro"), nil,
		}},
		{mount{fstype: "devfs", on: "/dev", ruleset: 4}, [][]byte{
			z("fstype"), z("devfs"), z("fspath"), z("/j/dev"), z("from"), z("devfs"), z("ruleset"), z("4"),
		}},
		{mount{fstype: "tmpfs", on: "/tmp", size: 536870912, mode: 0o1777, noSuid: true}, [][]byte{
			z("fstype"), z("tmpfs"), z("fspath"), z("/j/tmp"), z("from"), z("tmpfs"), z("size"), z("536870912"), z("inodes"), z("65536"),
			z("uid"), z("0"), z("gid"), z("0"), z("mode"), z("1777"), z("nosuid"), nil,
		}},
		{mount{fstype: "fdescfs", on: "/dev/fd"}, [][]byte{
			z("fstype"), z("fdescfs"), z("fspath"), z("/j/dev/fd"), z("from"), z("fdescfs"),
		}},
	} {
		pairs, err := c.mount.pairs("/j")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, vector(pairs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.mount.fstype, diff)
		}
	}
}

func TestMountVectorsRefuse(t *testing.T) {
	for name, m := range map[string]mount{
		"devfs that hides nothing": {fstype: "devfs", on: "/dev"},
		"devfs ruleset too large":  {fstype: "devfs", on: "/dev", ruleset: 65536},
		"tmpfs without size":       {fstype: "tmpfs", on: "/tmp"},
		"relative nullfs":          {fstype: "nullfs", from: "x", on: "/"},
		"nullfs of nothing":        {fstype: "nullfs", on: "/"},
		"long path":                {fstype: "nullfs", from: "/" + strings.Repeat("a", 1024), on: "/"},
		"NUL":                      {fstype: "nullfs", from: "/a\x00b", on: "/"},
		"zfs":                      {fstype: "zfs", from: "z/a", on: "/"},
		"unknown":                  {fstype: "ufs", from: "/dev/md0", on: "/"},
	} {
		if _, err := m.pairs("/j"); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestMountedMatches(t *testing.T) {
	want := mount{fstype: "nullfs", from: "/t", on: "/home", readOnly: true, noSuid: true}
	good := mounted{fstype: "nullfs", from: "/t", on: "/j/home", flags: mntReadOnly | mntNoSuid}
	if err := good.matches(want, "/j"); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*mounted){
		"elsewhere":      func(m *mounted) { m.on = "/etc" },
		"other type":     func(m *mounted) { m.fstype = "ufs" },
		"other source":   func(m *mounted) { m.from = "/u" },
		"writable":       func(m *mounted) { m.flags = mntNoSuid },
		"honours setuid": func(m *mounted) { m.flags = mntReadOnly },
	} {
		m := good
		change(&m)
		if m.matches(want, "/j") == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := (mounted{fstype: "zfs", from: "z/s/1", on: "/j"}).matches(mount{fstype: "zfs", from: "z/s/1", on: "/"}, "/j"); err != nil {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	table := []mounted{
		{fstype: "ufs", from: "/dev/ada0", on: "/"},
		{fstype: "nullfs", from: "/s/templates/base/root", on: "/s/1/root"},
		{fstype: "devfs", from: "devfs", on: "/s/1/root/dev", fsid: [2]int32{-5, 7}},
		{fstype: "fdescfs", from: "fdescfs", on: "/s/1/root/dev/fd"},
		{fstype: "nullfs", from: "/s/x", on: "/s/1/root2"},
		{fstype: "nullfs", from: "/s/y", on: "/s/1/root/dev"},
	}
	var on []string
	for _, m := range below(table, "/s/1/root") {
		on = append(on, m.from)
	}
	if diff := cmp.Diff([]string{"/s/y", "fdescfs", "devfs", "/s/templates/base/root"}, on); diff != "" {
		t.Errorf("order of unmounting (-want +got):\n%s", diff)
	}
	if m, ok := topAt(table, "/s/1/root/dev"); !ok || m.from != "/s/y" {
		t.Errorf("top is %+v", m)
	}
	if _, ok := topAt(table, "/s/1/root/etc"); ok {
		t.Error("a mount that is not there")
	}
	if got := table[2].fsidName(); got != "FSID:-5:7" {
		t.Errorf("fsid %q", got)
	}
}

func TestOursAndForeign(t *testing.T) {
	const root = "/s/sandboxes/1/root"
	ours := oursBelow(root, "/s", "z/sandboxes/1")
	mine := []mounted{
		{fstype: "zfs", from: "z/sandboxes/1", on: root},
		{fstype: "nullfs", from: "/s/piles/1", on: root + "/pile"},
		{fstype: "devfs", from: "devfs", on: root + "/dev"},
		{fstype: "fdescfs", from: "fdescfs", on: root + "/dev/fd"},
		{fstype: "tmpfs", from: "tmpfs", on: root + "/tmp"},
	}
	for _, m := range mine {
		if !ours(m) {
			t.Errorf("%+v is not ours", m)
		}
	}
	for _, m := range []mounted{
		{fstype: "zfs", from: "z/sandboxes/2", on: root},
		{fstype: "zfs", from: "z/sandboxes/1", on: root + "/x"},
		{fstype: "nullfs", from: "/home/op", on: root + "/mnt"},
		{fstype: "nullfs", from: "/s2/piles", on: root + "/mnt"},
		{fstype: "nfs", from: "srv:/x", on: root + "/mnt"},
		{fstype: "devfs", from: "devfs", on: root + "/x/dev"},
		{fstype: "devfs", from: "devfs", on: "/dev"},
		{fstype: "nullfs", from: "/s/piles/1", on: "/s/sandboxes/10/root/pile"},
	} {
		if ours(m) {
			t.Errorf("%+v counts as ours", m)
		}
	}
	if m, ok := foreign(mine, root, ours); ok {
		t.Errorf("%+v is foreign", m)
	}
	added := append(mine[:len(mine):len(mine)], mounted{fstype: "nullfs", from: "/home/op", on: root + "/mnt"})
	if m, ok := foreign(added, root, ours); !ok || m.from != "/home/op" {
		t.Errorf("foreign: %+v, %v", m, ok)
	}
	plan := []mount{{fstype: "zfs", from: "z/sandboxes/1", on: "/"}, {fstype: "devfs", on: "/dev"}, {fstype: "fdescfs", on: "/dev/fd"}, {fstype: "nullfs", from: "/s/piles/1", on: "/pile"}}
	if !stale(mine, root, plan, ours) { // /tmp is no tmpfs any more
		t.Error("a mount that the plan has not is not stale")
	}
	if stale(mine[:4], root, plan, ours) {
		t.Error("a mount of the plan is stale")
	}
	if stale(added[5:], root, plan, ours) {
		t.Error("a mount of the operator's is stale")
	}
}

func TestMountPointsNeverFollowLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, rel := range []string{"/link", "/link/x", "/file", "/file/x"} {
		if err := makeMountPoint(root, rel); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", rel, err)
		}
	}
	if err := writeBeneath(root, "/link/etc", []byte("x"), 0o600); !errors.Is(err, fault.Unavailable) {
		t.Errorf("write through a link: %v", err)
	}
	for _, rel := range []string{"/a/b", "/a/b", "/a/../../c"} {
		if err := makeMountPoint(root, rel); err != nil {
			t.Errorf("%s: %v", rel, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "c")); err != nil {
		t.Errorf("a path with .. left the root: %v", err)
	}
	if info, err := os.Stat(filepath.Join(root, "a/b")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mount point: %v, %v", info, err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) > 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestMountFile(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "shared"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "shared/shared.pile")
	if err := checkMountFile(root, "/shared/shared.pile"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := checkMountFile(root, "/shared/shared.pile"); err != nil {
		t.Error(err)
	}
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := checkMountFile(root, "/shared/shared.pile"); err == nil {
		t.Error("a file with two names is accepted")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("shared.pile2", path); err != nil {
		t.Fatal(err)
	}
	if err := checkMountFile(root, "/shared/shared.pile"); err == nil {
		t.Error("a link is accepted")
	}
}

func TestWriteBeneathKeepsTheTenants(t *testing.T) {
	root := t.TempDir()
	for _, text := range []string{"first", "second"} {
		if err := writeBeneath(root, "/resolv.conf", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "resolv.conf"))
	if err != nil || string(data) != "first" {
		t.Errorf("%q, %v", data, err)
	}
	if err := os.Remove(filepath.Join(root, "resolv.conf")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, filepath.Join(root, "resolv.conf")); err != nil {
		t.Fatal(err)
	}
	if err := writeBeneath(root, "/resolv.conf", []byte("x"), 0o644); err != nil {
		t.Errorf("over a link: %v", err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}
