package jail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/fault"
)

// fakeObject is a kernel object that a test controls.
type fakeObject struct {
	mu     sync.Mutex
	busy   bool
	killed bool
	gone   chan struct{}
}

func (o *fakeObject) Connect(context.Context) (*os.File, error) { return os.Open(os.DevNull) }
func (o *fakeObject) Gone() <-chan struct{}                     { return o.gone }
func (o *fakeObject) Kill()                                     { o.end() }

func (o *fakeObject) Detach(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		return fault.New(fault.Busy, "jobs run")
	}
	o.endLocked()
	return nil
}

func (o *fakeObject) setBusy(busy bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = busy
}

func (o *fakeObject) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLocked()
}

func (o *fakeObject) endLocked() {
	if !o.killed {
		o.killed = true
		close(o.gone)
	}
}

// newManager returns a Manager over a fake kernel, and the objects it makes.
func newManager(t *testing.T, dir string) (*Manager, *[]*fakeObject) {
	t.Helper()
	skipWherePermanent(t)
	m, err := NewManager(Options{Prefix: "pg", StateDir: dir, Isolation: IsolationNamespaces, Network: NetworkNone, HandleTTL: time.Hour, Lang: "C", Path: "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := RemoveState(dir); err != nil {
			t.Error(err)
		}
	})
	var objects []*fakeObject
	m.attach = func(context.Context, record) (kernelObject, error) {
		o := &fakeObject{gone: make(chan struct{})}
		objects = append(objects, o)
		return o, nil
	}
	return m, &objects
}

func provision(t *testing.T, m *Manager, name string) Sandbox {
	t.Helper()
	sb, err := m.Provision(t.Context(), ProvisionSpec{Tenant: name})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

func TestHandlesAreCounted(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	if _, err := m.Attachment(t.Context(), "alice"); !errors.Is(err, fault.NotOpen) {
		t.Errorf("attachment before open: %v", err)
	}
	for want := 1; want <= 2; want++ {
		sb, err := m.Open(t.Context(), "alice", OpenOptions{})
		if err != nil || sb.Handles != want || !sb.Attached {
			t.Fatalf("open: %+v, %v", sb, err)
		}
	}
	if len(*objects) != 1 {
		t.Errorf("%d kernel objects for one sandbox", len(*objects))
	}
	if sb, err := m.Close(t.Context(), "alice"); err != nil || sb.Handles != 1 || !sb.Attached {
		t.Errorf("first close: %+v, %v", sb, err)
	}
	if sb, err := m.Close(t.Context(), "alice"); err != nil || sb.Handles != 0 || sb.Attached {
		t.Errorf("last close: %+v, %v", sb, err)
	}
	if _, err := m.Close(t.Context(), "alice"); !errors.Is(err, fault.NotOpen) {
		t.Errorf("close too many: %v", err)
	}
}

func TestLastCloseWaitsForJobs(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	(*objects)[0].setBusy(true)
	if sb, err := m.Close(t.Context(), "alice"); err != nil || !sb.Attached {
		t.Errorf("a job runs, and the sandbox was detached: %+v, %v", sb, err)
	}
	if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Busy) {
		t.Errorf("destroy with a running job: %v", err)
	}
	m.sweep(t.Context(), time.Now())
	if sb, _ := m.Get(t.Context(), "alice"); !sb.Attached {
		t.Error("the sweep detached a sandbox with a running job")
	}
	(*objects)[0].setBusy(false)
	m.sweep(t.Context(), time.Now())
	if sb, _ := m.Get(t.Context(), "alice"); sb.Attached {
		t.Error("the sweep left an unused sandbox attached")
	}
}

func TestAbandonedSessionExpires(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	m.sweep(t.Context(), time.Now().Add(59*time.Minute))
	if sb, _ := m.Get(t.Context(), "alice"); sb.Handles != 1 {
		t.Error("expired too early")
	}
	(*objects)[0].setBusy(true)
	m.sweep(t.Context(), time.Now().Add(2*time.Hour))
	if sb, _ := m.Get(t.Context(), "alice"); sb.Handles != 1 {
		t.Error("a session with a running job expired")
	}
	(*objects)[0].setBusy(false)
	m.sweep(t.Context(), time.Now().Add(2*time.Hour))
	if sb, _ := m.Get(t.Context(), "alice"); sb.Handles != 0 || sb.Attached {
		t.Errorf("did not expire: %+v", sb)
	}
}

