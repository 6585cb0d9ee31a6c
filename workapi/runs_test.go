package workapi_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/loop"
)

func TestStart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	started, err := w.client.Start(ctx, workloop.StartRequest{Goal: "x"})
	if err != nil || started.Thread != thread("run") || started.Object != "work_loop" {
		t.Fatalf("%+v, %v", started, err)
	}
	if _, err := w.client.As(bob).Start(ctx, workloop.StartRequest{Goal: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Start(ctx, workloop.StartRequest{Goal: "x", Principal: bob, Actor: "did:sync:agent:helper"}); err != nil {
		t.Fatal(err)
	}
	status, answer := w.do("POST", "/v1/work/loop", `{"goal":"Record a note","max_turns":3,"budget_usd":0.05,"forbidden_tools":["bash"]}`, "X-Syncropel-Actor", bob)
	if status != 201 || answer["narrowed"] == nil {
		t.Errorf("%d %v", status, answer)
	}
	var who []string
	for _, one := range w.engine.starts {
		who = append(who, one.Principal+" "+one.Actor)
	}
	if diff := cmp.Diff([]string{operator + " ", bob + " ", bob + " did:sync:agent:helper", bob + " "}, who); diff != "" {
		t.Error(diff)
	}
	if last := w.engine.starts[3]; *last.MaxTurns != 3 || *last.BudgetUSD != 0.05 || last.Forbidden[0] != "bash" {
		t.Errorf("%+v", last)
	}
	status, answer = w.do("POST", "/v1/work/loop/preview", `{"goal":"x"}`, "X-Playground-Actor", bob)
	if status != 200 || answer["principal"] != bob || answer["object"] != "work_loop_preview" {
		t.Errorf("%d %v", status, answer)
	}
	for _, path := range []string{"/v1/work/loop", "/v1/work/loop/preview"} {
		w.refused(400, "MISSING_FIELD", "POST", path, `{}`)
		w.refused(400, "MISSING_FIELD", "POST", path, `{"goal":" \n"}`)
		w.refused(422, "INVALID_BODY", "POST", path, `{"goal":"x","max_turns":"3"}`)
		w.refused(422, "INVALID_BODY", "POST", path, `{"goal":"x","max_turn":3}`)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","principal":"did:sync:user:nobody"}`)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","principal":"did:sync:agent:helper"}`)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","principal":"did:sync:user:operator"}`, "X-Playground-Actor", bob)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","principal":"did:sync:user:carol"}`, "X-Playground-Actor", bob)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","actor":"did:sync:user:carol"}`, "X-Playground-Actor", bob)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x","actor":"did:sync:system:engine"}`)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, `{"goal":"x"}`, "X-Playground-Actor", "did:sync:user:../operator")
	}
	w.engine.err = &loop.Refusal{Code: "ADMISSION_CEILING", Status: 503, Message: "full", Extra: map[string]any{"admission_capacity": 16, "admission_available": 0}}
	status, answer = w.do("POST", "/v1/work/loop", `{"goal":"x"}`)
	if status != 503 || answer["code"] != "ADMISSION_CEILING" || answer["admission_capacity"] != float64(16) {
		t.Errorf("%d %v", status, answer)
	}
	w.engine.err = errors.New("cannot read /var/db/secret")
	if status, answer = w.do("POST", "/v1/work/loop", `{"goal":"x"}`); status != 500 || answer["code"] != "INTERNAL" || strings.Contains(answer["message"].(string), "secret") {
		t.Errorf("%d %v", status, answer)
	}
}

func TestActorsRuns(t *testing.T) {
	w := newWorld(t)
	w.engine.rows[thread("run")] = workloop.Row{Object: "run", Thread: thread("run"), Principal: bob}
	path := "/v1/actors/" + bob + "/runs"
	status, answer := w.do("POST", path, `{"goal":"x","source_thread":"`+thread("s")+`","max_turns":2,"model_override":"m"}`)
	if status != 201 || answer["object"] != "run" {
		t.Errorf("%d %v", status, answer)
	}
	if got := w.engine.starts[0]; got.Principal != bob || got.Actor != bob || got.SourceThread != thread("s") || got.Model != "m" || *got.MaxTurns != 2 {
		t.Errorf("%+v", got)
	}
	if status, _ := w.do("POST", "/v1/actors/did:sync:agent:helper/runs", `{"goal":"x"}`, "X-Playground-Actor", bob); status != 201 || w.engine.starts[1].Principal != bob {
		t.Errorf("%d %+v", status, w.engine.starts)
	}
	w.refused(400, "REPO_UNKNOWN", "POST", path, `{"goal":"x","repo":"r"}`)
	w.refused(422, "INVALID_DEFINITION", "POST", path, `{"goal":"x","definition":"r"}`)
	w.refused(422, "INVALID_BODY", "POST", path, `{"goal":"x","contract":{}}`)
	w.refused(422, "INVALID_BODY", "POST", path, `{"goal":"x","tools":["bash"]}`)
	w.refused(400, "MISSING_FIELD", "POST", path, `{"repo":null}`)
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", "/v1/actors/did:sync:user:nobody/runs", `{"goal":"x"}`)
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", "/v1/actors/"+operator+"/runs", `{"goal":"x"}`, "X-Playground-Actor", bob)
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", "/v1/actors/did:sync:system:engine/runs", `{"goal":"x"}`)
	status, answer = w.do("GET", path+"?limit=7&state=done", "")
	if status != 200 || answer["object"] != "run_list" || answer["actor"] != bob || answer["count"] != float64(0) || answer["truncated"] != true || answer["data"] == nil {
		t.Errorf("%d %v", status, answer)
	}
	if f := w.engine.filter; f.Actor != bob || f.Scan != 2000 || f.Limit != 7 || f.State != "done" {
		t.Errorf("%+v", f)
	}
	if usage, err := w.client.Usage(t.Context(), bob, "2026-01-02"); err != nil || usage.Principal != bob || usage.Day != "2026-01-02" {
		t.Errorf("%+v, %v", usage, err)
	}
	w.refused(400, "INVALID_QUERY", "GET", "/v1/actors/"+bob+"/usage?day=yesterday", "")
}

