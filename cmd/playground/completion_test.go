package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"playground/cli"
)

// TestCompletions makes the files that the package installs; a shell that is here must be able to read its own.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot(&cli.Env{Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }})
			root.SetArgs([]string{"completion", shell})
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "playground") {
				t.Fatalf("the file is %q", out.String())
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed: its file was made and not read", shell)
			}
			check := exec.Command(path, "-n")
			check.Stdin = &out
			if message, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s cannot read it: %v\n%s", shell, err, message)
			}
		})
	}
}
