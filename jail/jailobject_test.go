package jail

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

func open(t *testing.T, m *Manager, name string) Attachment {
	t.Helper()
	if _, err := m.Open(t.Context(), name, OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := m.Attachment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (h *fakeHost) leaf(t *testing.T, parent string) int {
	t.Helper()
	l := LeafSpec{Parent: parent, Name: "job" + string(rune('a'+h.jid)), Root: h.list[0].Path}
	params, err := l.params()
	if err != nil {
		t.Fatal(err)
	}
	jid, err := h.createJail(l.FullName(), params)
	if err != nil {
		t.Fatal(err)
	}
	return jid
}

func (h *fakeHost) mustBeEmpty(t *testing.T) {
	t.Helper()
	if len(h.list) > 0 || len(h.table) > 0 || len(h.aliases) > 0 {
		t.Errorf("left: jails %+v, mounts %+v, aliases %v", h.list, h.table, h.aliases)
	}
}

func TestJailIsMadeAndTakenApart(t *testing.T) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	sb := provision(t, m, "alice")
	m.tenants["alice"].rec.Network, m.tenants["alice"].rec.Address = NetworkAddress, netip.MustParseAddr("127.80.0.2")
	a := open(t, m, "alice")
	if a.Sandbox.Address != "127.80.0.2" || sb.Address != "" {
		t.Errorf("addresses %q and, without one of its own, %q", a.Sandbox.Address, sb.Address)
	}
	if a.Root != m.store.path(sb.ID, "root") || len(h.list) != 1 || h.list[0].Name != "pg-alice" || h.list[0].Path != a.Root {
		t.Fatalf("root %q, jails %+v", a.Root, h.list)
	}
	plan := m.store.backing.plan(m.tenants["alice"].rec)
	if len(h.table) != len(plan) || len(h.aliases) != 1 {
		t.Errorf("%d mounts, want %d; aliases %v", len(h.table), len(plan), h.aliases)
	}
	// The rules come before the mount they hide devices of, and the jail comes last.
	order := strings.Join(h.calls, ",")
	if !strings.HasPrefix(order, "alias true,ruleset 28775,mount root,") || !strings.HasSuffix(order, ",mount shared.pile,devices,create pg-alice") {
		t.Errorf("order: %s", order)
	}
	leaf := h.leaf(t, "pg-alice")
	if sb, err := m.Close(t.Context(), "alice"); err != nil || !sb.Attached {
		t.Errorf("closed while a job runs: %+v, %v", sb, err)
	}
	if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Busy) {
		t.Errorf("destroyed while a job runs: %v", err)
	}
	if err := h.removeJail(leaf); err != nil {
		t.Fatal(err)
	}
	m.sweep(t.Context(), time.Now())
	h.mustBeEmpty(t)
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
}

// Whatever call fails, nothing is left, and the next attempt succeeds.
func TestFailedAttachLeavesNothing(t *testing.T) {
	for network, address := range map[Network]netip.Addr{NetworkInherit: {}, NetworkAddress: netip.MustParseAddr("127.80.0.2")} {
		t.Run(string(network), func(t *testing.T) { failEachStep(t, network, address) })
	}
}

func failEachStep(t *testing.T, network Network, address netip.Addr) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	provision(t, m, "alice")
	m.tenants["alice"].rec.Network, m.tenants["alice"].rec.Address = network, address
	open(t, m, "alice")
	if _, err := m.Close(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	steps := slices.DeleteFunc(slices.Clone(h.calls), func(c string) bool { return strings.HasPrefix(c, "remove") || c == "alias false" })
	if len(steps) < 15 {
		t.Fatalf("steps: %q", steps)
	}
	for _, step := range steps {
		h.fail = step
		if _, err := m.Open(t.Context(), "alice", OpenOptions{}); !errors.Is(err, errFake) {
			t.Errorf("%s failed: %v", step, err)
		}
		h.mustBeEmpty(t)
	}
	h.fail = ""
	open(t, m, "alice")
}

func TestMountThatGoesElsewhere(t *testing.T) {
	h := &fakeHost{table: []mounted{{fstype: "devfs", from: "devfs", on: "/dev", fsid: [2]int32{99, 9}}}}
	m := jailManager(t, h, t.TempDir())
	sb := provision(t, m, "alice")
	h.elsewh = map[string]string{m.store.path(sb.ID, "root/dev"): "/dev"}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("open: %v", err)
	}
	if len(h.table) != 1 || h.table[0].fsid != [2]int32{99, 9} || len(h.list) > 0 {
		t.Errorf("left: %+v, %+v", h.table, h.list)
	}
}

