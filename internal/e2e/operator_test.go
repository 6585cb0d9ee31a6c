package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"playground/suite"
)

// What an operator types on one day, with what can go wrong.
func TestOperatorsDay(t *testing.T) {
	h := start(t)
	var created struct {
		Token string
		User  struct {
			Sandbox struct{ Name, Persona string }
		}
	}
	h.must(&created, "user", "create", "ada", "--persona", "Ada, who counts")
	if created.User.Sandbox.Name != "pg-ada" || created.User.Sandbox.Persona != "Ada, who counts" {
		t.Errorf("created %+v", created)
	}
	h.refused(t, "exists already", "user", "create", "ada")
	h.refused(t, "", "user", "create", "Ada")
	h.refused(t, "", "user", "create", "12")
	h.refused(t, "", "user", "create", "a")
	h.refused(t, "", "user", "attach", "nobody")
	h.refused(t, "", "mcp", "--tenant", "nobody")

	c := h.connect(created.Token)
	session := c.open()
	c.job(session, "sleep 300")
	h.refused(t, "runs commands now", "user", "destroy", "ada")

	var info struct {
		Prefix  string
		Revoked bool
	}
	h.must(&info, "user", "token", "show", "ada")
	if !strings.HasPrefix(created.Token, info.Prefix) || info.Prefix == created.Token || info.Revoked {
		t.Errorf("token show says %+v", info)
	}
	var reset struct{ Token string }
	h.must(&reset, "user", "token", "reset", "ada")
	if got := h.ping(t, created.Token); got != http.StatusUnauthorized {
		t.Errorf("the old token is answered with %d after a reset", got)
	}
	h.connect(reset.Token).ok(nil, "exec", map[string]any{"session": session, "command": "true"})
	h.must(nil, "user", "token", "revoke", "ada")
	if got := h.ping(t, reset.Token); got != http.StatusUnauthorized {
		t.Errorf("a revoked token is answered with %d", got)
	}
	h.must(nil, "status")
	if runtime.GOOS == "linux" { // nothing stands on a template here, and nothing can be left to clean
		h.refused(t, "there are no templates", "template", "list")
		h.refused(t, "there are no templates", "template", "create", "base", "--from", "/")
		h.refused(t, "there are no templates", "template", "destroy", "base")
	}
	var cleaned struct {
		Jails, Limits, Left []string
		Reason              string
	}
	h.must(&cleaned, "clean")
	if len(cleaned.Jails)+len(cleaned.Limits)+len(cleaned.Left) > 0 || (cleaned.Reason == "") != (runtime.GOOS != "linux") {
		t.Errorf("clean says %+v", cleaned)
	}
	h.must(nil, "ready", "--timeout", "5s")
	h.must(nil, "user", "destroy", "ada", "--force")
	var list []struct{}
	h.must(&list, "user", "list")
	if len(list) != 0 {
		t.Errorf("%d tenants are left", len(list))
	}
}

// refused runs a command that must fail with text, and with a hint.
func (h *host) refused(t *testing.T, text string, args ...string) {
	t.Helper()
	_, stderr, status := h.playground(args...)
	if status != 1 || !strings.Contains(stderr, text) || !strings.Contains(stderr, "\nhint: ") {
		t.Errorf("playground %v: status %d, %q; want 1, %q and a hint", args, status, stderr, text)
	}
}

// ping posts an empty request with a token and returns the HTTP status.
func (h *host) ping(t *testing.T, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.listen+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// The daemons' flags, as a service manager uses them.
func TestDaemonFlags(t *testing.T) {
	bin := programs(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.toml"), filepath.Join(dir, "bad.toml")
	write(t, good, "")
	write(t, bad, "[jobs]\nactive_per_tennant = 3\n")
	for _, daemon := range []string{"playground-jaild", "playground-reaperd", "playgroundd"} {
		for _, test := range []struct {
			args   []string
			status int
			output string
		}{
			{[]string{"-version"}, 0, daemon + " "},
			{[]string{"-t", "-c", good}, 0, ""},
			{[]string{"-t", "-c", bad}, 1, "line 2: unknown key \"jobs.active_per_tennant\""},
			{[]string{"-t", "-c", filepath.Join(dir, "none.toml")}, 1, "none.toml"},
			{[]string{"-bogus"}, 2, "-bogus"},
			{[]string{"surplus"}, 2, "surplus"},
		} {
			cmd := exec.Command(filepath.Join(bin, daemon), test.args...)
			out, _ := cmd.CombinedOutput() // the status says it
			if got := cmd.ProcessState.ExitCode(); got != test.status || !strings.Contains(string(out), test.output) {
				t.Errorf("%s %v: status %d and %q, want %d and %q", daemon, test.args, got, out, test.status, test.output)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A port that is taken is named, and nothing is left running.
func TestPortInUse(t *testing.T) {
	bin := programs(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	state, err := os.MkdirTemp("/tmp", "pge2e")
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Remove(state)
	cmd := exec.Command(filepath.Join(bin, "playground"), "up", "--state", state, "--listen", listener.Addr().String())
	out, _ := cmd.CombinedOutput() // the status says it
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "http.listen") {
		t.Errorf("status %d:\n%s\nwant 1 and the key to change", cmd.ProcessState.ExitCode(), out)
	}
}

// A second signal does not wait for anything.
func TestSecondCtrlC(t *testing.T) {
	h := start(t)
	c := h.connect(h.tenant("ada"))
	c.job(c.open(), `trap '' TERM; while :; do sleep 1; done`)
	all := family(h.up.Process.Pid)
	for range 2 {
		if err := h.up.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // two signals at once would be one
	}
	select {
	case <-h.ended:
	case <-time.After(10 * time.Second):
		t.Error("up still runs 10 s after the second Ctrl-C")
	}
	gone(t, all, 10*time.Second)
}
