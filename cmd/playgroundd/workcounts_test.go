package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"playground/config"
	"playground/fault"
	"playground/record"
	"playground/workloop"
)

func TestWorkCounts(t *testing.T) {
	counts := newWorkCounts()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counts.records, counts.outcomes, counts.verdicts, counts.cost)
	for _, one := range []struct{ actor, body string }{
		{record.EngineDID, `{"kind":"core.work.loop_outcome.v1","outcome":"completed","transport":"sandboxed","spent_usd":0.5}`},
		{record.EngineDID, `{"kind":"core.work.loop_outcome.v1","outcome":"awaiting_actor","transport":"sandboxed","spent_usd":0.1}`},
		{"did:sync:user:bob", `{"kind":"core.work.loop_outcome.v1","outcome":"x","transport":"y","spent_usd":9}`},
		{record.EngineDID, `{"kind":"core.work.tool_verdict.v1","decision":"deny","layer":"rule"}`},
		{"did:sync:user:bob", `{"kind":"made.up.by.client"}`},
		{"did:sync:user:bob", `{}`},
	} {
		counts.count(record.Record{Actor: one.actor, Body: json.RawMessage(one.body)})
	}
	want := map[string]float64{
		"playground_model_cost_usd_total":                    0.5,
		"playground_records_total core.work.loop_outcome.v1": 3, "playground_records_total core.work.tool_verdict.v1": 1, "playground_records_total other": 2,
		"playground_runs_total completed sandboxed": 1, "playground_tool_verdicts_total deny rule": 1,
	}
	if diff := cmp.Diff(want, gathered(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// gathered returns the values of counters by name and labels.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = metric.GetCounter().GetValue()
		}
	}
	return all
}

func TestNotices(t *testing.T) {
	var log bytes.Buffer
	n := notices{zerolog.New(&log), newWorkCounts()}
	n.take(workloop.Notice{Event: workloop.NoticeSandboxed, Thread: "th_1", Principal: "p", PID: 7, Layers: []string{"user", "network"}})
	n.take(workloop.Notice{Event: workloop.NoticeIsolation, Thread: "th_2", Err: errors.New("layer network")})
	n.take(workloop.Notice{Event: workloop.NoticeRule, Rule: "broken"})
	n.take(workloop.Notice{Event: workloop.NoticeError, Thread: "th_3", Err: fault.New(fault.Denied, "the key is refused").WithHint("write another")})
	for _, want := range []string{
		`{"level":"info","thread":"th_1","principal":"p","pid":7,"layers":["user","network"],"message":"running sandboxed"}`,
		`{"level":"error","thread":"th_2","error":"layer network","message":"isolation failed"}`,
		`{"level":"warn","rule":"broken","message":"rule skipped"}`,
		`{"level":"error","thread":"th_3","error":"the key is refused","hint":"write another","message":"run error"}`,
	} {
		if !strings.Contains(log.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, &log)
		}
	}
}

// A start without a provider is refused with what to do, whatever the engine calls it.
func TestNoProviderSaysWhatToDo(t *testing.T) {
	var log bytes.Buffer
	l, err := record.Open(t.TempDir()+"/records.db", record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	engine, err := workloop.New(t.Context(), workloop.Options{Log: l, Rules: newRules(), Operator: "did:sync:user:operator"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(context.Background())
	counts := newWorkCounts()
	_, err = countedEngine{engine, zerolog.New(&log), counts}.Start(t.Context(), workloop.StartRequest{Goal: "a secret goal"})
	if err == nil || !strings.Contains(err.Error(), workloop.CodeNoProvider) {
		t.Errorf("started: %v", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(counts.refused)
	if got := gathered(t, registry)["playground_run_starts_refused_total WORK_NO_PROVIDER"]; got != 1 {
		t.Errorf("%v refusals are counted", got)
	}
	if !strings.Contains(log.String(), `"code":"WORK_NO_PROVIDER"`) || strings.Contains(log.String(), "secret") {
		t.Errorf("the log says %s", &log)
	}
}

// A key that cannot be read is told with the configuration key that names its file, and what the file must be.
func TestMissingKeyFile(t *testing.T) {
	missing := t.TempDir() + "/key"
	_, err := newProvider(config.Work{Provider: config.ProviderAnthropic, Model: "m", KeyFile: missing})
	if hint := fault.HintOf(err); err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(hint, "work.key_file") || !strings.Contains(hint, "0600") {
		t.Errorf("%v, hint %q", err, hint)
	}
	if err := os.WriteFile(missing, []byte("secret"), 0o644); err != nil { // what says more keeps its own hint
		t.Fatal(err)
	}
	if _, err = newProvider(config.Work{Provider: config.ProviderAnthropic, Model: "m", KeyFile: missing}); !strings.Contains(fault.HintOf(err), "chmod 600") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}
