package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"playground/confine"
	"playground/confine/escape"
	"playground/workapi"
	"playground/workloop"
)

// leastRows is how many attempts the suite makes at least on a suite like these.
const leastRows = 350

// The escape suite of a release, in the shape that this test's user can have: every attempt is made, and every one fails as it must.
func TestEscape(t *testing.T) {
	h := startWork(t, `provider = "echo"`)
	tenant := h.tenant("bob")
	other := h.begin(bob, "Say something.").Thread
	h.ended(other, workloop.Done)
	before, err := h.api.EngineHealth(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var report escape.Report
	h.must(&report, "escape")
	shape := escape.SameUser
	if os.Geteuid() == 0 {
		shape = escape.RootDaemon
	}
	if !report.OK || report.Shape != shape || len(report.Missing) != 0 || len(report.Rows) < leastRows {
		t.Errorf("shape %s, %d rows, ok %v, missing %q", report.Shape, len(report.Rows), report.OK, report.Missing)
	}
	for i, r := range report.Rows {
		if !r.Pass || r.Row != i+1 || r.Shape != shape || r.Expect != "" && r.Errno == "" {
			t.Errorf("row %d: %+v", i+1, r)
		}
	}
	h.reachesFor(t, report, other)
	// What the command says is what the log has, and the log is whole.
	rows := 0
	for _, thread := range report.Threads {
		for _, note := range h.bodies(thread, "core.work.note.v1") {
			if _, ok := escape.RowOf(field(note, "text")); ok && note.Actor == workloop.EscapePrincipal {
				rows++
			}
		}
		if outcomes := h.bodies(thread, "core.work.loop_outcome.v1"); len(outcomes) != 1 || field(outcomes[0], "transport") != "sandboxed" {
			t.Errorf("outcomes of %s: %v", thread, outcomes)
		}
	}
	if used := len(escape.UseUps()); rows != len(report.Rows)-used || len(report.Threads) != 1+used {
		t.Errorf("%d rows in the log and %d threads, of %d rows", rows, len(report.Threads), len(report.Rows))
	}
	if v, err := h.api.Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("the log: %+v, %v", v, err)
	}
	after, err := h.api.EngineHealth(t.Context(), false)
	if err != nil || after.WorkLoop.Available != before.WorkLoop.Available {
		t.Errorf("slots: before %+v, after %+v, %v", before.WorkLoop, after.WorkLoop, err)
	}
	h.table(t, report)
	h.operatorOnly(t, tenant)
	for _, p := range family(h.up.Process.Pid) {
		if strings.HasPrefix(p.name, "playground-work") {
			t.Errorf("a worker is left: %+v", p)
		}
	}
}

// reachesFor looks whether what is worth most was tried.
func (h *workHost) reachesFor(t *testing.T, report escape.Report, other string) {
	t.Helper()
	for _, what := range []string{
		fmt.Sprintf("trace process %d", h.daemonPid("playgroundd")),
		fmt.Sprintf("send SIGTERM to process %d", h.daemonPid("playground-reaperd")),
		fmt.Sprintf("open /proc/%d/environ", h.daemonPid("playground-jaild")),
		"connect to 127.0.0.1:" + h.listen[strings.LastIndex(h.listen, ":")+1:],
		"connect to " + filepath.Join(h.state, "run", "operator.sock"), "find the socket " + filepath.Join(h.state, "run", "reaperd.sock"),
		"open " + filepath.Join(h.state, "playground.toml"), "open " + filepath.Join(h.state, "data", "playgroundd", "records.db"),
		"open " + filepath.Join(h.state, "data", "playgroundd", "instance.key"), "list " + filepath.Join(h.state, "data"), "open /etc/passwd",
		"with the credential of an ended run: /v1/records", "no such door: POST /v1/work/escape", "write core.work.loop_outcome.v1", "write to the thread " + other, "read the thread " + other,
		"use up: cpu", "use up: memory", "use up: threads",
	} {
		if !slices.ContainsFunc(report.Rows, func(r escape.Row) bool { return r.Name == what }) {
			t.Errorf("nobody tried to %s", what)
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"pgw_", "pgo_", "Bearer"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the report has %q in it", secret)
		}
	}
}

