package tool_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"playground/sandbox"
	"playground/sandbox/sandboxtest"
	"playground/workloop/loop"
	"playground/workloop/tool"
)

// registry has all tools of the sets.
func registry(t *testing.T, env tool.Env, sets ...tool.Set) *tool.Registry {
	t.Helper()
	granted := slices.DeleteFunc(tool.Definitions(), func(d tool.Definition) bool { return !slices.Contains(sets, d.Set) })
	r := tool.New(env, granted)
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func call(r *tool.Registry, name string, args map[string]any) loop.Result {
	raw, _ := json.Marshal(args)
	return r.Call(context.Background(), "", name, raw)
}

func TestDefinitions(t *testing.T) {
	domains := map[string]loop.Domain{}
	ids := map[string]bool{}
	for _, d := range tool.Definitions() {
		if ids[d.ID()] {
			t.Errorf("%s is there twice", d.ID())
		}
		ids[d.ID()] = true
		domains[d.ID()] = d.Domain
		var schema map[string]any
		if err := json.Unmarshal(d.Schema, &schema); err != nil || schema["type"] != "object" || d.Description == "" {
			t.Errorf("%s: %v, schema %s", d.ID(), err, d.Schema)
		}
	}
	for id, want := range map[string]loop.Domain{"record_note": loop.Sandboxed, "search_records": loop.Mediated, "request_decision": loop.Mediated,
		"read_file": loop.Trusted, "host:bash": loop.Trusted, "sandbox:exec": loop.Mediated} {
		if domains[id] != want {
			t.Errorf("%s is of domain %q", id, domains[id])
		}
	}
}

func TestAvailable(t *testing.T) {
	all := tool.Facts{Data: true, Host: true, Tenant: true}
	has := func(f tool.Facts, id string) bool {
		return slices.ContainsFunc(tool.Available(f), func(d tool.Definition) bool { return d.ID() == id })
	}
	member, owner := all, all
	owner.Operator, owner.InProcess = true, true
	sandboxed := owner
	sandboxed.InProcess = false
	memberHere := member
	memberHere.InProcess = true
	for _, c := range []struct {
		f    tool.Facts
		id   string
		want bool
	}{
		{owner, "host:bash", true}, {sandboxed, "host:bash", false}, {member, "host:bash", false}, {memberHere, "host:bash", false},
		{member, "sandbox:exec", true}, {owner, "sandbox:exec", false}, {member, "read_file", true}, {tool.Facts{}, "read_file", false},
	} {
		if got := has(c.f, c.id); got != c.want {
			t.Errorf("%+v has %s: %v", c.f, c.id, got)
		}
	}
}

func TestFiles(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "data")
	if err := os.WriteFile(filepath.Join(top, "secret"), []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := registry(t, tool.Env{DataDir: dir}, tool.Data)
	ok := func(name string, args map[string]any, want string) {
		t.Helper()
		if res := call(r, name, args); res.Status != loop.StatusOK || !strings.Contains(res.Content, want) {
			t.Errorf("%s %v answers %+v", name, args, res)
		}
	}
	bad := func(name string, args map[string]any) {
		t.Helper()
		if res := call(r, name, args); res.Status != loop.StatusError || strings.Contains(res.Content, "hidden") || strings.Contains(res.Content, top) {
			t.Errorf("%s %v answers %+v", name, args, res)
		}
	}
	ok("write_file", map[string]any{"path": "/notes/a.txt", "text": "one\ntwo\n"}, "wrote 8 bytes")
	ok("read_file", map[string]any{"path": "notes/a.txt"}, "two")
	ok("list_dir", map[string]any{}, "notes")
	ok("list_dir", map[string]any{"path": "notes"}, "8 a.txt")
	ok("search", map[string]any{"pattern": "^t.o$"}, "notes/a.txt:2: two")
	ok("write_file", map[string]any{"path": "bin", "text": "\x00\x01"}, "wrote")
	ok("read_file", map[string]any{"path": "bin"}, base64.StdEncoding.EncodeToString([]byte{0, 1}))

	// Ways out.
	for link, target := range map[string]string{"up": "../secret", "abs": filepath.Join(top, "secret"), "dir": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../secret", "notes/../../secret", "up", "abs", "dir/secret", "pipe", "notes", "", "no\x00pe", "missing", "/../../../etc/passwd"} {
		bad("read_file", map[string]any{"path": path})
	}
	for _, path := range []string{"../x", "up", "dir/x", "pipe", "notes", "abs"} {
		bad("write_file", map[string]any{"path": path, "text": "x"})
	}
	bad("write_file", map[string]any{"path": "big", "text": strings.Repeat("x", 1<<19)})
	bad("write_file", map[string]any{"path": "a"})
	bad("list_dir", map[string]any{"path": "dir"})
	bad("search", map[string]any{"pattern": "("})
	bad("search", map[string]any{"pattern": ""})
	bad("read_file", map[string]any{"path": "bin", "more": 1})
	if res := call(r, "search", map[string]any{"pattern": "hidden"}); res.Status != loop.StatusOK || strings.Contains(res.Content, "hidden") {
		t.Errorf("a search left the folder: %+v", res)
	}
	if text, err := os.ReadFile(filepath.Join(top, "secret")); err != nil || string(text) != "hidden" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".playground-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestHost(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PLAYGROUND_TEST_SECRET", "hidden")
	r := registry(t, tool.Env{Workspace: dir}, tool.Host)
	if res := call(r, "bash", map[string]any{"command": "pwd; env; echo err >&2"}); res.Status != loop.StatusOK || !strings.Contains(res.Content, "exit 0") ||
		!strings.Contains(res.Content, dir) || !strings.Contains(res.Content, "--- stderr ---\nerr") || strings.Contains(res.Content, "hidden") {
		t.Errorf("answer is %+v", res)
	}
	if res := call(r, "bash", map[string]any{"command": "exit 3"}); res.Status != loop.StatusError || !strings.HasPrefix(res.Content, "exit 3") {
		t.Errorf("answer is %+v", res)
	}
	if res := call(r, "bash", map[string]any{"command": "yes | head -c 1000000"}); len(res.Content) > 40_000 || !strings.Contains(res.Content, "left out") {
		t.Errorf("answer has %d bytes", len(res.Content))
	}
	begin := time.Now()
	if res := call(r, "bash", map[string]any{"command": "sleep 600 & sleep 600", "timeout_ms": 100}); res.Status != loop.StatusError || time.Since(begin) > time.Minute {
		t.Errorf("answer is %+v after %s", res, time.Since(begin))
	}
	mark := fmt.Sprintf("8%d", os.Getpid())
	call(r, "bash", map[string]any{"command": "sleep " + mark + " >/dev/null 2>&1 & echo $!"})
	if out, _ := exec.Command("pgrep", "-f", "^sleep "+mark).Output(); len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
	for _, args := range []map[string]any{{}, {"command": " "}, {"command": "a\x00b"}, {"command": "id", "timeout_ms": -1}, {"command": "id", "timeout_ms": 1 << 40}, {"cmd": "id"}} {
		if res := call(r, "bash", args); res.Status != loop.StatusError || res.Code != tool.CodeInvalid {
			t.Errorf("%v answers %+v", args, res)
		}
	}
	call(r, "write", map[string]any{"path": "f", "text": "a b a"})
	if res := call(r, "edit", map[string]any{"path": "f", "old": "a", "new": "c"}); res.Status != loop.StatusError || !strings.Contains(res.Content, "2 times") {
		t.Errorf("answer is %+v", res)
	}
	call(r, "edit", map[string]any{"path": "f", "old": "a", "new": "c", "all": true})
	if res := call(r, "read", map[string]any{"path": "f"}); res.Content != "c b c" {
		t.Errorf("answer is %+v", res)
	}
}