func TestRuns(t *testing.T) {
	w := newWorld(t)
	ctx, id := t.Context(), thread("run")
	w.engine.rows[id] = workloop.Row{Object: "run", Thread: id, State: workloop.Running, Principal: bob, Narrowed: []string{"read_file"}}
	if row, err := w.client.Run(ctx, id); err != nil || row.Thread != id {
		t.Errorf("%+v, %v", row, err)
	}
	if _, answer := w.do("GET", "/v1/runs/"+id+"/provenance", ""); answer["object"] != "run_provenance" || answer["thread"] != id {
		t.Errorf("%v", answer)
	}
	if status, answer := w.do("GET", "/v1/work/loop/"+id, ""); status != 200 || answer["state"] != "running" {
		t.Errorf("%d %v", status, answer)
	}
	for _, path := range []string{"/v1/runs/" + thread("none"), "/v1/runs/x/events", "/v1/runs/" + url.PathEscape("../x"), "/v1/work/loop/x", "/v1/work/loop/x/stream"} {
		w.refused(404, "NOT_FOUND", "GET", path, "")
	}
	for _, query := range []string{"state=dead", "limit=0", "limit=501", "limit=x", "since=noon"} {
		w.refused(400, "INVALID_QUERY", "GET", "/v1/runs?"+query, "")
	}
	list, err := w.client.Runs(ctx, workapi.RunFilter{State: "done", Actor: bob, Since: "2026-01-02T03:04:05Z", Limit: 9})
	if f := w.engine.filter; err != nil || !list.Truncated || f.State != "done" || f.Actor != bob || f.Since.IsZero() || f.Limit != 9 || f.Scan != 0 {
		t.Errorf("%+v, %v, %+v", list, err, f)
	}
	ack, err := w.client.Tell(ctx, id, workloop.Event{Type: "stop"})
	if err != nil || ack != (workapi.Ack{Object: "run_event", Thread: id, Type: "stop", Accepted: true}) {
		t.Errorf("%+v, %v", ack, err)
	}
	if status, _ := w.do("POST", "/v1/runs/"+id+"/events", `{"type":"message","text":"hello"}`, "X-Playground-Actor", bob); status != 202 {
		t.Errorf("status %d", status)
	}
	if status, answer := w.do("POST", "/v1/work/loop/"+id+"/cancel", ""); status != 202 || answer["type"] != "stop" {
		t.Errorf("%d %v", status, answer)
	}
	if e := w.engine.events; len(e) != 3 || e[0].Actor != operator || e[1].Actor != bob || e[1].Text != "hello" || e[2].Type != "stop" {
		t.Errorf("%+v", e)
	}
	events := "/v1/runs/" + id + "/events"
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", events, `{"type":"stop"}`, "X-Playground-Actor", "did:sync:user:carol")
	w.refused(422, "INVALID_BODY", "POST", events, `{"type":"explode"}`)
	w.refused(400, "MISSING_FIELD", "POST", events, `{}`)
	w.refused(400, "MISSING_FIELD", "POST", events, `{"type":"message","text":" "}`)
	w.refused(400, "MISSING_FIELD", "POST", events, `{"type":"decision"}`)
	w.refused(422, "INVALID_BODY", "POST", events, `{"type":"stop","force":true}`)
	w.engine.err = &loop.Refusal{Code: "RUN_ALREADY_ENDED", Status: 409, Message: "the run has ended"}
	w.refused(409, "RUN_ALREADY_ENDED", "POST", events, `{"type":"stop"}`)
}