// table looks at what a person and a stream get.
func (h *workHost) table(t *testing.T, report escape.Report) {
	t.Helper()
	out, errs, status := h.playground("escape")
	last := fmt.Sprintf("\n%s: %d attempts, 0 red, 0 missing\n", report.Shape, len(report.Rows)) // a run more or less changes no row's number
	if status != 0 || !strings.HasPrefix(out, "ROW ") || !strings.HasSuffix(out, last) || strings.Contains(out, "RED") {
		t.Errorf("status %d, %s\n%s", status, errs, out)
	}
	out, errs, status = h.playground("escape", "-o", "stream-json")
	lines := slices.Collect(strings.Lines(out))
	var row escape.Row
	if status != 0 || len(lines) != len(report.Rows) || json.Unmarshal([]byte(lines[0]), &row) != nil || row.Row != 1 {
		t.Errorf("status %d, %s, %d lines, the first is %+v", status, errs, len(lines), row)
	}
}

// operatorOnly asks for the suite as others would, and for more than it gives.
func (h *workHost) operatorOnly(t *testing.T, tenant string) {
	t.Helper()
	var minted struct{ Token string }
	h.must(&minted, "operator", "token", "create", "escape")
	for _, test := range []struct {
		token, actor, path, body string
		want                     int
	}{
		{"", "", "/v1/work/escape", "{}", 401},
		{tenant, "", "/v1/work/escape", "{}", 401},
		{minted.Token, bob, "/v1/work/escape", "{}", 403},
		{minted.Token, workloop.EscapePrincipal, "/v1/work/escape", "{}", 403},
		{minted.Token, "", "/v1/work/escape", `{"plan":{"files":["/etc/passwd"]}}`, 422},
		{minted.Token, "", "/v1/work/loop", `{"goal":"x","escape":{"shape":"same-user"}}`, 422},
		{minted.Token, "", "/v1/work/loop", `{"goal":"x","principal":"` + workloop.EscapePrincipal + `"}`, 403},
		{minted.Token, "", "/v1/work/escape", "{}", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.listen+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		if test.actor != "" {
			r.Header.Set(workapi.ActorHeader, test.actor)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != test.want {
			t.Errorf("%s %s for %q: %s, want %d", test.path, test.body, test.actor, response.Status, test.want)
		}
		_ = response.Body.Close() // the status says it
	}
}

// weakPrograms are the programs with a playground-reaperd and a worker that can leave out a layer, in a folder of their own.
func weakPrograms(t *testing.T) string {
	t.Helper()
	from, dir := programs(t), t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"playground", "playgroundd", "playground-jaild", "playground-facultyd", "playground-supervise"} {
		text, err := os.ReadFile(filepath.Join(from, name)) // a program looks for the others where it lies itself
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"playground-reaperd", "playground-worker"} {
		cmd := exec.Command("go", "build", "-tags", "weaken", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "playground/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// A layer that does not hold turns its rows red and the command's status to 1; one that is looked at refuses the start, and the command
// names it.
func TestEscapeWeakened(t *testing.T) {
	bin := weakPrograms(t)
	const layer = confine.Network
	t.Run("unverified", func(t *testing.T) {
		t.Setenv("PLAYGROUND_WEAKEN", string(layer))
		h := startWorkOf(t, bin, "")
		out, errs, status := h.playground("escape", "-o", "json")
		var report escape.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil || status != 1 || report.OK {
			t.Fatalf("status %d, ok %v, %v, %s", status, report.OK, err, errs)
		}
		red := slices.DeleteFunc(slices.Clone(report.Rows), func(r escape.Row) bool { return r.Pass })
		if len(red) == 0 || len(report.Rows) < leastRows || len(report.Missing) != 0 {
			t.Errorf("%d of %d rows are red, missing %q", len(red), len(report.Rows), report.Missing)
		}
		for _, r := range red {
			if r.Layer != layer {
				t.Errorf("red is %+v", r)
			}
		}
		if out, _, status := h.playground("escape"); status != 1 || !strings.Contains(out, "\nRED  network ") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
	t.Run("verified", func(t *testing.T) {
		t.Setenv("PLAYGROUND_WEAKEN", string(layer)+"+verify")
		h := startWorkOf(t, bin, "")
		out, errs, status := h.playground("escape")
		if status != 1 || out != "" || !strings.Contains(errs, "the worker is not isolated: network (") {
			t.Errorf("status %d, %q, %q", status, out, errs)
		}
	})
}
