package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decode reads the one line in b without its time, which it checks.
func decode(t *testing.T, b *bytes.Buffer) map[string]any {
	t.Helper()
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatalf("log line %q: %v", b, err)
	}
	at, err := time.Parse(time.RFC3339, line["time"].(string))
	if err != nil || time.Since(at) > time.Minute {
		t.Errorf("time = %v, %v", line["time"], err)
	}
	delete(line, "time")
	return line
}

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	logger, err := Logger(&b, "warn", "playground-test")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info().Msg("quiet")
	logger.Warn().Int("n", 1).Msg("loud")
	want := map[string]any{"level": "warn", "component": "playground-test", "n": 1.0, "message": "loud"}
	if diff := cmp.Diff(want, decode(t, &b)); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	for _, level := range []string{"", "loud", "trace", "fatal", "disabled", "99"} {
		if _, err := Logger(&b, level, "x"); err == nil || !strings.Contains(err.Error(), "must be debug") {
			t.Errorf("Logger(%q) = %v", level, err)
		}
	}
}

func TestSecurity(t *testing.T) {
	var b bytes.Buffer
	logger, err := Logger(&b, "error", "playgroundd")
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(0)
	Security(logger).Record(Denied, SecurityFields{Tenant: "alice", TokenID: "ab12", Remote: "192.0.2.1:5", UID: &uid, Action: "POST /mcp", Reason: "token revoked"})
	want := map[string]any{"level": "info", "component": "playgroundd", "security": true, "tenant": "alice", "token_id": "ab12",
		"remote": "192.0.2.1:5", "uid": 0.0, "action": "POST /mcp", "reason": "token revoked", "message": "denied"}
	if diff := cmp.Diff(want, decode(t, &b)); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	b.Reset()
	Security(logger).Record(Started, SecurityFields{})
	want = map[string]any{"level": "info", "component": "playgroundd", "security": true, "message": "started"}
	if diff := cmp.Diff(want, decode(t, &b)); diff != "" {
		t.Errorf("line without fields (-want +got):\n%s", diff)
	}
}
