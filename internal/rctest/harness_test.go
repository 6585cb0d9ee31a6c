package rctest

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A host is a folder in which the scripts find their world.
type host struct {
	t    *testing.T
	root string
	env  []string
}

// absolute matches the beginning of a path of the scripts.
var absolute = regexp.MustCompile(`(^|[\s"=])(/(?:usr|var|etc)/)`)

func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// scripts returns the names of the rc scripts.
func scripts(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repository(t), "rc.d"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// newHost makes a folder with the scripts, which say no other path than those below it, and what they call.
func newHost(t *testing.T, rcConf string) *host {
	t.Helper()
	h := &host{t: t, root: t.TempDir()}
	h.env = append(os.Environ(), "RCTEST_ROOT="+h.root, "PATH="+h.path("bin")+":"+os.Getenv("PATH"))
	for _, name := range scripts(t) {
		text, err := os.ReadFile(filepath.Join(repository(t), "rc.d", name))
		if err != nil {
			t.Fatal(err)
		}
		h.write("usr/local/etc/rc.d/"+name, string(absolute.ReplaceAll(text, []byte("${1}"+h.root+"${2}"))), 0o755)
	}
	for to, from := range map[string]string{
		"etc/rc.subr": "rc.subr", "usr/sbin/daemon": "bin/daemon", "usr/bin/protect": "bin/protect", "bin/install": "bin/install", "bin/alive": "bin/alive", "bin/pgrep": "bin/pgrep",
		"bin/pwait": "bin/pwait", "usr/local/sbin/playground": "programs/playground", "usr/local/sbin/playground-jaild": "programs/daemon",
		"usr/local/sbin/playground-reaperd": "programs/daemon", "usr/local/sbin/playground-facultyd": "programs/daemon",
		"usr/local/libexec/playground/launch": "programs/daemon",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		h.write(to, string(text), 0o755)
	}
	h.write("usr/local/etc/playground/playground.toml", "", 0o644)
	h.write("etc/rc.conf", rcConf, 0o644)
	h.write("var/run/x", "", 0o644) // the folder
	t.Cleanup(h.end)
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.root, name) }

func (h *host) write(name, text string, mode os.FileMode) {
	h.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.path(name)), 0o755), os.WriteFile(h.path(name), []byte(text), mode)); err != nil {
		h.t.Fatal(err)
	}
}

// end kills what a failed test left running, by the pids that it wrote down.
func (h *host) end() {
	files, _ := filepath.Glob(h.path("var/run/*.pid"))
	slices.Sort(files) // daemon(8) before its child
	for _, file := range files {
		if pid := h.pid(filepath.Base(file)); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
	}
}

// pid reads a pid file, and is 0 if there is none.
func (h *host) pid(name string) int {
	text, _ := os.ReadFile(h.path("var/run/" + name))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// service runs a script and returns its status and output.
func (h *host) service(script, command string) (status int, output string) {
	h.t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(h.t.Context(), "/bin/sh", h.path("usr/local/etc/rc.d/"+script), command)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = h.env, &out, &out, 5*time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String()
	}
	if err != nil {
		h.t.Fatalf("%s %s: %v\n%s", script, command, err, &out)
	}
	return 0, out.String()
}

// want runs a script and compares its status, and its output with what must be in it.
func (h *host) want(script, command string, status int, parts ...string) {
	h.t.Helper()
	got, output := h.service(script, command)
	if got != status {
		h.t.Errorf("service %s %s: status %d, want %d\n%s", script, command, got, status, output)
	}
	for _, part := range parts {
		if !strings.Contains(output, part) {
			h.t.Errorf("service %s %s: output lacks %q\n%s", script, command, part, output)
		}
	}
}

// events returns what the stand-ins noted, without pids.
func (h *host) events(prefixes ...string) []string {
	h.t.Helper()
	text, _ := os.ReadFile(h.path("events"))
	var events []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		for _, prefix := range prefixes {
			if strings.HasPrefix(line, prefix) {
				events = append(events, strings.Join(words[:2], " "))
			}
		}
	}
	return events
}

// variables returns what a script tells rc.subr, with paths as on a real host.
func (h *host) variables(script string) map[string]string {
	h.t.Helper()
	h.want(script, "record", 0)
	text, err := os.ReadFile(h.path("variables"))
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), h.root, "")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[name] = strings.Join(strings.Fields(value), " ")
	}
	return all
}

// names returns the sorted keys of a map.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
