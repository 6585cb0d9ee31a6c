package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"playground/workloop"
)

// The commands of the work loop, as a person and a script use them, on a suite whose model plays testdata/model.json.
func TestWorkCommands(t *testing.T) {
	model, err := filepath.Abs(filepath.Join("testdata", "model.json"))
	if err != nil {
		t.Fatal(err)
	}
	h := startWork(t, "provider = \"scripted\"\nscript = "+strconv.Quote(model)+"\n")
	for _, member := range []string{"ada", "bob", "carol", "dora"} { // one for each script: a trial member has one run at a time
		h.must(nil, "user", "create", member)
	}
	t.Run("leave", h.leave)
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: filepath.Join("testdata", "script"),
			Setup: func(env *testscript.Env) error {
				env.Setenv("HOME", env.WorkDir)
				env.Setenv("PATH", h.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
				env.Setenv("PLAYGROUND_CONFIG", filepath.Join(h.state, "playground.toml"))
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "capture": capture},
		})
	})
	t.Run("outlive", h.outlive)
}

// follow starts a slow run for a member, does something once its first call has a result, and returns what the command said.
func (h *workHost) follow(t *testing.T, member string, then func(cmd *exec.Cmd)) (thread, stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(h.bin, "playground"), "-c", filepath.Join(h.state, "playground.toml"), "run", "slow", "--member", member)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var news bytes.Buffer
	cmd.Stderr = &news
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if found, ok := strings.CutPrefix(lines.Text(), "run "); ok {
			thread = found
		}
		if strings.HasPrefix(lines.Text(), "  <- ok ") {
			then(cmd)
		}
	}
	_ = cmd.Wait() // the status says it
	return thread, said.String(), news.String(), cmd.ProcessState.ExitCode()
}

// Ctrl-C leaves a run to itself and says how to come back; it does not end it.
func (h *workHost) leave(t *testing.T) {
	thread, _, stderr, status := h.follow(t, "dora", func(cmd *exec.Cmd) {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	})
	if status != 1 || !strings.Contains(stderr, "stop it: playground runs stop "+thread) {
		t.Errorf("status %d, %q", status, stderr)
	}
	row, err := h.api.Run(t.Context(), thread)
	if err != nil || row.State != workloop.Running {
		t.Errorf("afterwards the run is %s, %v", row.State, err)
	}
}

// Whoever follows a run when the daemon dies waits for it to come back, and is told how the run ended.
func (h *workHost) outlive(t *testing.T) {
	_, stdout, stderr, status := h.follow(t, "ada", func(*exec.Cmd) {
		var all struct {
			Daemons []struct {
				Name string
				Pid  int
			}
		}
		h.must(&all, "status")
		for _, daemon := range all.Daemons {
			if daemon.Name == "playgroundd" && daemon.Pid > 0 {
				if err := syscall.Kill(daemon.Pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if status != 1 || !strings.Contains(stderr, "the daemon is away; waiting for it\n") || !strings.Contains(stdout, "\noutcome: stopped_short (failed)\n") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// exits runs playground and compares its exit status: "exits 2 run goal".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("playground", args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("playground %v: exit status %d, want %d", args[1:], got, want)
	}
}

// capture puts the first group of a pattern in standard output into a variable: "capture RUN '^run (th_.*)$'".
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture VARIABLE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("no %q in standard output", args[1])
	}
	ts.Setenv(args[0], found[1])
}
