package jail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"playground/fault"
)

const testSource = "01arz3ndektsv4rrffq69g5fav"

func TestBuilderSources(t *testing.T) {
	dir := t.TempDir()
	m, _ := newManager(t, dir)
	sources := filepath.Join(dir, SourceFolder)
	if err := os.MkdirAll(filepath.Join(sources, testSource), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(sources, "01arz3ndektsv4rrffq69g5fax")); err != nil {
		t.Fatal(err)
	}
	for source, kind := range map[string]fault.Kind{
		"../../etc": fault.Invalid, "/etc": fault.Invalid, ".": fault.Invalid, "x": fault.Invalid,
		"01arz3ndektsv4rrffq69g5faw": fault.NotFound, "01arz3ndektsv4rrffq69g5fax": fault.Invalid,
	} {
		if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "build", Source: source}); !errors.Is(err, kind) {
			t.Errorf("source %q: %v", source, err)
		}
	}
	sandbox, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "build", Source: testSource})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), "build"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(m.store.pile(sandbox.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the builder's pile outlives it: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(sources, testSource)); err != nil {
		t.Errorf("the operator's source is gone: %v", err)
	}
}

func TestBuilderMount(t *testing.T) {
	s := &store{dir: "/s"}
	want := mount{fstype: "nullfs", from: "/s/sources/" + testSource, on: SourcePath, readOnly: true, noSuid: true}
	if plan := s.commonMounts(record{ID: testID, Source: testSource}, 4); plan[len(plan)-1] != want {
		t.Errorf("%+v", plan)
	}
	writable := func(m mount) bool { return m.on == "/shared/shared.pile" && !m.readOnly }
	if slices.ContainsFunc(s.commonMounts(record{ID: testID, Source: testSource}, 4), writable) {
		t.Error("a build can write to the host's pile")
	}
	if slices.ContainsFunc(s.commonMounts(record{ID: testID}, 4), func(m mount) bool { return m.on == SourcePath }) {
		t.Error("a tenant's sandbox sees a source")
	}
}
