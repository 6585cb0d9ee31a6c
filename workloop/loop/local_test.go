package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/record"
	"playground/workloop/loop"
)

// result runs one call and returns its result as it is recorded.
func result(t *testing.T, k *kernel, tool, args string) loop.ToolResultBody {
	t.Helper()
	k.model = script(callsTools(toolCall{tool, args}), says("x"))
	run(t, spec(), k)
	results := bodies[loop.ToolResultBody](t, k, loop.KindToolResult)
	if len(results) != 1 {
		t.Fatalf("results %+v", results)
	}
	return results[0]
}

func TestLocalArguments(t *testing.T) {
	for _, tt := range []struct{ tool, args, want string }{
		{"record_note", `{}`, "Not run: text is empty."},
		{"record_note", `{"text":" \n"}`, "Not run: text is empty."},
		{"record_note", `{"text":7}`, "Not run: cannot unmarshal number"},
		{"record_note", `{"text":"a","thread":"x"}`, `Not run: unknown field "thread".`},
		{"record_note", fmt.Sprintf(`{"text":%q}`, strings.Repeat("a", 65537)), "Not run: text has 65537 bytes and may have 65536."},
		{"record_note", `["a"]`, "Not run: the arguments are not a JSON object."},
		{"record_note", `{"text":"a"`, "Not run: the arguments are not a JSON object that can be read"},
		{"record_note", `{"text":"a","text":"b"}`, "Not run: the arguments are not a JSON object that can be read"},
		{"query_thread", `{}`, "Not run: thread is missing."},
		{"query_thread", `{"thread":"t","fields":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, "Not run: fields has 17 names and may have 16."},
		{"read_record", `{"thread":"t"}`, "Not run: clock is missing."},
		{"read_record", `{"thread":"t","clock":1.5}`, "Not run: cannot unmarshal number"},
	} {
		got := result(t, &kernel{}, tt.tool, tt.args)
		if got.Status != loop.StatusError || got.Code != "input_invalid" || !strings.HasPrefix(got.Content, tt.want) {
			t.Errorf("%s %.60s: %+v, want %q", tt.tool, tt.args, got, tt.want)
		}
	}
}

func TestQueryThread(t *testing.T) {
	k := &kernel{query: func(q record.Query) (record.Page, error) {
		if q.Thread != other || string(q.Filter) != `{"act":"KNOW"}` {
			t.Errorf("query %+v", q)
		}
		return record.Page{MatchedTotal: 3, Data: []record.Record{
			{ID: "a1", Thread: other, Actor: actor, Act: record.ActKnow, Clock: 4, Body: json.RawMessage(`{"kind":"core.work.note.v1","text":"two\nlines","turn_index":1}`)},
			{ID: "a2", Thread: other, Actor: actor, Act: record.ActKnow, Clock: 5, Body: json.RawMessage(`{"kind":"k","n":{"deep":[1,2]},"zeta":1,"alpha":2}`)},
		}}, nil
	}}
	got := result(t, k, "query_thread", `{"thread":"`+other+`","filter":{"act":"KNOW"},"fields":["n","nothing"]}`)
	want := "thread " + other + ": 3 records\n" +
		"4 KNOW did:sync:user:ada core.work.note.v1 two lines +fields: turn_index\n" +
		`5 KNOW did:sync:user:ada k n={"deep":[1,2]} +fields: alpha,zeta` + "\n" +
		`2 of 3 records are shown. Ask with a filter for less, such as {"clock":{"$gt":N}}.`
	if diff := cmp.Diff(want, got.Content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	var data struct {
		Thread       string
		Total, Shown int
		Truncated    bool
		Records      []struct{ ID, Kind string }
	}
	if err := json.Unmarshal(got.Data, &data); err != nil || data.Thread != other || data.Total != 3 || data.Shown != 2 || !data.Truncated || data.Records[0].ID != "a1" || data.Records[1].Kind != "k" {
		t.Errorf("data %s %v", got.Data, err)
	}
}

func TestCountOnly(t *testing.T) {
	k := &kernel{query: func(q record.Query) (record.Page, error) {
		return record.Page{MatchedTotal: 12, Capped: true, Data: []record.Record{{ID: "a1", Thread: other, Body: json.RawMessage(`{}`)}}}, nil
	}}
	got := result(t, k, "query_thread", `{"thread":"`+other+`","count_only":true}`)
	if got.Content != "thread "+other+": 12 records" || !strings.Contains(string(got.Data), `"total":12,"shown":0`) {
		t.Errorf("%+v %s", got, got.Data)
	}
}

// Many and long records stay within what a model is shown.
func TestQueryBounds(t *testing.T) {
	k := &kernel{query: func(q record.Query) (record.Page, error) {
		page := record.Page{MatchedTotal: 5000}
		for i := range q.Limit {
			body, _ := json.Marshal(map[string]string{"kind": "k", "text": strings.Repeat("\x1b[2J", 9000), "x\x07" + strings.Repeat("y", 900): "z"})
			page.Data = append(page.Data, record.Record{ID: fmt.Sprint(i), Thread: other, Actor: actor, Body: body})
		}
		return page, nil
	}}
	got := result(t, k, "query_thread", `{"thread":"`+other+`","fields":["text"]}`)
	if len(got.Content) > loop.MaxContent+100 || strings.ContainsAny(got.Content, "\x1b\x07") {
		t.Errorf("%d bytes", len(got.Content))
	}
}

func TestReadRecord(t *testing.T) {
	k := &kernel{query: func(q record.Query) (record.Page, error) {
		if string(q.Filter) != `{"clock":4}` || q.Thread != other {
			t.Errorf("query %+v", q)
		}
		return record.Page{MatchedTotal: 1, Data: []record.Record{{ID: "a1", Thread: other, Actor: actor, Act: record.ActKnow, Clock: 4, Body: json.RawMessage(`{"kind":"k"}`)}}}, nil
	}}
	got := result(t, k, "read_record", `{"thread":"`+other+`","clock":4}`)
	if !strings.HasPrefix(got.Content, "version: a1\n{") || !strings.Contains(got.Content, `"body":{"kind":"k"}`) {
		t.Errorf("content %q", got.Content)
	}
	got = result(t, &kernel{}, "read_record", `{"thread":"`+other+`","clock":4}`)
	if got.Status != loop.StatusOK || got.Content != "There is no record with clock 4 on thread "+other+"." {
		t.Errorf("%+v", got)
	}
}
