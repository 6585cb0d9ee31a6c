package workapi_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"playground/policy"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// Whatever a body holds, the answer has the form of the API, is not the server's fault, and leaves no word of the kernel's in the
// log.
func FuzzBodies(f *testing.F) {
	rules := policy.New(16)
	log, err := record.Open(filepath.Join(f.TempDir(), "records.db"), record.Options{Check: workloop.Check(rules)})
	if err != nil {
		f.Fatal(err)
	}
	defer log.Close()
	api := workapi.New(workapi.Options{Log: log, Engine: &fakeEngine{rows: map[string]workloop.Row{}}, Rules: rules, Operator: operator,
		Tenant: func(context.Context, string) (bool, error) { return false, nil }})
	defer api.Close()
	id := thread("fuzz")
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `"x"`, `{"goal":"x"}`, `{"filter":{"$or":[{"body.x":{"$in":[1,"a",null]}}]},"sort":{"clock":-1}}`, `{"filter":[],"limit":-1}`,
		`{"act":"KNOW","thread":"` + id + `","body":{"kind":"core.work.loop_outcome.v1"}}`,
		`{"act":"KNOW","thread":"` + id + `","body":{"kind":"a.b.c","KIND":"core.work.loop.v1","n":1e400}}`,
		`{"act":"KNOW","thread":"` + id + `","Act":"DO","body":{"kind":"core.work.tool_verdict.v1 "},"clock":9007199254740993}`,
		`{"act":"LEARN","thread":"th_engine_config","body":{"topic":"permission_rule","name":"x","expression":"((((","action":"deny"}}`,
		`{"decision":"x","provided_value":{"a":[]}}`, `{"type":"message","text":"\ud800"}`,
	} {
		for i := range 4 {
			f.Add(i, seed)
		}
	}
	routes := []string{"/v1/records", "/v1/records/query", "/v1/work/loop", "/v1/decisions/q/decide"}
	f.Fuzz(func(t *testing.T, route int, body string) {
		if route < 0 || route >= len(routes) {
			return
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("POST", routes[route], strings.NewReader(body)))
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 500 || answer["object"] == nil || (w.Code >= 400) != (answer["object"] == "error") {
			t.Fatalf("%s %q: %d %q", routes[route], body, w.Code, w.Body)
		}
		if route != 0 || w.Code != 201 {
			return
		}
		written, err := log.Get(t.Context(), answer["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if kind := record.Kind(written); kind == workloop.KindOutcome || kind == workloop.KindToolVerdict || kind == workloop.KindLoop {
			t.Errorf("%q wrote a record of kind %s", body, kind)
		}
		if written.Actor == record.EngineDID && written.Thread != record.ConfigThread {
			t.Errorf("%q wrote as the kernel", body)
		}
	})
}