func TestTenant(t *testing.T) {
	jails := &sandboxtest.Jails{Prefix: "pg"}
	jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
	t.Cleanup(jobs.Shutdown)
	r := registry(t, tool.Env{Sandbox: sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg"}), Tenant: "alice"}, tool.Tenant)
	if jails.Handles("alice") != 0 {
		t.Error("the session is open before a call")
	}
	if res := call(r, "exec", map[string]any{"command": "echo hi; echo no >&2; exit 2"}); res.Status != loop.StatusError || !strings.HasPrefix(res.Content, "exit 2") || !strings.Contains(res.Content, "hi") {
		t.Errorf("answer is %+v", res)
	}
	if res := call(r, "write", map[string]any{"path": "f", "text": "data"}); res.Status != loop.StatusOK {
		t.Errorf("answer is %+v", res)
	}
	if res := call(r, "read", map[string]any{"path": "f"}); res.Content != "data" {
		t.Errorf("answer is %+v", res)
	}
	for _, args := range []map[string]any{{"path": "f"}, {"path": "f", "text": "a", "base64": "YQ=="}, {"path": "f", "base64": "!"}} {
		if res := call(r, "write", args); res.Code != tool.CodeInvalid {
			t.Errorf("%v answers %+v", args, res)
		}
	}
	// No argument names another tenant.
	for _, extra := range []string{"tenant", "session"} {
		if res := call(r, "exec", map[string]any{"command": "id", extra: "pg-bob"}); res.Code != tool.CodeInvalid {
			t.Errorf("%s is taken: %+v", extra, res)
		}
	}
	for _, spec := range jobs.Specs() {
		if spec.Tenant != "alice" {
			t.Errorf("a command ran for %s", spec.Tenant)
		}
	}
	if jails.Handles("alice") != 1 {
		t.Errorf("%d handles", jails.Handles("alice"))
	}
	if err := r.Close(t.Context()); err != nil || jails.Handles("alice") != 0 {
		t.Errorf("after close %d handles, %v", jails.Handles("alice"), err)
	}
}

func FuzzPath(f *testing.F) {
	dir := f.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("hidden"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(inner, "up")); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"../secret", "up/secret", "a/../../secret", "//../secret", "./up/../secret"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := tool.New(tool.Env{DataDir: inner}, tool.Available(tool.Facts{Data: true}))
		if res := call(r, "read_file", map[string]any{"path": path}); strings.Contains(res.Content, "hidden") {
			t.Errorf("%q leads out: %+v", path, res)
		}
	})
}
