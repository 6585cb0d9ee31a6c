package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
)

// One file serves both daemons: root stages what the daemon user may read, and nothing else of his making.
func TestWorkerToken(t *testing.T) {
	const daemon, stranger = 65533, 65532
	dir, good := t.TempDir(), strings.Repeat("t0ken-", 8)
	file := func(name, text string, mode os.FileMode, owner int) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(path, mode), os.Chown(path, owner, -1)); err != nil {
			t.Skipf("cannot give a file away: %v", err)
		}
		return path
	}
	if os.Geteuid() != 0 {
		t.Skip("only root reads other users' files")
	}
	// The daemon user may put a second name of any file that it can reach into a folder of its own.
	secret := file("secret", good, 0o600, 0)
	link := filepath.Join(dir, "hard")
	if err := os.Link(secret, link); err != nil {
		t.Fatal(err)
	}
	soft := filepath.Join(dir, "soft")
	if err := os.Symlink(file("target", good, 0o400, daemon), soft); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, err, hint string }{
		{"root's", file("root", good, 0o600, 0), "", ""},
		{"the daemon user's", file("daemon", good+"\n", 0o400, daemon), "", ""},
		{"a stranger's", file("stranger", good, 0o400, stranger), "belongs to uid 65532", "chown it to root or uid 65533"},
		{"open", file("open", good, 0o440, daemon), "0440", "chmod"},
		{"two names", link, "more than one name", "copy"},
		{"symbolic link", soft, "symbolic link", "itself"},
		{"short", file("short", "t0ken", 0o400, daemon), "32 to 1024", "openssl"},
		{"a password file", file("passwd", "root:$6$abcdefghijklmnopqrstuvwxyz0123456789:0:0\n", 0o600, 0), "letters, digits", "openssl"},
		{"two lines", file("lines", good+"\n"+good, 0o600, 0), "letters, digits", "openssl"},
		{"empty", file("empty", "", 0o600, 0), "", "openssl"},
		{"missing", filepath.Join(dir, "none"), "no such file", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token, err := workerToken(tt.path, 0, daemon)
			if tt.err == "" && tt.hint == "" {
				if err != nil || string(token) != good {
					t.Fatalf("workerToken = %q, %v", token, err)
				}
				return
			}
			if err == nil || !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), tt.path) {
				t.Fatalf("error = %v, want one with %q and the path", err, tt.err)
			}
			if !strings.Contains(fault.HintOf(err), tt.hint) {
				t.Errorf("hint = %q, want one with %q", fault.HintOf(err), tt.hint)
			}
			if strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "$6$") {
				t.Errorf("the error %q holds the content", err)
			}
		})
	}
}
