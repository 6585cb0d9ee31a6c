package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// What the configuration says of runs holds for them: work.max_tokens bounds each answer, work.capacity the workers, work.data_dir
// and work.host_tools give the tools.
func TestConfigurationReachesRuns(t *testing.T) {
	c := config.Default("linux")
	c.Host.StateDir = t.TempDir()
	if err := os.MkdirAll(c.TransportDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Work.Provider, c.Work.Script, c.Work.MaxTokens = config.ProviderScripted, t.TempDir()+"/script.json", 16
	c.Work.Capacity, c.Work.DataDir, c.Work.HostTools = 3, t.TempDir(), true
	long := strings.Repeat("many words ", 100)
	if err := os.WriteFile(c.Work.Script, []byte(`[{"text":"`+long+`"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := openWork(t.Context(), c, workParts{logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	started, err := w.engine.Start(t.Context(), workloop.StartRequest{Goal: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var turn loop.TurnBody
	for one, err := range w.log.Watch(t.Context(), record.WatchQuery{Thread: started.Thread}) {
		if err != nil {
			t.Fatal(err)
		}
		if record.Kind(one) == loop.KindTurn {
			err = one.Decode(&turn)
		}
		if err != nil || turn.Model != "" {
			break
		}
	}
	if turn.OutputTokens != 16 {
		t.Errorf("the answer is %+v", turn)
	}
	health, err := w.engine.Health(t.Context())
	if err != nil || health.Capacity != 3 {
		t.Errorf("%+v, %v", health, err)
	}
	for _, tool := range w.engine.Tools() {
		if tool.ID == "host:bash" && !tool.Runnable || tool.ID == "read_file" && !tool.Runnable {
			t.Errorf("%+v", tool)
		}
	}
}

// A log that cannot be opened is an error with its reason. One that was tampered with is opened and told of: whoever wants to know
// what is wrong with it asks the daemon.
func TestDamagedLog(t *testing.T) {
	c := config.Default("linux")
	c.Host.StateDir = t.TempDir()
	if err := os.MkdirAll(c.TransportDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := openWork(t.Context(), c, workParts{logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]string{"text": "x"}
	if _, err := w.log.Append(t.Context(), record.Draft{Thread: record.NewThread(), Actor: "did:sync:user:a", Act: record.ActKnow, Body: body}); err != nil {
		t.Fatal(err)
	}
	w.close()
	if err := os.Remove(c.InstanceKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := makeKey(c.InstanceKey()); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if w, err = openWork(t.Context(), c, workParts{logger: zerolog.New(&log)}); err != nil {
		t.Fatalf("the daemon does not come up: %v", err)
	}
	defer w.close()
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), "damaged at sequence 1") || !strings.Contains(log.String(), "records verify") {
		t.Errorf("the log says %s", &log)
	}
	answer := httptest.NewRecorder()
	w.api.ServeHTTP(answer, httptest.NewRequest("POST", "/v1/records", strings.NewReader(`{"act":"KNOW","thread":"`+record.NewThread()+`","body":{"text":"y"}}`)))
	if answer.Code != 503 || !strings.Contains(answer.Body.String(), "damaged at sequence 1") || !strings.Contains(answer.Body.String(), "records verify") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	c.Host.StateDir = t.TempDir()
	if err := os.MkdirAll(c.Records(), 0o700); err != nil { // a folder where the log should be
		t.Fatal(err)
	}
	if _, err := makeKey(c.InstanceKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := openWork(t.Context(), c, workParts{logger: zerolog.Nop()}); err == nil || !strings.Contains(err.Error(), c.Records()) {
		t.Errorf("a folder as the log: %v", err)
	}
}
