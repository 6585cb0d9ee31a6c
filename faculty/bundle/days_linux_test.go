package bundle

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
)

// What a build prints is safe to look at, on the terminal and in its log.
func TestLogIsPlain(t *testing.T) {
	p := newPlace(t)
	var news bytes.Buffer
	_, err := p.Build(t.Context(), p.host, command(source(t, map[string]string{"file": "text"}), `printf '\033]0;evil\007red\r\n'; exit 1`), &news)
	log, _ := strings.CutPrefix(fault.HintOf(err), "read ")
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatalf("%v, %v", err, readErr)
	}
	for where, got := range map[string]string{"log": string(text), "terminal": news.String()} {
		if !strings.Contains(got, `\x1b]0;evil\x07red`+"\n") || strings.ContainsAny(got, "\x1b\x07\r") {
			t.Errorf("the %s: %q", where, got)
		}
	}
}

// A newer compiler is no part of a fingerprint, so a build can be asked for again. The former one stays, to go back to.
func TestForce(t *testing.T) {
	p := newPlace(t)
	dir := source(t, map[string]string{"file": "text"})
	spec := command(dir, `printf '#!/bin/sh\necho %s\n' "$(cat /proc/sys/kernel/random/uuid)" >"$OUT/tool"; chmod +x "$OUT/tool"`)
	build := func(force bool) Cohort {
		t.Helper()
		spec.Force = force
		c, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Install(t.Context(), p.host, c, "alice"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := build(false), build(true)
	if one.Fingerprint == two.Fingerprint || two.Reused || one.Binaries[0].SHA256 == two.Binaries[0].SHA256 || two.Recipe != one.Fingerprint {
		t.Errorf("not built anew: %+v, %+v", one, two)
	}
	if three := build(false); !three.Reused || three.Fingerprint != two.Fingerprint {
		t.Errorf("the newest build is not the one that is reused: %+v", three)
	}
	if newest, err := p.Find("tool"); err != nil || newest.Fingerprint != two.Fingerprint {
		t.Errorf("found %+v, %v", newest, err)
	}
	if now, err := p.Rollback(t.Context(), p.host, "tool", "alice"); err != nil || now.Current != one.Fingerprint {
		t.Errorf("rolled back to %+v, %v", now, err)
	}
	p.nothingLeft(t)
}

// One build that is damaged hides none of the others, cannot be installed, and is pruned.
func TestDamaged(t *testing.T) {
	p := newPlace(t)
	build := func(text string) (Cohort, Spec) {
		t.Helper()
		spec := command(source(t, map[string]string{"tool*": "#!/bin/sh\necho " + text + "\n"}), `cp tool "$OUT/tool"`)
		c, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		return c, spec
	}
	good, _ := build("one")
	bad, badSpec := build("two")
	if err := os.Remove(filepath.Join(bad.Dir, "tool")); err != nil {
		t.Fatal(err)
	}
	all, err := p.Cohorts("")
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range all {
		if (c.Damaged != "") != (c.Fingerprint == bad.Fingerprint) {
			t.Errorf("%+v", c)
		}
	}
	if c, err := p.Find("tool"); err != nil || c.Fingerprint != good.Fingerprint {
		t.Errorf("found %+v, %v", c, err)
	}
	if _, err := p.Find("tool@" + bad.Fingerprint[:12]); !errors.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), "prune") {
		t.Errorf("the damaged one can be installed: %v", err)
	}
	if _, err := p.Build(t.Context(), p.host, badSpec, &bytes.Buffer{}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("built over: %v", err)
	}
	if gone, err := p.Prune(t.Context(), p.host, "", 1, false); err != nil || len(gone) != 1 || gone[0].Fingerprint != bad.Fingerprint || gone[0].Damaged == "" {
		t.Errorf("pruned %+v, %v", gone, err)
	}
	if c, err := p.Build(t.Context(), p.host, badSpec, &bytes.Buffer{}); err != nil || c.Reused {
		t.Errorf("built again: %+v, %v", c, err)
	}
}

// What is installed and cannot be read is told beside what can, and keeps prune from guessing.
func TestDamagedInstallation(t *testing.T) {
	p := newPlace(t)
	c, err := p.Build(t.Context(), p.host, command(source(t, map[string]string{"tool*": "#!/bin/sh\n"}), `cp tool "$OUT/tool"`), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install(t.Context(), p.host, c, "alice"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, ".installed", "alice", "other"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := p.Installations(t.Context(), p.host); len(all) != 1 || !strings.Contains(fault.HintOf(err), "alice/other") {
		t.Errorf("%+v, %v", all, err)
	}
	if gone, err := p.Prune(t.Context(), p.host, "", 0, false); err == nil || len(gone) > 0 {
		t.Errorf("pruned %+v without knowing what tenants have: %v", gone, err)
	}
}

// Executables that are allowed one by one may be too much together; nothing of them is copied then.
func TestCohortIsBounded(t *testing.T) {
	p := newPlace(t)
	spec := command(source(t, map[string]string{"file": "text"}), `for n in a b c d e; do truncate -s 250M "$OUT/$n"; chmod +x "$OUT/$n"; done`)
	spec.Binaries = map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""}
	_, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "together") || fault.HintOf(err) == "" {
		t.Fatal(err)
	}
	found, globErr := filepath.Glob(filepath.Join(p.dir, "tool", "*", "a"))
	if globErr != nil || len(found) > 0 {
		t.Errorf("copied: %v, %v", found, globErr)
	}
}

// A newcomer's first Go build lacks its dependencies; the answer says what fetches them, and what is missing is named.
func TestHints(t *testing.T) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		t.Skip("sandboxes see no go here")
	}
	p := newPlace(t)
	dir := source(t, map[string]string{"go.mod": "module tool\n\ngo 1.26\n\nrequire example.org/dep v1.0.0\n", "main.go": "package main\n\nimport _ \"example.org/dep\"\n\nfunc main() {}\n"})
	spec := Spec{Name: "tool", Source: dir, Builder: BuilderGo, Binaries: map[string]string{"tool": ""}}
	if _, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{}); !strings.Contains(fault.HintOf(err), "--vendor") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	spec.Source, spec.Builder = filepath.Join(dir, "none"), ""
	if _, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What is pruned of a build that was killed is its sandbox too, with all that runs there; one that goes on keeps its own.
func TestPruneSweeps(t *testing.T) {
	p := newPlace(t)
	b, err := p.newBuilder(p.host)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{false, true} {
		if dry {
			b.lock.Close() // as the kernel does for a dead process
		}
		if _, err := p.Prune(t.Context(), p.host, "", 1, dry); err != nil {
			t.Fatal(err)
		}
		if _, err := p.boxes.Get(t.Context(), b.tenant); err != nil {
			t.Fatalf("dry %v: the sandbox is gone: %v", dry, err)
		}
	}
	if _, err := p.Prune(t.Context(), p.host, "", 1, false); err != nil {
		t.Fatal(err)
	}
	p.nothingLeft(t)
}
