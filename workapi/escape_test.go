package workapi_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"playground/confine"
	"playground/confine/escape"
	"playground/fault"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/loop"
)

// Only the operator in person has the suite run, and says nothing of what it tries; no start carries a plan.
func TestEscape(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/work/escape"
	ran := 0
	var fails error
	w.escape = func(context.Context) (escape.Report, error) {
		ran++
		return escape.Report{Object: "escape_report", Shape: escape.SameUser, Missing: []string{"layer ipc"}, Rows: []escape.Row{
			{Shape: escape.SameUser, Row: 1, Attempt: confine.Attempt{Layer: confine.Root, Name: "open /etc/passwd", Expect: "ENOENT", Errno: "none"}},
		}}, fails
	}
	for _, header := range []string{workapi.ActorHeader, workapi.ProtocolHeader} {
		w.refused(403, "SCOPE_FORBIDDEN", "POST", path, "{}", header, bob)
		w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", path, "{}", header, workloop.EscapePrincipal)
		w.refused(400, "INVALID_QUERY", "POST", path, "{}", header, "")
	}
	for _, body := range []string{`{"shape":"same-user"}`, `{"plan":{}}`, `{"member":"bob"}`, `[]`, `{} {}`, ""} {
		w.refused(422, "INVALID_BODY", "POST", path, body)
	}
	w.refused(404, "NOT_FOUND", "POST", path+"/", "{}")
	for _, body := range []string{`{"goal":"x","escape":{}}`, `{"goal":"x","Escape":{"CPU":1}}`} {
		w.refused(422, "INVALID_BODY", "POST", "/v1/work/loop", body)
		w.refused(422, "INVALID_BODY", "POST", "/v1/work/loop/preview", body)
		w.refused(422, "INVALID_BODY", "POST", "/v1/actors/"+bob+"/runs", body)
	}
	w.refused(403, "RUN_ACTOR_NOT_COVERED", "POST", "/v1/work/loop", `{"goal":"x","principal":"`+workloop.EscapePrincipal+`"}`)
	if ran != 0 {
		t.Fatalf("it ran %d times", ran)
	}
	report, err := w.client.Escape(t.Context())
	if err != nil || ran != 1 || report.OK || len(report.Rows) != 1 || report.Rows[0].Errno != "none" || len(report.Missing) != 1 {
		t.Errorf("%+v, %v, ran %d", report, err, ran)
	}
	if _, err := w.client.As(operator).Escape(t.Context()); err != nil { // its own name is the operator too
		t.Error(err)
	}
	fails = fault.New(fault.Busy, "the escape suite is running already")
	if _, err := w.client.Escape(t.Context()); !is(err, fault.Exists, "CONFLICT") {
		t.Errorf("a second at once: %v", err)
	}
	fails = &loop.Refusal{Code: workloop.CodeIsolation, Status: 503, Message: "network (sees eth0)"}
	if e, ok := errors.AsType[*workapi.Error](second(w.client.Escape(t.Context()))); !ok || e.Code != workloop.CodeIsolation || e.Message != "network (sees eth0)" {
		t.Errorf("a worker that is not isolated: %v", e)
	}
}

// An instance without a suite says so.
func TestNoEscape(t *testing.T) {
	api := workapi.New(workapi.Options{Operator: operator})
	defer api.Close()
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/work/escape", strings.NewReader("{}")))
	if answer.Code != 501 || !strings.Contains(answer.Body.String(), "UNSUPPORTED") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func second[T any](_ T, err error) error { return err }
