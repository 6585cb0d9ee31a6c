package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"playground/fault"
)

func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("target", "sesame", 0o600), link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       string
		err, hint  string // parts of them
	}{
		{"plain", file("plain", "sesame", 0o600), "sesame", "", ""},
		{"line end", file("line", "sesame\r\n", 0o400), "sesame", "", ""},
		{"inner line ends stay", file("pem", "a\nb\n", 0o600), "a\nb", "", ""},
		{"group may read", file("group", "sesame", 0o640), "", "0640", "chmod 600"},
		{"others may read", file("others", "sesame", 0o604), "", "0604", "chmod 600"},
		{"symbolic link", link, "", "symbolic link", "file itself"},
		{"folder", dir, "", "not a regular file", ""},
		{"fifo", fifo, "", "not a regular file", ""},
		{"missing", filepath.Join(dir, "none"), "", "no such file", ""},
		{"empty", file("empty", "\n", 0o600), "", "empty", ""},
		{"too large", file("large", strings.Repeat("x", maxSecret+1), 0o600), "", "larger than 64KiB", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SecretFile(tt.path)
			if tt.err == "" {
				if err != nil || string(got) != tt.want {
					t.Fatalf("SecretFile = %q, %v; want %q", got, err, tt.want)
				}
				return
			}
			if err == nil || !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want one with %q", err, tt.err)
			}
			if strings.Contains(err.Error(), "sesame") {
				t.Errorf("the error %q holds the secret", err)
			}
			if !strings.Contains(fault.HintOf(err), tt.hint) {
				t.Errorf("hint = %q, want one with %q", fault.HintOf(err), tt.hint)
			}
		})
	}
}

// Whose file is read depends on who is to read it: root's is as good as one's own, but root looks on another user's behalf for files
// that this user can read.
func TestOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		owner, reader int
		want          bool
	}{{0, 0, true}, {0, 65533, false}, {65533, 65533, true}, {65532, 65533, false}, {65533, 0, false}} {
		if err := os.Chown(path, tt.owner, -1); err != nil || os.Geteuid() != 0 {
			t.Skipf("cannot give a file away: %v", err)
		}
		if _, err := PrivateFileOf(path, 100, tt.reader); (err == nil) != tt.want {
			t.Errorf("a file of %d for %d: %v", tt.owner, tt.reader, err)
		}
	}
}

// A secret of another user is refused, even by root, who could read it.
func TestSecretFileOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65533, -1); err != nil {
		t.Skipf("cannot give a file away: %v", err)
	}
	if _, err := SecretFile(path); err == nil || !strings.Contains(err.Error(), "belongs to uid 65533") {
		t.Errorf("SecretFile = %v", err)
	}
}
