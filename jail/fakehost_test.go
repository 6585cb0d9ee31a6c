package jail

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeHost is a kernel that does what memo and sources say of jails and mounts, and fails where a test wants it.
type fakeHost struct {
	jid     int
	fsid    int32
	list    []Info
	linger  bool      // removed jails stay dying
	until   time.Time // the end of that, if not zero
	table   []mounted
	aliases map[netip.Addr]bool
	params  map[string][]param
	calls   []string
	fail    string            // the call that fails
	elsewh  map[string]string // where a mount really went
}

var errFake = errors.New("the kernel refuses")

func (h *fakeHost) call(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	h.calls = append(h.calls, text)
	if text == h.fail {
		return errFake
	}
	return nil
}

func value(pairs []pair, name string) (string, bool) {
	i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == name })
	if i < 0 {
		return "", false
	}
	return cString(pairs[i].value), true
}

func (h *fakeHost) createJail(name string, params []param) (int, error) {
	if err := h.call("create %s", name); err != nil {
		return 0, err
	}
	pairs, err := known(params, everything)
	if err != nil {
		return 0, err
	}
	full, _ := value(pairs, "name")
	path, _ := value(pairs, "path")
	parent := 0
	if up, _, ok := strings.Cut(full, "."); ok {
		p, err := h.lookup(up)
		if err != nil || p.State != Alive {
			return 0, &kernelError{errno: unix.ENOENT}
		}
		parent = p.JID
	}
	if info, _ := h.lookup(full); info.State == Alive {
		return 0, &kernelError{errno: unix.EEXIST}
	}
	h.jid++
	h.list = append(h.list, Info{JID: h.jid, Parent: parent, Name: full, Path: path, State: Alive})
	if h.params == nil {
		h.params = make(map[string][]param)
	}
	h.params[full] = params
	return h.jid, nil
}

func (h *fakeHost) removeJail(jid int) error {
	if err := h.call("remove %d", jid); err != nil {
		return err
	}
	for i, j := range h.list {
		if j.JID == jid || j.Parent == jid {
			h.list[i].State = Dying
		}
	}
	if !h.linger {
		h.bury()
	}
	return nil
}

// bury lets go of the last references to removed jails. A parent stays while it has a child.
func (h *fakeHost) bury() {
	for {
		n := len(h.list)
		h.list = slices.DeleteFunc(h.list, func(j Info) bool {
			return j.State == Dying && !slices.ContainsFunc(h.list, func(c Info) bool { return c.Parent == j.JID })
		})
		if len(h.list) == n {
			return
		}
	}
}

func (h *fakeHost) stateOf(jid int) (State, error) {
	if i := slices.IndexFunc(h.list, func(j Info) bool { return j.JID == jid }); i >= 0 {
		return h.list[i].State, nil
	}
	return Gone, nil
}

func (h *fakeHost) lookup(name string) (Info, error) {
	if i := slices.IndexFunc(h.list, func(j Info) bool { return j.Name == name && j.State == Alive }); i >= 0 {
		return h.list[i], nil
	}
	return Info{State: Gone}, nil
}

func (h *fakeHost) jails(dying bool) ([]Info, error) {
	if !h.until.IsZero() && time.Now().After(h.until) {
		h.linger = false
		h.bury()
	}
	return slices.DeleteFunc(slices.Clone(h.list), func(j Info) bool { return !dying && j.State != Alive }), nil
}

func (h *fakeHost) mountTable() ([]mounted, error) { return slices.Clone(h.table), nil }

func (h *fakeHost) nmount(fstype, target string, pairs []pair) error {
	if err := h.call("mount %s", filepath.Base(target)); err != nil {
		return err
	}
	from, ok := value(pairs, "target")
	if !ok {
		from, _ = value(pairs, "from")
	}
	h.fsid++
	m := mounted{fsid: [2]int32{h.fsid, 1}, fstype: fstype, from: from, on: target}
	if there, ok := h.elsewh[target]; ok {
		m.on = there
	}
	if _, ok := value(pairs, "ro"); ok {
		m.flags |= mntReadOnly
	}
	if _, ok := value(pairs, "nosuid"); ok {
		m.flags |= mntNoSuid
	}
	h.table = append(h.table, m)
	if filepath.Base(target) == "shared" { // what the mounted folder shows
		return os.WriteFile(filepath.Join(target, "shared.pile"), nil, 0o644)
	}
	return nil
}

func (h *fakeHost) statfs(path string) (mounted, error) {
	if there, ok := h.elsewh[path]; ok {
		path = there
	}
	for p := path; ; p = filepath.Dir(p) {
		if m, ok := topAt(h.table, p); ok {
			return m, nil
		}
		if p == "/" {
			return mounted{fstype: "ufs", from: "/dev/ada0", on: "/"}, nil
		}
	}
}

func (h *fakeHost) unmount(m mounted, force bool) error {
	i := slices.IndexFunc(h.table, func(o mounted) bool { return o.fsid == m.fsid })
	if i < 0 {
		return unix.ENOENT
	}
	carries := slices.ContainsFunc(h.table, func(o mounted) bool { return o.fsid != m.fsid && strings.HasPrefix(o.on, m.on+"/") })
	used := slices.ContainsFunc(h.list, func(j Info) bool { return j.Path == m.on })
	if carries || used && !force {
		return unix.EBUSY
	}
	h.table = slices.Delete(h.table, i, i+1)
	return nil
}

func (h *fakeHost) ruleset(number int) error { return h.call("ruleset %d", number) }

func (h *fakeHost) devices(string) error { return h.call("devices") }

func (h *fakeHost) alias(_ context.Context, addr netip.Addr, add bool) error {
	if err := h.call("alias %v", add); err != nil {
		return err
	}
	if h.aliases == nil {
		h.aliases = make(map[netip.Addr]bool)
	}
	if add {
		h.aliases[addr] = true
	} else {
		delete(h.aliases, addr)
	}
	return nil
}

// jailManager is a manager of jails on thin storage in a fake kernel.
func jailManager(t *testing.T, h *fakeHost, dir string) *Manager {
	t.Helper()
	m, _ := newManager(t, dir)
	m.opts.Template, m.opts.Isolation = DefaultTemplate, IsolationJail
	onHost(t, m, h)
	if _, err := m.store.template(DefaultTemplate); err != nil {
		if _, err := newTemplates(t, dir).Create(t.Context(), DefaultTemplate, fakeSystem(t)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// onHost gives a manager the fake kernel, as prepareHost does with the real one.
func onHost(t *testing.T, m *Manager, h *fakeHost) {
	t.Helper()
	b, err := newBacking(m.opts, &m.store, runProgram, mounter{h}.settle, h.mountTable)
	if err != nil {
		t.Fatal(err)
	}
	m.host, m.store.backing, m.store.storage = h, b, StorageDir
	m.attach = func(ctx context.Context, rec record) (kernelObject, error) {
		o, err := m.attachJail(ctx, rec)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
}
