package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// Who may write the folder must not choose what root makes append-only.
func TestSealTouchesPlainFilesOnly(t *testing.T) {
	folder := t.TempDir()
	name := func(n string) string { return "records-2026-01-02-00000" + n + ".jsonl" }
	write := func(file string) string {
		t.Helper()
		path := filepath.Join(folder, file)
		if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write(name("1"))
	if err := errors.Join(os.Symlink(plain, filepath.Join(folder, name("2"))), unix.Mkfifo(filepath.Join(folder, name("3")), 0o600),
		os.Mkdir(filepath.Join(folder, name("4")), 0o700), os.Link(write(name("5")), filepath.Join(folder, name("6")))); err != nil {
		t.Fatal(err)
	}
	write("passwd")
	self := os.Geteuid()
	tests := []struct {
		file  string
		owner int
		want  error // nil: any
	}{
		{name("1"), self, fault.Unsupported}, // as far as it goes here
		{name("1"), self + 1, fault.Denied},
		{name("2"), self, nil},
		{name("3"), self, fault.Denied},
		{name("4"), self, fault.Denied},
		{name("5"), self, fault.Denied},
		{name("6"), self, fault.Denied},
		{name("7"), self, fault.NotFound},
		{"passwd", self, fault.Invalid},
		{"../" + filepath.Base(folder) + "/" + name("1"), self, fault.Invalid},
		{"", self, fault.Invalid},
	}
	for _, tt := range tests {
		err := sealer(folder, func() int { return tt.owner })(tt.file)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && errors.Is(err, fault.Unsupported) {
			t.Errorf("%q of %d: %v, want %v", tt.file, tt.owner, err, tt.want)
		}
	}
}
