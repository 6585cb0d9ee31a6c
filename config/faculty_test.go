package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFaculty(t *testing.T) {
	c, err := parse(strings.NewReader("[host]\nrun_dir = \"/r\"\nstate_dir = \"/s\"\n[faculty]\ndefinitions = \"/w.json\"\n"), "freebsd")
	if err != nil {
		t.Fatal(err)
	}
	if c.Faculty != (Faculty{Definitions: "/w.json", Bundles: "/s/bundles"}) {
		t.Errorf("got %+v", c.Faculty)
	}
	if c.FacultySocket() != "/r/facultyd.sock" || c.FacultyDir() != "/s/faculty" {
		t.Errorf("paths %s, %s", c.FacultySocket(), c.FacultyDir())
	}
	for _, key := range []string{"definitions", "bundles"} {
		_, err := parse(strings.NewReader("[faculty]\n"+key+" = \"x\"\n"), "linux")
		if err == nil || !strings.Contains(err.Error(), "line 2: faculty."+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The socket is found although the file does not load.
func TestLooseFacultySocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "playground.toml")
	for _, test := range []struct{ name, text, want string }{
		{"default", "", "/var/run/playground/facultyd.sock"},
		{"unknown key", "colour = 1\n[host]\nrun_dir = \"/r\"\n", "/r/facultyd.sock"},
		{"relative", "[host]\nrun_dir = \"r\"\n", "/var/run/playground/facultyd.sock"},
		{"no TOML", "[host", "/var/run/playground/facultyd.sock"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := LooseFacultySocket(file); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := LooseFacultySocket(file); got != filepath.Join(dir, "run", "facultyd.sock") {
		t.Errorf("beside a state folder's file: %s", got)
	}
	if got := LooseFacultySocket("/no/such"); got != "/var/run/playground/facultyd.sock" {
		t.Errorf("without a file: %s", got)
	}
}

func TestPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("four\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := PrivateFile(path, 5); err != nil || string(text) != "four\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := PrivateFile(path, 4); err == nil || strings.Contains(err.Error(), "four") {
		t.Errorf("over its bound: %v", err)
	}
}
