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

// serviceStub stands for service(8) where "playground up" keeps the daemons: a restart is an end that is waited for. What is not
// kept there, playground-facultyd, is kept here.
const serviceStub = `#!/bin/sh
pidof() { "$BIN/playground" -c "$CONFIG" status 2>/dev/null | awk -v name="$1" '$1 == name && $2 == "up" { print $3 }'; }
case "$1 $2" in
"playground onerestart") daemon=playgroundd;;
"playground_reaperd onerestart") daemon=playground-reaperd;;
"playground_facultyd onestart")
	: >"$DIR/keep"
	setsid sh -c 'while [ -e "$DIR/keep" ]; do "$BIN/playground-facultyd" -c "$CONFIG" & echo $! >"$DIR/pid"; wait; sleep 1; done' >>"$DIR/facultyd.log" 2>&1 </dev/null &
	exec "$BIN/playground-facultyd" -c "$CONFIG" -ready 60s;;
"playground_facultyd onestatus") exec "$BIN/playground-facultyd" -c "$CONFIG" -ready 2s;;
"playground_facultyd onestop")
	rm -f "$DIR/keep"
	kill -TERM "$(cat "$DIR/pid")"
	while kill -0 "$(cat "$DIR/pid")" 2>/dev/null; do sleep 0.2; done
	exit 0;;
*) echo "unknown: $*" >&2; exit 1;;
esac
old=$(pidof $daemon)
[ -n "$old" ] || { echo "$daemon is down" >&2; exit 1; }
kill -TERM "$old"
i=0
while [ $i -lt 300 ]; do
	now=$(pidof $daemon)
	[ -z "$now" ] || [ "$now" = "$old" ] || exit 0
	sleep 0.2
	i=$((i + 1))
done
echo "$daemon does not come back" >&2
exit 1
`

// A suiteRun is a suite of this host with the flags that the client takes for it.
type suiteRun struct {
	dir   string
	flags []string
}

// startSuite starts the real suite in a folder of its own, configured as the kit does it, and stops it in the end.
func startSuite(t *testing.T) suiteRun {
	t.Helper()
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" || runtime.GOOS != "linux" {
		t.Skip("needs the programs of this host: make test")
	}
	dir := suiteFolder(t)
	listen := freeAddress(t)
	tool, state := filepath.Join(bin, "playground"), filepath.Join(dir, "s")
	config := filepath.Join(state, "playground.toml")
	var script bytes.Buffer
	if code := run(t.Context(), []string{"-patience", "2", "script"}, &script, io.Discard); code != 0 {
		t.Fatalf("script: exit %d", code)
	}
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\nlibexec_dir = %q\n\n[http]\nlisten = %q\n\n[jobs]\nterm_grace = \"3s\"\n\n"+
		"[work]\nprovider = \"scripted\"\nscript = %q\ndata_dir = %q\ncapacity = 1\nworker_uid_base = 930000\n",
		filepath.Join(state, "data"), filepath.Join(state, "run"), bin, listen, filepath.Join(dir, "script.json"), filepath.Join(dir, "plane"))
	for path, content := range map[string]string{config: text, filepath.Join(dir, "script.json"): script.String(), filepath.Join(dir, "adversary"): hostileStub,
		filepath.Join(dir, "service"): serviceStub, filepath.Join(dir, "faculty", ".keep"): "", filepath.Join(dir, "plane", "file"): "data\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"BIN": bin, "CONFIG": config, "DIR": dir} { // for the stub
		t.Setenv(name, value)
	}
	up(t, tool, state, listen, config)
	return suiteRun{dir, []string{"-playground", tool, "-config", config, "-endpoint", "http://" + listen + "/mcp", "-prefix", "pg", "-adversary", filepath.Join(dir, "adversary"),
		"-patience", "2", "-service", filepath.Join(dir, "service"), "-logs", filepath.Join(state, "log"), "-data", filepath.Join(state, "data", "playgroundd"),
		"-folder", filepath.Join(dir, "faculty")}}
}

// up runs "playground up" until the end of the test.
func up(t *testing.T, tool, state, listen, config string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(tool, "up", "--state", state, "--listen", listen)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("the suite said:\n%s", log.String())
		}
	})
	if out, err := exec.Command(tool, "-c", config, "ready", "--timeout", "30s").CombinedOutput(); err != nil {
		select {
		case err := <-ended:
			ended <- err
			t.Skipf("the suite does not run on this host: %s", log.String())
		default:
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// plays runs parts of the client and wants all of their checks green.
func (s suiteRun) plays(t *testing.T, parts ...[]string) {
	t.Helper()
	for _, part := range parts {
		var out, stderr bytes.Buffer
		began := time.Now()
		code := run(context.WithoutCancel(t.Context()), append(append([]string{}, s.flags...), part...), &out, &stderr)
		if code != 0 || strings.Contains(out.String(), "not ok") || !strings.Contains(out.String(), "\n1..") {
			t.Errorf("%v: exit %d\n%s%s", part, code, out.String(), stderr.String())
		}
		t.Logf("%v in %v:\n%s", part, time.Since(began).Round(time.Second), out.String())
	}
}

// These play every part but the benchmark against the real suite, with what Linux can show, so that a change of the protocol or of
// the tool breaks here and not on the host of somebody who runs the kit.
func TestOnThisHost(t *testing.T) {
	startSuite(t).plays(t, []string{"acceptance"}, []string{"-at-once", "16", "adversaries"}, []string{"survive", "--", "true"}, []string{"crash"}, []string{"drain"})
}

func TestWorkOnThisHost(t *testing.T) {
	startSuite(t).plays(t, []string{"work"}, []string{"escape"})
}

func TestFacultyOnThisHost(t *testing.T) {
	s := startSuite(t)
	notebook := filepath.Join(s.dir, "notebook")
	build := exec.Command("go", "build", "-o", notebook, ".")
	build.Dir = filepath.Join("..", "..", "examples", "faculty-notebook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.flags = append(s.flags, "-notebook", notebook)
	s.plays(t, []string{"faculty"})
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