func TestDecisions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if list, err := w.client.Decisions(ctx); err != nil || list.Data == nil {
		t.Errorf("%+v, %v", list, err)
	}
	w.engine.open = []workloop.OpenDecision{{Object: "decision_request", Thread: thread("run"), Principal: bob, Ask: workloop.Ask{RequestID: "q1", Question: "why?"}}}
	if list, err := w.client.Decisions(ctx); err != nil || len(list.Data) != 1 || list.Data[0].Question != "why?" {
		t.Errorf("%+v, %v", list, err)
	}
	decision, err := w.client.Decide(ctx, "q1", workapi.Answer{Decision: "yes", Value: json.RawMessage(`{"a":1}`), Policy: true})
	if err != nil || decision.RequestID != "q1" || !decision.Policy || string(decision.Value) != `{"a":1}` {
		t.Errorf("%+v, %v", decision, err)
	}
	if _, err := w.client.As(bob).Decide(ctx, "q1", workapi.Answer{Decision: "yes"}); err != nil {
		t.Errorf("its own question: %v", err)
	}
	if _, err := w.client.As("did:sync:user:carol").Decide(ctx, "q1", workapi.Answer{Decision: "yes"}); !is(err, fault.NotFound, "NOT_FOUND") {
		t.Errorf("another's question: %v", err)
	}
	w.refused(400, "MISSING_FIELD", "POST", "/v1/decisions/q1/decide", `{"reason":"x"}`)
	w.refused(422, "INVALID_BODY", "POST", "/v1/decisions/q1/decide", `{"decision":"x","why":1}`)
}

func TestInstance(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.append(work(thread("a"), "core.work.note.v1", nil))
	h, err := w.client.EngineHealth(ctx, true)
	if err != nil || h.Ingested != 1 || !h.Intelligence || h.WorkLoop.Available != 15 || h.Version != "1.2" || h.ExpressionCache == nil {
		t.Errorf("%+v, %v", h, err)
	}
	status, answer := w.do("GET", "/v1/engine/health", "")
	loop, _ := answer["work_loop"].(map[string]any)
	if status != 200 || loop["member_transport"] != "sandboxed" || answer["version"] != nil {
		t.Errorf("%d %v", status, answer)
	}
	if stats, err := w.client.ExpressionStats(ctx); err != nil || stats.Capacity != 64 {
		t.Errorf("%+v, %v", stats, err)
	}
	if v, err := w.client.Verify(ctx); err != nil || !v.OK || v.Records != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if tools, err := w.client.Tools(ctx); err != nil || len(tools.Data) != 1 {
		t.Errorf("%+v, %v", tools, err)
	}
	if tool, err := w.client.Tool(ctx, "record_note"); err != nil || !tool.Runnable {
		t.Errorf("%+v, %v", tool, err)
	}
	if _, err := w.client.Tool(ctx, "x"); !is(err, fault.NotFound, "NOT_FOUND") {
		t.Errorf("%v", err)
	}
	if status, answer := w.do("GET", "/health", ""); status != 200 || answer["status"] != "ok" || answer["version"] != nil {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := w.do("GET", "/v1/health", ""); status != 200 || len(answer["deciders"].([]any)) != 6 {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := w.do("GET", "/health/ready", ""); status != 503 || strings.Contains(answer["message"].(string), "secret") {
		t.Errorf("%d %v", status, answer)
	}
	// Everything else is a 404 in the same form, the doors of workers first of all.
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/users", "/v1/runs/", "/v1//runs", "/v1/x/../runs", "/metrics", "/mcp"} {
		w.refused(404, "NOT_FOUND", "GET", path, "")
	}
	for _, path := range []string{"/v1/work/tool-verdict", "/v1/work/tool-call", "/v1/broker/messages", "/v1/runs", "/v1/records/" + thread("x")} {
		w.refused(404, "NOT_FOUND", "POST", path, "{}")
	}
	for path, want := range map[string]bool{"/v1/records": true, "/v1/runs/x": true, "/v1/engine/x": true, "/health": true, "/v1/users": false, "/v1/status": false, "/healthz": false, "/v1/operator/tokens": false} {
		if w.api.Owns(path) != want {
			t.Errorf("Owns(%s) is %v", path, !want)
		}
	}
}

// A body that is announced small, or not at all, is bounded all the same.
func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	large := `{"goal":"` + strings.Repeat("x", 8<<10) + `"}`
	w.refused(413, "TOO_LARGE", "POST", "/v1/work/loop", large)
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://local/v1/work/loop", io.MultiReader(strings.NewReader(large)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.http.Do(r) // chunked: its length is not known
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a body without a length: %d", resp.StatusCode)
	}
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "GET", "/v1/runs", "", "X-Playground-Actor", "did:sync:user:nobody")
}

func TestClientWithoutDaemon(t *testing.T) {
	c := workapi.NewClient(filepath.Join(t.TempDir(), "operator.sock"))
	if _, err := c.EngineHealth(t.Context(), false); !errors.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), "playground up") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	for _, err := range c.RunEvents(t.Context(), thread("x"), false, 0) {
		if !errors.Is(err, fault.Unavailable) {
			t.Errorf("stream: %v", err)
		}
	}
}
