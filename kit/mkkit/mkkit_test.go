package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-arch", "riscv64"}, {"-version", "../x"}, {"-version", ""}, {"extra"}, {"-nonsense"}} {
		if k, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q was taken: %+v", args, k)
		}
	}
	if k, err := parse([]string{"-arch", "arm64", "-version", "v1.2-3-gabc-dirty"}, io.Discard); err != nil || k.arch != "arm64" {
		t.Errorf("%+v, %v", k, err)
	}
}

// writePackage writes a package as mkpkg does, with these entries.
func writePackage(t *testing.T, headers ...tar.Header) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.pkg")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := zstd.NewWriter(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(compressed)
	for _, h := range headers {
		err = errors.Join(err, archive.WriteHeader(&h))
	}
	if err := errors.Join(err, archive.Close(), compressed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListOf(t *testing.T) {
	list, err := listOf(writePackage(t,
		tar.Header{Name: "+MANIFEST", Mode: 0o644},
		tar.Header{Name: "/usr/local/sbin/playground", Mode: 0o755, Uname: "root", Gname: "wheel"},
		tar.Header{Name: "/usr/local/etc/a.conf.sample", Mode: 0o640, Uname: "root", Gname: "playground"},
		tar.Header{Name: "/var/db/playground/", Typeflag: tar.TypeDir, Mode: 0o711, Uname: "root", Gname: "wheel"}))
	want := "file 0755 root wheel /usr/local/sbin/playground\nsample 0640 root playground /usr/local/etc/a.conf.sample\ndir 0711 root wheel /var/db/playground\n"
	if err != nil || list != want {
		t.Errorf("%q, %v", list, err)
	}
	for name, header := range map[string]tar.Header{
		"space": {Name: "/usr/local/a b"}, "shell": {Name: "/usr/local/$(reboot)"}, "nothing": {Name: "+MANIFEST"},
	} {
		if list, err := listOf(writePackage(t, header)); err == nil {
			t.Errorf("%s: %q", name, list)
		}
	}
}

func TestArchive(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{"k/accept.sh": 0o755, "k/bin/accept": 0o755, "k/README": 0o644} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(path), mode); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(out, "k.tar.zst")
	if err := writeArchive(target, root, "k"); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var names []string
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Uname != "root" || h.Gname != "wheel" || strings.HasSuffix(h.Name, ".sh") && h.Mode&0o111 == 0 {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"k/", "k/README", "k/accept.sh", "k/bin/", "k/bin/accept"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".mkkit-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Every script of the kit is in the list of what goes into the archive.
func TestAllScriptsArePacked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "k"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	if err := (kit{dir: filepath.Join(dir, "k")}).scripts(); err != nil {
		t.Fatal(err)
	}
	have, err := filepath.Glob("kit/*.sh")
	if err != nil || len(have) < 5 {
		t.Fatalf("%q, %v", have, err)
	}
	for _, path := range append(have, "kit/kit", "kit/README") {
		if _, err := os.Stat(filepath.Join(dir, "k", filepath.Base(path))); err != nil {
			t.Error(err)
		}
	}
}
