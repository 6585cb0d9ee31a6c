package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/config"
	"playground/internal/rootd"
)

// TestCheck: -t names what is wrong with the configuration and with the definitions, and starts nothing.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	definitions := filepath.Join(dir, "workers.json")
	good := `{"workers":[{"tenant":"alice","program":"/p","address":"127.0.0.1:1","token_file":"/t"}]}`
	for _, test := range []struct {
		name, toml, json string
		mode             os.FileMode
		status           int
		want             string
	}{
		{"good", fmt.Sprintf("[faculty]\ndefinitions = %q\n", definitions), good, 0o600, 0, "is correct"},
		{"none", "", good, 0o600, 1, "faculty.definitions names no file"},
		{"no file", "[faculty]\ndefinitions = \"/no/such\"\n", good, 0o600, 1, "/no/such"},
		{"open to all", fmt.Sprintf("[faculty]\ndefinitions = %q\n", definitions), good, 0o644, 1, "opens it to others"},
		{"bad", fmt.Sprintf("[faculty]\ndefinitions = %q\n", definitions), `{"workers":[{"tenant":"A"}]}`, 0o600, 1, "worker 1"},
		{"relative", "[faculty]\ndefinitions = \"w.json\"\n", good, 0o600, 1, "faculty.definitions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(dir, "playground.toml")
			for path, text := range map[string]string{file: test.toml, definitions: test.json} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(definitions, test.mode); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			status := rootd.MainChecked("playground-facultyd", config.Config.FacultySocket, check, []string{"-t", "-c", file}, &out, &out,
				func(context.Context, rootd.Host) error { panic("it was started") })
			if status != test.status || !strings.Contains(out.String(), test.want) {
				t.Errorf("status %d: %s", status, &out)
			}
		})
	}
}
