package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// A tested is one package that has tests on FreeBSD, as "go list -json" says.
type tested struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
}

// list returns the packages with tests as the kit's platform sees them.
func (k kit) list(tags string) (map[string]tested, error) {
	cmd := exec.Command("go", "list", "-tags", tags, "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "./...")
	cmd.Env = append(os.Environ(), "GOOS=freebsd", "GOARCH="+k.arch, "CGO_ENABLED=0")
	cmd.Stderr = k.stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list packages: %w", err)
	}
	all := map[string]tested{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p tested
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("cannot read the list of packages: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			all[strings.TrimPrefix(p.ImportPath, "playground/")] = p
		}
	}
}

// needSource are packages whose tests read the source tree or run the Go toolchain: nothing for a host without either.
var needSource = []string{"internal/archtest", "internal/mkpkg", "internal/rctest", "internal/e2e", "kit", "kit/mkkit"}

// tests builds every test program into a folder like the source's, with its testdata, and writes tests.list: the folder, and
// "host" for tests that make jails and mounts of their own, "plain" for those that only compute, "source" for those that cannot
// run there.
func (k kit) tests() error {
	without, err := k.list("")
	if err != nil {
		return err
	}
	with, err := k.list("host")
	if err != nil {
		return err
	}
	var lines []string
	for name, p := range with {
		kind := "plain"
		switch w := without[name]; {
		case slices.Contains(needSource, name):
			kind = "source"
		case len(w.TestGoFiles)+len(w.XTestGoFiles) < len(p.TestGoFiles)+len(p.XTestGoFiles):
			kind = "host"
		}
		lines = append(lines, name+" "+kind+"\n")
		if kind == "source" {
			continue
		}
		if err := k.buildTest(name, p.Dir); err != nil {
			return err
		}
	}
	sort.Strings(lines)
	// Some tests compare with what users are given.
	for _, folder := range []string{"etc", "man"} {
		if err := copyTree(folder, filepath.Join(k.dir, "tests", folder)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(k.dir, "tests.list"), []byte(strings.Join(lines, "")), 0o644)
}

func (k kit) buildTest(name, source string) error {
	dir := filepath.Join(k.dir, "tests", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := k.golang("test", "-c", "-tags", "host", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "run.test"), "./"+name); err != nil {
		return err
	}
	data := filepath.Join(source, "testdata")
	if _, err := os.Stat(data); err != nil {
		return nil
	}
	return copyTree(data, filepath.Join(dir, "testdata"))
}
