package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnPackage packs this repository's own list as "make package" does, with empty programs.
func TestOwnPackage(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	bin, stage := t.TempDir(), t.TempDir()
	programs, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"completions/playground.bash", "completions/playground.fish", "completions/playground.zsh"}
	for _, program := range programs {
		names = append(names, program.Name())
	}
	for _, name := range names {
		path := filepath.Join(bin, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("make", "install-files", "BIN="+bin, "DESTDIR="+stage, "PREFIX="+prefix)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=", "MAKE=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make install-files: %v\n%s", err, out)
	}
	list, err := os.ReadFile("../../pkg-plist")
	if err != nil {
		t.Fatal(err)
	}
	name, err := pack(t, inRepository(t, stage, string(list)), platform{"amd64", 14})
	if err != nil {
		t.Fatal(err)
	}
	members := unpack(t, name)
	_, full := manifests(t, members)
	checkSums(t, full, members[2:])
	checkOwn(t, members)
}

// checkOwn holds what an administrator relies on: root owns everything, only the configuration is for the daemon's group,
// and nothing of it is for everybody.
func checkOwn(t *testing.T, members []member) {
	for _, m := range members {
		mode := fs.FileMode(m.Mode)
		if m.Uname != "root" {
			t.Errorf("%s belongs to %s", m.Name, m.Uname)
		}
		switch {
		case strings.HasSuffix(m.Name, "playground.toml.sample"):
			if m.Gname != "playground" || mode != 0o640 {
				t.Errorf("%s has group %s and mode %v", m.Name, m.Gname, mode)
			}
		case strings.Contains(m.Name, "/sbin/") || strings.Contains(m.Name, "/libexec/") || strings.Contains(m.Name, "/rc.d/"):
			if mode&0o555 != 0o555 || mode&0o022 != 0 {
				t.Errorf("program %s has mode %v", m.Name, mode)
			}
		case mode&0o022 != 0:
			t.Errorf("%s has mode %v", m.Name, mode)
		}
	}
}
