package jail

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"playground/fault"
)

func TestSessionFile(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	id := provision(t, m, "alice").ID
	if open, err := m.store.loadSession(id); err != nil || open.Handles != 0 {
		t.Errorf("none: %+v, %v", open, err)
	}
	for _, want := range []session{{Handles: 1}, {Handles: 2, Cwd: "/workspace/x", Env: map[string]string{"A": "1"}}} {
		if err := m.store.saveSession(id, want); err != nil {
			t.Fatal(err)
		}
		got, err := m.store.loadSession(id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("session (-want +got):\n%s", diff)
		}
	}
	if info, err := os.Stat(m.store.session(id)); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode: %v, %v", info, err)
	}
	for range 2 { // the second finds nothing to remove
		if err := m.store.saveSession(id, session{}); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", "{", `{"handles":-1}`} {
		if err := os.WriteFile(m.store.session(id), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.store.loadSession(id); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestReattachTenant(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	tn := m.tenants["alice"]
	if err := m.reattach(t.Context(), tn); err != nil || tn.object != nil {
		t.Errorf("without a session: %v, %v", tn.object, err)
	}
	if err := m.store.saveSession(tn.rec.ID, session{Handles: 2, Cwd: "/x", Env: map[string]string{"A": "1"}}); err != nil {
		t.Fatal(err)
	}
	attach := m.attach
	m.attach = func(context.Context, record) (kernelObject, error) { return nil, errors.New("no") }
	if err := m.reattach(t.Context(), tn); err == nil {
		t.Error("a failed attach is no error")
	}
	m.attach = attach
	// The session is open all the same, and the next command attaches.
	a, err := m.Attachment(t.Context(), "alice")
	if err != nil || a.Cwd != "/x" || a.Sandbox.Handles != 2 || !slices.Contains(a.Env, "A=1") || len(*objects) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A rooted object also knows the host path of its root.
type rootedObject struct{ *fakeObject }

func (rootedObject) Root() string { return "/var/db/pg/root" }

func TestAttachmentNamesTheRoot(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	m.attach = func(context.Context, record) (kernelObject, error) {
		return rootedObject{&fakeObject{gone: make(chan struct{})}}, nil
	}
	provision(t, m, "alice")
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, err := m.Attachment(t.Context(), "alice"); err != nil || a.Root != "/var/db/pg/root" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAddresses(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	m.opts.Addresses = netip.MustParsePrefix("127.80.0.9/29")
	var got []string
	for range 5 {
		addr, err := m.takeAddressLocked()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, addr.String())
	}
	if diff := cmp.Diff([]string{"127.80.0.10", "127.80.0.11", "127.80.0.12", "127.80.0.13", "127.80.0.14"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if _, err := m.takeAddressLocked(); !errors.Is(err, fault.Limit) {
		t.Errorf("none left: %v", err)
	}
	delete(m.addresses, netip.MustParseAddr("127.80.0.12"))
	if addr, err := m.takeAddressLocked(); err != nil || addr.String() != "127.80.0.12" {
		t.Errorf("a free one: %v, %v", addr, err)
	}
	m.opts.Addresses = netip.Prefix{}
	if addr, err := m.takeAddressLocked(); err != nil || addr.String() != "127.80.0.2" {
		t.Errorf("the default network: %v, %v", addr, err)
	}
	m.opts.Addresses = netip.MustParsePrefix("127.80.0.0/31")
	if addr, err := m.takeAddressLocked(); !errors.Is(err, fault.Limit) {
		t.Errorf("too small a network: %v, %v", addr, err)
	}
}

func TestAliasArguments(t *testing.T) {
	for _, c := range []struct {
		addr string
		add  bool
		want string
	}{
		{"127.80.0.2", true, "lo0 inet 127.80.0.2/32 alias"},
		{"127.80.0.2", false, "lo0 inet 127.80.0.2 -alias"},
		{"fd00::5", true, "lo0 inet6 fd00::5/128 alias"},
		{"fd00::5", false, "lo0 inet6 fd00::5 -alias"},
	} {
		if got := strings.Join(aliasArgs(netip.MustParseAddr(c.addr), c.add), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNetworkWarnings(t *testing.T) {
	for network, want := range map[Network]bool{NetworkNone: false, NetworkAddress: false, NetworkHost: true, NetworkInherit: true, NetworkVNET: true} {
		if got := network.Warning() != ""; got != want {
			t.Errorf("%s: warning %v", network, got)
		}
	}
}

func TestProbeOfHostilePile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink("/etc/passwd", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, filepath.Join(dir, "missing")} {
		if got := appendOnly(path); got.Enforced || got.Reason == "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestFlagWorth(t *testing.T) {
	for _, c := range []struct {
		fstype   string
		level    int
		enforced bool
		says     string
	}{
		{"ufs", -1, true, "host root can at securelevel -1"},
		{"ufs", 0, true, "host root can"},
		{"ufs", 1, true, "cannot be cleared at securelevel 1"},
		{"zfs", 0, false, "cut, renamed or removed"},
		{"zfs", 3, false, "cut, renamed or removed"},
		{"tmpfs", 3, false, "tmpfs"},
		{"nfs", 3, false, "nfs"},
	} {
		got := flagWorth(c.fstype, c.level)
		if got.Enforced != c.enforced || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s at %d: %+v", c.fstype, c.level, got)
		}
	}
}