func TestSessionOptions(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	provision(t, m, "alice")
	open := func(o OpenOptions) {
		t.Helper()
		if _, err := m.Open(t.Context(), "alice", o); err != nil {
			t.Fatal(err)
		}
	}
	attachment := func() Attachment {
		t.Helper()
		a, err := m.Attachment(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	open(OpenOptions{})
	if a := attachment(); a.Cwd != "/workspace" || !slices.Contains(a.Env, "PERSONA=alice assistant") || !slices.Contains(a.Env, "PILE=/pile/self.pile") ||
		!slices.Contains(a.Env, "TRIBLESPACE_KEY=/pile/self.key") || !slices.Contains(a.Env, "HOME=/home/alice") || !slices.Contains(a.Env, "USER=alice") {
		t.Errorf("defaults: %+v", a)
	}
	open(OpenOptions{Cwd: "/tmp", Env: map[string]string{"A": "1", "LANG": "de"}})
	open(OpenOptions{}) // names nothing, so changes nothing
	if a := attachment(); a.Cwd != "/tmp" || !slices.Contains(a.Env, "A=1") || !slices.Contains(a.Env, "LANG=de") {
		t.Errorf("named options: %+v", a)
	}
	open(OpenOptions{Env: map[string]string{"B": "2"}})
	if a := attachment(); slices.Contains(a.Env, "A=1") || !slices.Contains(a.Env, "B=2") {
		t.Errorf("the last open that names env wins: %+v", a)
	}
	for name, o := range map[string]OpenOptions{
		"relative cwd": {Cwd: "tmp"}, "NUL in cwd": {Cwd: "/\x00"}, "long cwd": {Cwd: "/" + strings.Repeat("x", maxCwd)},
		"bad name": {Env: map[string]string{"A-B": ""}}, "empty name": {Env: map[string]string{"": ""}}, "NUL in value": {Env: map[string]string{"A": "\x00"}},
		"large": {Env: map[string]string{"A": strings.Repeat("x", maxEnv)}},
	} {
		if _, err := m.Open(t.Context(), "alice", o); !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLostKernelObjectIsMadeAnew(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := m.Attachment(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	(*objects)[0].end()
	after, err := m.Attachment(t.Context(), "alice")
	if err != nil || after.Generation == before.Generation || len(*objects) != 2 {
		t.Errorf("generation %d then %d, %d objects, %v", before.Generation, after.Generation, len(*objects), err)
	}
}

func TestNames(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	for _, name := range []string{"", "a", "A1", "-ab", "ab-", "a b", "12", "a.b", "a/b", "../x", strings.Repeat("a", 33), "ä1"} {
		if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: name}); !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("name %q: %v", name, err)
		}
	}
	provision(t, m, "alice")
	if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "alice"}); !errors.Is(err, fault.Exists) {
		t.Errorf("taken name: %v", err)
	}
	if _, err := m.Get(t.Context(), "bob"); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "bob", Network: "bridge"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("unknown network: %v", err)
	}
}

// TestPileIsNotInherited: a new tenant of an old name has another pile, and the old one stays.
func TestPileIsNotInherited(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	first := provision(t, m, "alice")
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sandboxes", first.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("storage after destroy: %v", err)
	}
	second := provision(t, m, "alice")
	if second.ID == first.ID {
		t.Error("the id was used again")
	}
	for _, id := range []string{first.ID, second.ID} {
		if _, err := os.Stat(filepath.Join(dir, "piles", id, "self.pile")); err != nil {
			t.Error(err)
		}
	}
}

// TestRestart: what was provisioned is there again; what was half made or half removed is not, and is cleaned away.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	sb := provision(t, m, "alice")
	for _, leftover := range []string{makingPrefix + "x", gonePrefix + "y"} {
		path := filepath.Join(dir, "sandboxes", leftover, "home", "deep")
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0) // a tenant may leave such folders
	}
	again, _ := newManager(t, dir)
	got, err := again.Get(t.Context(), "alice")
	if err != nil || got.ID != sb.ID || got.Persona != sb.Persona || !got.Created.Equal(sb.Created) {
		t.Errorf("after restart: %+v, %v", got, err)
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "sandboxes"))
	if len(entries) != 1 {
		t.Errorf("leftovers were kept: %v", entries)
	}
}

// TestFailedProvisionLeavesNothing: the name is free again and no file is left.
func TestFailedProvisionLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	m.store.pileSeed = filepath.Join(dir, "missing")
	if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "alice"}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("missing seed: %v", err)
	}
	for _, sub := range []string{"sandboxes", "piles"} {
		if entries, _ := os.ReadDir(filepath.Join(dir, sub)); len(entries) != 0 {
			t.Errorf("%s holds %v", sub, entries)
		}
	}
	m.store.pileSeed = ""
	provision(t, m, "alice")
}

func TestSeed(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	m.store.pileSeed = filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(m.store.pileSeed, []byte("seeded"), 0o600); err != nil {
		t.Fatal(err)
	}
	sb := provision(t, m, "alice")
	if data, err := os.ReadFile(filepath.Join(dir, "piles", sb.ID, "self.pile")); string(data) != "seeded" {
		t.Errorf("pile holds %q, %v", data, err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "piles", sb.ID, "self.key"))
	if err != nil || len(key) != 65 {
		t.Errorf("key of %d bytes, %v", len(key), err)
	}
}

// TestAppendOnlyIsToldTruthfully compares the report with what the kernel does.
func TestAppendOnlyIsToldTruthfully(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	sb := provision(t, m, "alice")
	// ZFS refuses to open such a file for other writes and lets it be cut: the least that it refuses counts.
	err := os.Truncate(filepath.Join(dir, "piles", sb.ID, "self.pile"), 0)
	if refused := err != nil; refused != sb.AppendOnly.Enforced || sb.AppendOnly.Reason == "" {
		t.Errorf("reported %+v, cutting it off gave %v", sb.AppendOnly, err)
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				m.Provision(context.Background(), ProvisionSpec{Tenant: "alice"})
				m.Open(context.Background(), "alice", OpenOptions{Cwd: "/tmp"})
				m.Attachment(context.Background(), "alice")
				m.List(context.Background())
				m.Close(context.Background(), "alice")
				m.sweep(context.Background(), time.Now())
				m.Destroy(context.Background(), "alice")
			}
		})
	}
	wg.Wait()
}

// TestWithoutIsolationNoNetworkIsClaimed: what is not enforced is not said.
func TestWithoutIsolationNoNetworkIsClaimed(t *testing.T) {
	m, _ := newManager(t, t.TempDir())
	m.opts.Isolation = IsolationNone
	if sb := provision(t, m, "alice"); sb.Network != NetworkHost {
		t.Errorf("network %q is claimed", sb.Network)
	}
}
