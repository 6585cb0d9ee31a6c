package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"playground/cli"
)

// A cutter is a transcript that ends the play at a line.
type cutter struct {
	bytes.Buffer
	at  string
	cut func()
}

func (c *cutter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.at)) {
		time.AfterFunc(300*time.Millisecond, c.cut)
	}
	return c.Buffer.Write(p)
}

// A play that is interrupted leaves no process and no file behind, wherever it is.
func TestInterrupt(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set: run `make test`, which builds the programs first")
	}
	t.Chdir("..") // the examples are there
	for _, at := range []string{"A job that forks twice", "/v1/work/loop", "faculty build"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &cutter{at: at, cut: cancel}
			err := Run(ctx, Options{Env: &cli.Env{Bin: bin, Getenv: os.Getenv, Stdout: out, Stderr: out}, Out: out})
			if !errors.Is(err, context.Canceled) && !strings.Contains(fmt.Sprint(err), "context canceled") {
				t.Fatalf("got %v\n%s", err, out)
			}
			state := regexp.MustCompile(`--state (\S+)`).FindStringSubmatch(out.String())
			if state == nil {
				t.Fatalf("no state folder in:\n%s", out)
			}
			if _, err := os.Lstat(state[1]); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the state folder is still there: %v", err)
			}
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
			for _, path := range files {
				if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(state[1])) {
					t.Errorf("still running: %q", line)
				}
			}
		})
	}
}