func TestLingeringJail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		m := jailManager(t, h, t.TempDir())
		provision(t, m, "alice")
		first := open(t, m, "alice")
		leaf := h.leaf(t, "pg-alice")
		h.linger = true
		if err := h.removeJail(leaf); err != nil { // its job is over; a connection is still being closed
			t.Fatal(err)
		}
		begin := time.Now()
		if sb, err := m.Close(t.Context(), "alice"); err != nil || sb.Attached {
			t.Errorf("close: %+v, %v", sb, err)
		}
		if took := time.Since(begin); took > detachWait+unmountWait {
			t.Errorf("close took %v", took)
		}
		// The same tenant does not wait: the mounts are used again.
		mounts := len(h.table)
		again := open(t, m, "alice")
		if len(h.table) != mounts || again.Generation == first.Generation || len(h.list) != 3 {
			t.Errorf("mounts %d, then %d; jails %+v", mounts, len(h.table), h.list)
		}
		if _, err := m.Close(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		// Destroying waits until the last reference is gone.
		begin = time.Now()
		h.until = begin.Add(40 * time.Second)
		if err := m.Destroy(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("destroy took %v", took)
		}
		h.mustBeEmpty(t)
	})
}

func TestJailThatNeverGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		m := jailManager(t, h, t.TempDir())
		provision(t, m, "alice")
		open(t, m, "alice")
		h.linger = true
		begin := time.Now()
		if err := m.Destroy(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < releaseTimeout {
			t.Errorf("forced after %v", took)
		}
		if len(h.table) > 0 {
			t.Errorf("mounts left: %+v", h.table)
		}
	})
}

func TestOperatorsMountStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		m := jailManager(t, h, t.TempDir())
		provision(t, m, "alice")
		root := open(t, m, "alice").Root
		h.table = append(h.table, mounted{fstype: "nfs", from: "srv:/data", on: filepath.Join(root, "mnt"), fsid: [2]int32{99, 9}})
		if _, err := m.Close(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		if len(h.list) > 0 || len(h.table) != 2 { // it, and the root it lies on
			t.Errorf("jails %+v, mounts %+v", h.list, h.table)
		}
		open(t, m, "alice")
		if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Busy) || !strings.HasPrefix(fault.HintOf(err), "umount ") {
			t.Errorf("destroy: %v, hint %q", err, fault.HintOf(err))
		}
		h.table = slices.DeleteFunc(h.table, func(m mounted) bool { return m.fstype == "nfs" })
		if err := m.Destroy(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		h.mustBeEmpty(t)
	})
}

func TestGoneWhenRemovedFromOutside(t *testing.T) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	provision(t, m, "alice")
	first := open(t, m, "alice")
	if err := h.removeJail(h.list[0].JID); err != nil {
		t.Fatal(err)
	}
	if sb, err := m.Get(t.Context(), "alice"); err != nil || sb.Attached {
		t.Errorf("%+v, %v", sb, err)
	}
	if a, err := m.Attachment(t.Context(), "alice"); err != nil || a.Generation == first.Generation || len(h.list) != 1 {
		t.Errorf("made anew: %+v, %v", a, err)
	}
}

