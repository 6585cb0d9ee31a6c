package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"playground/workapi"
	"playground/workloop"
)

// The check that operators run, as the operator over the socket, and as a member over HTTP with an operator's token.
func TestVerifyWorkLoop(t *testing.T) {
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: examples/verify-work-loop.sh needs it", tool)
		}
	}
	h := startWork(t, `provider = "echo"`)
	tenant := h.tenant("bob")
	var minted struct{ Token string }
	h.must(&minted, "operator", "token", "create", "verification")
	for name, env := range map[string][]string{
		"operator": {"PLAYGROUND_SOCKET=" + filepath.Join(h.state, "run", "operator.sock")},
		"member":   {"PLAYGROUND_URL=http://" + h.listen, "PLAYGROUND_TOKEN=" + minted.Token, "PLAYGROUND_ACTOR=" + bob},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "../../examples/verify-work-loop.sh")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "not ok") || strings.Count(string(out), "\nok ") != 11 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if health, err := h.api.EngineHealth(t.Context(), false); err != nil || health.WorkLoop.Transport != "in_process" {
		t.Errorf("the check left the transport at %+v, %v", health.WorkLoop, err)
	}
	// The token counts as nothing for a tenant's service, and a tenant's token as nothing here.
	if got := h.ping(t, minted.Token); got != 401 {
		t.Errorf("/mcp answers an operator's token with %d", got)
	}
	for _, test := range []struct {
		token, path string
		want        int
	}{
		{"", "/v1/runs", 401}, {tenant, "/v1/runs", 401}, {minted.Token, "/v1/runs", 200}, {"", "/health", 200}, {"", "/health/ready", 200}, {"", "/v1/health", 401},
		// What belongs to the operator's socket is not on the network, whoever asks.
		{minted.Token, "/v1/users", 404}, {minted.Token, "/v1/status", 404}, {minted.Token, "/v1/operator/tokens", 404}, {minted.Token, "/metrics", 404}, {minted.Token, "/healthz", 404},
	} {
		if got := h.get(test.path, test.token); got != test.want {
			t.Errorf("%s with token %.4q: %d, want %d", test.path, test.token, got, test.want)
		}
	}
	stream := h.open("/v1/events/stream", minted.Token)
	h.must(nil, "operator", "token", "revoke", strings.Split(minted.Token, "_")[1])
	_, err := io.ReadAll(stream) // it ends with its token, not with the test
	if closeErr := stream.Close(); t.Context().Err() != nil {
		t.Errorf("the stream of a revoked token: %v, %v", err, closeErr)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "../../examples/verify-work-loop.sh")
	cmd.Env = append(os.Environ(), "PLAYGROUND_URL=http://"+h.listen, "PLAYGROUND_TOKEN="+minted.Token)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not ok 1 ") {
		t.Errorf("a revoked token: %v\n%s", err, out)
	}
	if v, err := h.api.Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("the log: %+v, %v", v, err)
	}
}

// Host tools are the operator's, in process: no member is given them, whatever it asks for, and no sandboxed run.
func TestHostTools(t *testing.T) {
	h := startWork(t, script(t, map[string][]map[string]any{
		"shell": {calls("bash", map[string]any{"command": "echo $((6*7)) > answer; cat answer"}), says("done")},
	})+"host_tools = true\n")
	h.tenant("bob")
	name := func(r *workloop.StartRequest) { r.Tools = []string{"bash"} }
	run := h.begin("", "shell", name)
	if row := h.ended(run.Thread, workloop.Done); row.Transport != "in_process" || row.ToolCallsOK != 1 {
		t.Errorf("%+v", row)
	}
	if results := h.bodies(run.Thread, "core.work.tool_result.v1"); len(results) != 1 || !strings.Contains(field(results[0], "content"), "42") {
		t.Errorf("results %v", results)
	}
	h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":"sandboxed"}`)
	h.config(`{"kind":"core.engine.config.v1","topic":"actor_tier","actor":"did:sync:user:bob","tier":"team"}`)
	h.config(`{"kind":"core.engine.config.v1","topic":"work_loop_transport_members","transport":"in_process"}`)
	for _, actor := range []string{"", bob} { // the operator sandboxed, a member in process
		started, err := h.api.As(actor).Start(t.Context(), workloop.StartRequest{Goal: "shell", Tools: []string{"bash"}})
		if err != nil {
			if e, ok := errors.AsType[*workapi.Error](err); !ok || e.Status != 403 {
				t.Errorf("%q: %v", actor, err)
			}
			continue
		}
		h.until(started.Thread, "outcome")
		for _, r := range h.bodies(started.Thread, "core.work.tool_verdict.v1") {
			if field(r, "decision") == "allow" {
				t.Errorf("%q was given a shell of the host: %s", actor, r.Body)
			}
		}
	}
}

// Without a provider all but a start works, and the start says what to do.
func TestNoProvider(t *testing.T) {
	h := startWork(t, "")
	h.config(`{"topic":"permission_rule","name":"r","expression":"true","action":"allow","priority":1,"enabled":true}`)
	if rules, err := h.api.Rules(t.Context()); err != nil || len(rules.Data) != 1 {
		t.Errorf("%+v, %v", rules, err)
	}
	_, err := h.api.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	if e, ok := errors.AsType[*workapi.Error](err); !ok || e.Code != "WORK_NO_PROVIDER" || e.Status != 503 || !strings.Contains(e.Message+e.Hint, "work.provider") {
		t.Errorf("start: %v", err)
	}
}

// A run that cannot be confined is refused, not started: nothing is written of it, and the log says why, as an error.
func TestNoConfinementNoRun(t *testing.T) {
	h := startWork(t, `provider = "echo"`)
	h.tenant("bob")
	h.stop()
	libexec := filepath.Join(h.state, "libexec") // all of the suite but the worker
	if err := os.Mkdir(libexec, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := os.ReadDir(h.bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if program.Name() == "playground-worker" {
			continue
		}
		if err := os.Symlink(filepath.Join(h.bin, program.Name()), filepath.Join(libexec, program.Name())); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(h.state, "playground.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(text), fmt.Sprintf("libexec_dir = %q", h.bin), fmt.Sprintf("libexec_dir = %q", libexec), 1))
	h.launch()
	before, err := h.api.EngineHealth(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.api.As(bob).Start(t.Context(), workloop.StartRequest{Goal: "x"})
	if e, ok := errors.AsType[*workapi.Error](err); !ok || e.Code != "WORK_ISOLATION_FAILED" || e.Status != 503 {
		t.Errorf("start: %v", err)
	}
	after, err := h.api.EngineHealth(t.Context(), false)
	if err != nil || after.Ingested != before.Ingested || after.WorkLoop.Available != before.WorkLoop.Available {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	log, err := os.ReadFile(filepath.Join(h.state, "log", "playgroundd.log"))
	found := slices.ContainsFunc(strings.Split(string(log), "\n"), func(line string) bool {
		return strings.Contains(line, `"level":"error"`) && strings.Contains(line, `"message":"isolation failed"`)
	})
	if err != nil || !found {
		t.Errorf("no error in the log (%v):\n%s", err, log)
	}
}
