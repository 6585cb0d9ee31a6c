package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A lost proof that was recorded before a restart: nothing starts, the transport does not serve, the operator is told what
// to type, and that helps.
func TestLostProofSurvivesARestart(t *testing.T) {
	h := start(t)
	token := h.tenant("ada")
	h.stop()
	write(t, filepath.Join(h.state, "data", "lost-proof.json"),
		`{"since":"2026-11-29T12:00:00Z","tenant":"ada","pids":[{"pid":4711,"start":1}],"unknown":true,"reason":"a test"}`)
	h.launchUntil("The suite does not serve yet")
	if !strings.Contains(h.output.String(), "playground ack") && !strings.Contains(h.output.String(), " ack\n") {
		t.Errorf("up does not say what to type:\n%s", h.output)
	}
	log, err := os.ReadFile(filepath.Join(h.state, "log", "playgroundd.log"))
	if err != nil || !strings.Contains(string(log), "4711") {
		t.Errorf("the log does not name the process (%v):\n%s", err, log)
	}
	out, stderr, status := h.playground("ack")
	if status != 0 || !strings.Contains(out, "4711") {
		t.Fatalf("ack: status %d, %s%s", status, out, stderr)
	}
	h.waitFor("playgroundd is ready again", 60*time.Second)
	c := h.connect(token)
	c.ok(nil, "exec", map[string]any{"session": c.open(), "command": "true"})
	if out, _, _ := h.playground("ack"); !strings.Contains(out, "nothing to acknowledge") {
		t.Errorf("a second ack says %q", out)
	}
}
