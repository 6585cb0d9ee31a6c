package command_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/jail"
	"playground/job"
	"playground/reaper/command"
	"playground/ring"
)

func words(list [][]byte) string { return string(bytes.Join(list, []byte("|"))) }

func TestOf(t *testing.T) {
	att := jail.Attachment{Cwd: "/workspace", Env: []string{"HOME=/home/alice", "PATH=/bin"}}
	for name, c := range map[string]struct {
		spec           job.Spec
		argv, env, dir string
	}{
		"login":        {job.Spec{Mode: job.Login, Command: []byte("ls")}, "/bin/sh|-lc|ls", "HOME=/home/alice|PATH=/bin", "/workspace"},
		"clean":        {job.Spec{Mode: job.Clean, Command: []byte("cat \"$1\""), Args: [][]byte{[]byte("a b")}}, "/bin/sh|-c|cat \"$1\"|sh|a b", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "/workspace"},
		"own folder":   {job.Spec{Mode: job.Login, Cwd: "/tmp"}, "/bin/sh|-lc|", "HOME=/home/alice|PATH=/bin", "/tmp"},
		"below":        {job.Spec{Mode: job.Login, Cwd: "../x"}, "/bin/sh|-lc|", "HOME=/home/alice|PATH=/bin", "/workspace/../x"},
		"unknown mode": {job.Spec{Command: []byte("ls")}, "/bin/sh|-lc|ls", "HOME=/home/alice|PATH=/bin", "/workspace"},
	} {
		got := command.Of(c.spec, att)
		if diff := cmp.Diff([]string{c.argv, c.env, c.dir}, []string{words(got.Argv), words(got.Env), string(got.Dir)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	for cause, want := range map[error]job.Outcome{job.ErrTimedOut: job.TimedOut, job.ErrCancelled: job.Cancelled, context.Canceled: job.Cancelled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if got := command.OutcomeOf(ctx); got != want {
			t.Errorf("%v: %s", cause, got)
		}
	}
}

type output struct {
	mu sync.Mutex
	b  [3]bytes.Buffer
}

func (o *output) Write(s ring.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b[s].Write(p)
}

// All that was written before the end is kept, input that nobody reads holds nothing up, and a write end that somebody
// else still has does not either.
func TestFiles(t *testing.T) {
	var f command.Files
	input := []byte(strings.Repeat("x", 4<<20))
	theirs, err := f.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	f.Pump(input, out)
	theirs[1].Write(bytes.Repeat([]byte("o"), 300<<10))
	theirs[2].Write([]byte("e"))
	theirs[0].Close()
	theirs[2].Close()
	begun := time.Now()
	f.Drain() // theirs[1] is open still
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	theirs[1].Close()
	if out.b[ring.Stdout].Len() != 300<<10 || out.b[ring.Stderr].String() != "e" {
		t.Errorf("%d bytes and %q", out.b[ring.Stdout].Len(), out.b[ring.Stderr].String())
	}
}

func TestNoInput(t *testing.T) {
	var f command.Files
	theirs, err := f.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := theirs[0].Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("input without input: %d, %v", n, err)
	}
	for _, file := range theirs {
		file.Close()
	}
}
