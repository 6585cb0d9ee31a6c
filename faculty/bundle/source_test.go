package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"playground/fault"
)

// source makes a tree of files; a name with a trailing "*" is executable.
func source(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path, mode := filepath.Join(dir, strings.TrimSuffix(name, "*")), os.FileMode(0o600)
		if strings.HasSuffix(name, "*") {
			mode = 0o700
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func command(dir, text string) Spec {
	return Spec{Name: "tool", Source: dir, Builder: BuilderCommand, Command: text, Binaries: map[string]string{"tool": ""}}
}

func fingerprintOf(t *testing.T, spec Spec) string {
	t.Helper()
	tr, err := openTree(spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	sum, err := tr.fingerprint(t.Context(), &spec, "")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestFingerprint(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": "2"}
	base := command(source(t, files), "make")
	sum := fingerprintOf(t, base)
	same := base
	same.Source, same.Name = source(t, map[string]string{"a": "1", "b/c": "2", ".git/HEAD": "x", "b/.git": "gitdir: /elsewhere"}), "other"
	if fingerprintOf(t, same) != sum {
		t.Error("the same source elsewhere has another fingerprint")
	}
	seen := map[string]string{sum: "the first"}
	for name, change := range map[string]func(*Spec){
		"content":    func(s *Spec) { s.Source = source(t, map[string]string{"a": "2", "b/c": "2"}) },
		"name":       func(s *Spec) { s.Source = source(t, map[string]string{"a2": "1", "b/c": "2"}) },
		"mode":       func(s *Spec) { s.Source = source(t, map[string]string{"a*": "1", "b/c": "2"}) },
		"more":       func(s *Spec) { s.Source = source(t, map[string]string{"a": "1", "b/c": "2", "d": ""}) },
		"boundaries": func(s *Spec) { s.Source = source(t, map[string]string{"a": "1\nfile", "b/c": "2"}) },
		"command":    func(s *Spec) { s.Command = "make all" },
		"binaries":   func(s *Spec) { s.Binaries = map[string]string{"tool": "", "more": ""} },
		"network":    func(s *Spec) { s.Network = true },
	} {
		spec := base
		change(&spec)
		sum := fingerprintOf(t, spec)
		if other := seen[sum]; other != "" {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[sum] = name
	}
}

// A copy has the fingerprint of its source, and modes that another user can read.
func TestCopy(t *testing.T) {
	spec := command(source(t, map[string]string{"a*": "1", "b/c": "2"}), "make")
	if err := os.Symlink("b/c", filepath.Join(spec.Source, "link")); err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	to := t.TempDir()
	first, err := tr.fingerprint(t.Context(), &spec, to)
	if err != nil {
		t.Fatal(err)
	}
	spec.Source = to
	if second := fingerprintOf(t, spec); second != first || first != fingerprintOf(t, command(tr.path, "make")) {
		t.Errorf("%s and %s", first, second)
	}
	for name, mode := range map[string]os.FileMode{"a": 0o755, "b/c": 0o644, "b": 0o755} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestRefusedSources(t *testing.T) {
	for name, target := range map[string]string{"absolute": "/etc/passwd", "climbing": "../../etc/passwd", "via folder": "b/../../x"} {
		spec := command(source(t, map[string]string{"b/c": "2"}), "make")
		if err := os.Symlink(target, filepath.Join(spec.Source, "link")); err != nil {
			t.Fatal(err)
		}
		tr, err := openTree(spec.Source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.fingerprint(t.Context(), &spec, ""); err == nil || !strings.Contains(err.Error(), "leads out of it") {
			t.Errorf("%s: %v", name, err)
		}
		tr.close()
	}
	empty := command(t.TempDir(), "make")
	tr, err := openTree(empty.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	if _, err := tr.fingerprint(t.Context(), &empty, ""); !errors.Is(err, fault.Invalid) {
		t.Errorf("an empty source: %v", err)
	}
	if _, err := openTree(filepath.Join(empty.Source, "nowhere")); !errors.Is(err, fault.Invalid) {
		t.Errorf("no source: %v", err)
	}
}

func TestRefusedRecipes(t *testing.T) {
	good := Spec{Name: "tool", Source: "/", Builder: BuilderGo, Binaries: map[string]string{"tool": "./cmd/tool"}}
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"name":          func(s *Spec) { s.Name = "../x" },
		"no name":       func(s *Spec) { s.Name = "" },
		"builder":       func(s *Spec) { s.Builder = "make" },
		"no command":    func(s *Spec) { s.Builder = BuilderCommand },
		"command":       func(s *Spec) { s.Command = "x" },
		"NUL":           func(s *Spec) { s.Builder, s.Command = BuilderCommand, "a\x00b" },
		"no binaries":   func(s *Spec) { s.Binaries = nil },
		"path":          func(s *Spec) { s.Binaries = map[string]string{"../x": ""} },
		"stamp":         func(s *Spec) { s.Binaries = map[string]string{".complete": ""} },
		"log":           func(s *Spec) { s.Binaries = map[string]string{"build.log": ""} },
		"option":        func(s *Spec) { s.Binaries = map[string]string{"x": "-o"} },
		"out of it":     func(s *Spec) { s.Binaries = map[string]string{"x": "./../y"} },
		"a module":      func(s *Spec) { s.Binaries = map[string]string{"x": "example.org/y"} },
		"short timeout": func(s *Spec) { s.Timeout = 1 },
		"vendor":        func(s *Spec) { s.Builder, s.Command, s.Vendor = BuilderCommand, "x", true },
	} {
		spec := good
		change(&spec)
		if err := spec.validate(); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder whose stamp is missing, another's or without facts is no cohort.
func TestHalfMadeCohorts(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "bundles"), filepath.Join(t.TempDir(), "sources"))
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("ab", 32)
	dir := s.path("tool", sum)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, stamp := range []string{"", strings.Repeat("cd", 32)} {
		if stamp != "" {
			if err := os.WriteFile(filepath.Join(dir, stampFile), []byte(stamp+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.load("tool", sum); !errors.Is(err, fault.NotFound) {
			t.Errorf("stamp %q: %v", stamp, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, stampFile), []byte(sum+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.load("tool", sum); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without facts: %v", err)
	}
	facts := `{"name":"tool","fingerprint":"` + sum + `","binaries":[{"name":"tool","size":3}]}`
	if err := os.WriteFile(filepath.Join(dir, factsFile), []byte(facts), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.load("tool", sum); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without its executable: %v", err)
	}
	for _, reference := range []string{"tool@", "tool@zz", "none", "Tool", "../tool"} {
		if _, err := s.Find(reference); err == nil {
			t.Errorf("found %q", reference)
		}
	}
}

// Compilers of packages, which are all that a FreeBSD template has, lie in /usr/local/bin, and a clean command's PATH is without it.
func TestBuildersFindPackages(t *testing.T) {
	for _, builder := range []Builder{BuilderGo, BuilderCargo, BuilderCommand} {
		s := Spec{Builder: builder}
		_, path, _ := strings.Cut(string(s.script()), "\nPATH=")
		path, _, _ = strings.Cut(path, "\n")
		if !slices.Contains(strings.Split(path, ":"), "/usr/local/bin") {
			t.Errorf("%s looks in %s", builder, path)
		}
	}
}
