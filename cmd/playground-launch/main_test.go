package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
	"playground/launch"
)

// configuration writes a file of the given lines below [host], without isolation, so that what this host lacks does not
// matter.
func configuration(t *testing.T, dir string, host, http string) string {
	t.Helper()
	path := filepath.Join(dir, "playground.toml")
	text := "[host]\n" + host + "\n[http]\n" + http + "\n[sandbox]\nisolation = \"none\"\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	good := configuration(t, t.TempDir(), `state_dir = "`+dir+`/state"`+"\n"+`run_dir = "/tmp/r"`, "")
	// A state folder that sandboxes can read is refused on Linux, and one that is a file everywhere.
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := configuration(t, t.TempDir(), `state_dir = "`+file+`"`+"\n"+`run_dir = "/tmp/r"`, "")
	tests := []struct {
		name string
		args []string
		err  error
		want []string // parts of what is printed
	}{
		{"usage", []string{"-nope"}, errUsage, []string{"-nope"}},
		{"argument", []string{"x"}, errUsage, []string{"unexpected argument"}},
		{"help", []string{"-h"}, flag.ErrHelp, []string{"-program"}},
		{"version", []string{"-version"}, nil, []string{"playground-launch "}},
		{"no config", []string{"-c", good + "x"}, fault.Invalid, nil},
		{"fit", []string{"-t", "-c", good}, nil, []string{"is correct, and this host can run the suite"}},
		{"unfit", []string{"-t", "-c", bad}, fault.Unavailable, []string{"state folder: cannot use", "-> name a usable folder in host.state_dir"}},
		// The gate comes first: nothing is opened or dropped.
		{"unfit, to start", []string{"-c", bad}, fault.Unavailable, []string{"state folder"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), new(launch.Slots), tt.args, &out, &out)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			for _, part := range tt.want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("%q lacks %q", &out, part)
				}
			}
		})
	}
}

func TestStartNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("runs as root")
	}
	path := configuration(t, t.TempDir(), `state_dir = "`+t.TempDir()+`/state"`+"\n"+`run_dir = "/tmp/r"`, "")
	var out bytes.Buffer
	if err := run(t.Context(), new(launch.Slots), []string{"-c", path}, &out, &out); !errors.Is(err, fault.Denied) {
		t.Errorf("error %v, want denied", err)
	}
}