// restart is a new daemon on the same host and state folder.
func restart(t *testing.T, old *Manager, h *fakeHost) *Manager {
	t.Helper()
	m, err := NewManager(Options{Prefix: "pg", StateDir: old.opts.StateDir, Isolation: IsolationNamespaces, Template: DefaultTemplate, HandleTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	onHost(t, m, h)
	return m
}

func TestRestartAdoptsJails(t *testing.T) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	for _, name := range []string{"alice", "bob", "carol"} {
		provision(t, m, name)
		open(t, m, name)
	}
	root := m.store.path(m.tenants["carol"].rec.ID, "root")
	leaf := h.leaf(t, "pg-bob")
	stray := h.jid + 1
	for _, path := range []string{m.store.path(testID, "root"), "/jails/op", m.store.path(testID, "root") + "/x"} {
		h.jid++
		h.list = append(h.list, Info{JID: h.jid, Name: "x" + path, Path: path, State: Alive})
	}
	// Alice's session is open; carol's jail is not complete any more.
	h.table = slices.DeleteFunc(h.table, func(m mounted) bool { return m.on == root+"/pile" })
	for _, name := range []string{"alice", "carol"} {
		if err := m.store.saveSession(m.tenants[name].rec.ID, session{Handles: 1}); err != nil {
			t.Fatal(err)
		}
	}
	h.calls = nil
	m = restart(t, m, h)
	for _, name := range []string{"alice", "carol"} {
		if err := m.reattach(t.Context(), m.tenants[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.settleStrays(t.Context()); err != nil {
		t.Error(err)
	}
	if slices.Contains(h.calls, "create pg-alice") || !slices.Contains(h.calls, "create pg-carol") || slices.Contains(h.calls, "create pg-bob") {
		t.Errorf("calls: %q", h.calls)
	}
	if state, _ := h.stateOf(stray); state != Gone {
		t.Errorf("a jail on a sandbox of nobody is %v", state)
	}
	if len(h.list) != 6 { // three tenants, a job, and two that are not ours
		t.Errorf("jails: %+v", h.list)
	}
	// Bob has no session: the sweep detaches it once its job is over.
	m.sweep(t.Context(), time.Now())
	if info, _ := h.lookup("pg-bob"); info.State != Alive {
		t.Errorf("bob's jail with a job is %v", info.State)
	}
	if err := h.removeJail(leaf); err != nil {
		t.Fatal(err)
	}
	m.sweep(t.Context(), time.Now())
	if info, _ := h.lookup("pg-bob"); info.State != Gone {
		t.Errorf("bob's jail is %v", info.State)
	}
	if info, _ := h.lookup("pg-alice"); info.State != Alive {
		t.Errorf("alice's jail is %v", info.State)
	}
	for _, name := range []string{"alice", "carol"} {
		if _, err := m.Close(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

func TestOthersJailIsNotAdopted(t *testing.T) {
	h := &fakeHost{list: []Info{{JID: 1, Name: "pg-alice", Path: "/jails/alice", State: Alive}}, jid: 1}
	m := jailManager(t, h, t.TempDir())
	provision(t, m, "alice")
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("open: %v", err)
	}
	if len(h.list) != 1 || h.list[0].State != Alive || len(h.table) > 0 {
		t.Errorf("jails %+v, mounts %+v", h.list, h.table)
	}
}

func TestChangedPlanIsMountedAnew(t *testing.T) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	sb := provision(t, m, "alice")
	root := open(t, m, "alice").Root
	m = restart(t, m, h)
	m.store.backing.(*dirBacking).tmpBytes = 1 << 20 // as if it were configured now
	open(t, m, "alice")
	if top, ok := topAt(h.table, filepath.Join(root, "tmp")); !ok || top.fstype != "tmpfs" {
		t.Errorf("/tmp of %s: %+v", sb.ID, top)
	}
	if n := len(below(h.table, root)); n != len(m.store.backing.plan(m.tenants["alice"].rec)) {
		t.Errorf("%d mounts", n)
	}
}

// The mounts of a jail that lingered are used again only as far as they are still what is wanted.
func TestChangedPlanOverLeftMounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		m := jailManager(t, h, t.TempDir())
		provision(t, m, "alice")
		root := open(t, m, "alice").Root
		h.linger = true
		if _, err := m.Close(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		h.linger = false
		h.bury()
		if len(h.list) > 0 || len(h.table) == 0 {
			t.Fatalf("jails %+v, mounts %+v", h.list, h.table)
		}
		m.store.backing.(*dirBacking).tmpBytes = 1 << 20
		open(t, m, "alice")
		if top, ok := topAt(h.table, filepath.Join(root, "tmp")); !ok || top.fstype != "tmpfs" {
			t.Errorf("/tmp: %+v", top)
		}
		if n := len(below(h.table, root)); n != len(m.store.backing.plan(m.tenants["alice"].rec)) {
			t.Errorf("%d mounts", n)
		}
	})
}

func TestConnectIsRefused(t *testing.T) {
	h := &fakeHost{}
	m := jailManager(t, h, t.TempDir())
	provision(t, m, "alice")
	open(t, m, "alice")
	if _, err := m.Connect(t.Context(), "alice"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("%v", err)
	}
	m.tenants["alice"].object.Kill()
	h.mustBeEmpty(t)
}

func TestSettleRefusesALivingJail(t *testing.T) {
	h := &fakeHost{list: []Info{{JID: 1, Name: "x", Path: "/r", State: Alive}}}
	err := mounter{h}.settle(t.Context(), "/r", func(mounted) bool { return true }, time.Minute)
	if !errors.Is(err, fault.Busy) {
		t.Errorf("%v", err)
	}
	if err := (&kernelError{errno: unix.EBUSY}); !errors.Is(err, unix.EBUSY) {
		t.Error("errno is lost")
	}
}
