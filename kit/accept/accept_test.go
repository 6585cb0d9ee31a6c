package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out}
	r.check(true, "one", "a", "b %d", 7)
	r.check(false, "two # | x", "", "line\nnext \x1b[31m%s", strings.Repeat("y", 2*mostText))
	r.skip("three", "because of %s", "it")
	r.note("first\nsecond")
	r.plan()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || lines[0] != "ok 1 - one | expected: a | seen: b 7" || lines[2] != "ok 3 - three # SKIP because of it" ||
		lines[3] != "# first" || lines[4] != "# second" || lines[5] != "1..3" || r.failed != 1 || r.skipped != 1 {
		t.Errorf("%q", lines)
	}
	if !strings.HasPrefix(lines[1], "not ok 2 - two = / x | expected: nothing | seen: line next [31myyy") || len(lines[1]) > mostText+100 {
		t.Errorf("%q", lines[1])
	}
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]struct {
		last int
		ok   bool
	}{
		"":                 {0, true},
		"tick 1\ntick 2\n": {2, true},
		"tick 1\ntick 3\n": {1, false},
		"tick 1\ntick 2":   {1, false},
		"tick 2\n":         {0, false},
	} {
		if last, ok := whole(text); last != want.last || ok != want.ok {
			t.Errorf("%q: %d %v", text, last, ok)
		}
	}
}

func TestSpread(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i)*time.Millisecond)
	}
	if s := spreadOf(times); s.Count != 100 || s.P50 != 51 || s.P99 != 100 {
		t.Errorf("%+v", s)
	}
	if s := spreadOf(nil); s != (spread{}) {
		t.Errorf("%+v", s)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"-at-once", "0", "adversaries"}, {"-nonsense"}, {"-patience", "-1", "crash"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}

// hostileStub stands for the adversary where there is no FreeBSD: it forks, hides a little and stays or leaves.
const hostileStub = `#!/bin/sh
[ $# -gt 0 ] || exit 0
(setsid sh -c 'trap "" TERM; sleep 900 & sleep 900' &)
echo ready
case "$*" in *leave*) exit 0;; esac
exec sleep 900
`

// TestOnThisHost plays every part but the benchmark against the real suite, with what Linux can show, so that a change of the
// protocol or of the tool breaks here and not on the host of somebody who runs the kit.
func TestOnThisHost(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" || runtime.GOOS != "linux" {
		t.Skip("needs the programs of this host: make test")
	}
	dir := suiteFolder(t)
	listen := freeAddress(t)
	tool := filepath.Join(bin, "playground")
	var log bytes.Buffer
	up := exec.Command(tool, "up", "--state", filepath.Join(dir, "s"), "--listen", listen)
	up.Stdout, up.Stderr = &log, &log
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	config := filepath.Join(dir, "s", "playground.toml")
	if out, err := exec.Command(tool, "-c", config, "ready", "--timeout", "30s").CombinedOutput(); err != nil {
		select {
		case err := <-ended:
			ended <- err
			t.Skipf("the suite does not run on this host: %s", log.String())
		default:
			t.Fatalf("%v: %s", err, out)
		}
	}
	adversary := filepath.Join(dir, "adversary")
	if err := os.WriteFile(adversary, []byte(hostileStub), 0o755); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-playground", tool, "-config", config, "-endpoint", "http://" + listen + "/mcp", "-prefix", "pg", "-adversary", adversary, "-patience", "2"}
	for _, part := range [][]string{{"acceptance"}, {"-at-once", "16", "adversaries"}, {"survive", "--", "true"}, {"crash"}} {
		var out, stderr bytes.Buffer
		code := run(context.WithoutCancel(t.Context()), append(append([]string{}, flags...), part...), &out, &stderr)
		if code != 0 || strings.Contains(out.String(), "not ok") || !strings.Contains(out.String(), "\n1..") {
			t.Errorf("%v: exit %d\n%s%s", part, code, out.String(), stderr.String())
		}
	}
}

// suiteFolder is a folder that sandboxes of a root daemon can enter, with a path short enough for sockets.
func suiteFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgkit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("chattr", "-R", "-a", "-i", dir).Run() // piles, where root may set their flag
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return fmt.Sprint(listener.Addr())
}
