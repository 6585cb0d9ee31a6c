package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/jail"
)

// A link that leads out of the tree by way of another one would lead the host's own tools out of the copy, too.
func TestLinkThroughLink(t *testing.T) {
	spec := command(source(t, map[string]string{"p/q/c": "2"}), "make")
	for link, target := range map[string]string{"p/q/up": "../..", "out": "p/q/up/../etc"} {
		if err := os.Symlink(target, filepath.Join(spec.Source, link)); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := openTree(spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	if _, err := tr.fingerprint(t.Context(), &spec, ""); err == nil || !strings.Contains(err.Error(), "leads out of it") {
		t.Errorf("a link through another: %v", err)
	}
}

func TestRecogniseIsSure(t *testing.T) {
	dir := source(t, map[string]string{"go.mod": "module x\n", "Cargo.toml": ""})
	for range 50 {
		if b := Recognise(dir, ""); b != BuilderGo {
			t.Fatalf("a tree of both kinds is built by %q", b)
		}
	}
}

// The configuration in a source names programs that cargo runs; fetching must not be led by it.
func TestVendorRunsNothingOfTheSource(t *testing.T) {
	dir := source(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"tool\"\nversion = \"0.1.0\"\n", "Cargo.lock": "version = 3\n\n[[package]]\nname = \"tool\"\nversion = \"0.1.0\"\n",
		"src/main.rs": "fn main() {}\n", ".cargo/config.toml": "[build]\nrustc = \"evil\"\n",
		"evil*": "#!/bin/sh\n: >\"$0.ran\"\n", "chain/bin/cargo*": "#!/bin/sh\n: >\"$0.ran\"\n", "chain/lib/x": "",
	})
	chain := filepath.Join(dir, "chain")
	if err := os.WriteFile(filepath.Join(dir, "rust-toolchain.toml"), []byte("[toolchain]\npath = \""+chain+"\"\n"), 0o600); err != nil { // for rustup
		t.Fatal(err)
	}
	if _, err := exec.LookPath("cargo"); err != nil {
		t.Skip("there is no cargo here")
	}
	var log bytes.Buffer
	if err := vendor(t.Context(), BuilderCargo, dir, &log); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	for _, ran := range []string{filepath.Join(dir, "evil.ran"), filepath.Join(chain, "bin/cargo.ran")} {
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("the source's own program ran on the host: %s", ran)
		}
	}
}

// What a replacement outside of the tree holds is not in the fingerprint, and the host's files are not the source's.
func TestVendorStaysInTheSource(t *testing.T) {
	outside := source(t, map[string]string{"go.mod": "module example.org/dep\n\ngo 1.26\n", "dep.go": "package dep\n"})
	dir := source(t, map[string]string{
		"go.mod": "module tool\n\ngo 1.26\n\nrequire example.org/dep v0.0.0\n\nreplace example.org/dep => " + outside + "\n", "main.go": "package main\n\nimport _ \"example.org/dep\"\n\nfunc main() {}\n",
	})
	if err := vendor(t.Context(), BuilderGo, dir, &bytes.Buffer{}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), outside) {
		t.Errorf("a module of the host's was fetched: %v", err)
	}
}

// A folder that the store makes can be walked through by those that it is for, whatever the operator's umask.
func TestUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	state := t.TempDir()
	dir, sources := filepath.Join(state, "bundles"), filepath.Join(state, jail.SourceFolder)
	if _, err := Open(dir, sources); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, sources: 0o711} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := vendor(t.Context(), BuilderGo, source(t, map[string]string{"go.mod": "module x\n\ngo 1.26\n", "m.go": "package x\n"}), &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

// A build may print for ever; the host's disk does not.
func TestCapped(t *testing.T) {
	var out bytes.Buffer
	c := capped{&out, 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := c.Write([]byte(text)); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got := out.String(); !strings.HasPrefix(got, "abcde\n") || strings.Count(got, "more is not kept") != 1 || strings.Contains(got, "f\n") {
		t.Errorf("%q", got)
	}
}

// A large source is not read to its end for somebody who left.
func TestFingerprintStops(t *testing.T) {
	spec := command(source(t, map[string]string{"file": "text"}), "make")
	tr, err := openTree(spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.fingerprint(ctx, &spec, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A build has no way to write to what other tenants see.
// A tenant may do what it likes with its home, and another of its name may come after it.
// Builds begin and end while others look for what killed ones left.
