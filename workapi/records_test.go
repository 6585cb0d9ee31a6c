package workapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"playground/fault"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

func TestRecords(t *testing.T) {
	w := newWorld(t)
	id, ctx := thread("records"), t.Context()
	clock := int64(7)
	in := workapi.NewRecord{Act: record.ActKnow, Thread: id, Body: json.RawMessage(`{"text":"a<b"}`), Clock: &clock}
	first, err := w.client.WriteRecord(ctx, in)
	if err != nil || first.Actor != operator || first.Clock != 7 || first.Sequence != 1 || first.DataType != record.Scalar {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := w.client.WriteRecord(ctx, in); err != nil || again.ID != first.ID || again.Sequence != first.Sequence {
		t.Errorf("the same record again: %+v, %v", again, err)
	}
	in.Body = json.RawMessage(`{"text":"other"}`)
	if _, err := w.client.WriteRecord(ctx, in); !is(err, fault.Exists, "CLOCK_CONFLICT") || fault.HintOf(err) == "" {
		t.Errorf("a used clock: %v", err)
	}
	in.Clock, in.Parents = nil, []string{first.ID}
	second, err := w.client.WriteRecord(ctx, in)
	if err != nil || second.Clock != 8 || len(second.Parents) != 1 {
		t.Errorf("without a clock: %+v, %v", second, err)
	}
	if got, err := w.client.Record(ctx, second.ID); err != nil || got.ID != second.ID || string(got.Body) != `{"text":"other"}` {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.client.Record(ctx, "nonsense"); !is(err, fault.NotFound, "NOT_FOUND") {
		t.Errorf("an id that is none: %v", err)
	}
	list, err := w.client.Records(ctx, workapi.RecordFilter{Thread: id, Limit: 1})
	if err != nil || len(list.Data) != 1 || !list.HasMore || list.NextAfter != first.Sequence {
		t.Errorf("%+v, %v", list, err)
	}
	list, err = w.client.Records(ctx, workapi.RecordFilter{Thread: id, Limit: 1, After: list.NextAfter})
	if err != nil || len(list.Data) != 1 || list.HasMore || list.Data[0].ID != second.ID {
		t.Errorf("%+v, %v", list, err)
	}
	low, high := int64(8), int64(8)
	if list, err = w.client.Records(ctx, workapi.RecordFilter{ClockMin: &low, ClockMax: &high}); err != nil || len(list.Data) != 1 || list.Data[0].ID != second.ID {
		t.Errorf("clock window: %+v, %v", list, err)
	}
	if list, err = w.client.Records(ctx, workapi.RecordFilter{Since: 1}); err != nil || len(list.Data) != 2 {
		t.Errorf("since: %+v, %v", list, err)
	}
	page, err := w.client.Query(ctx, record.Query{Thread: id, Filter: json.RawMessage(`{"body.text":"other"}`)})
	if err != nil || page.MatchedTotal != 1 || page.Data[0].ID != second.ID {
		t.Errorf("query: %+v, %v", page, err)
	}
	status, answer := w.do("POST", "/v1/records/query", `{"filter":{"act":"KNOW"},"sort":{"clock":-1},"limit":1,"explain":true}`)
	data, _ := answer["data"].([]any)
	if status != 200 || answer["object"] != "list" || answer["capped"] != true || len(data) != 1 || answer["plan"] == nil {
		t.Errorf("%d %v", status, answer)
	}
	if one, _ := data[0].(map[string]any); one["object"] != "record" || one["clock"] != float64(8) {
		t.Errorf("%v", one)
	}
}

func TestRecordsAreRefused(t *testing.T) {
	w := newWorld(t)
	id := thread("refused")
	good := func(change string) string {
		return strings.Replace(fmt.Sprintf(`{"act":"KNOW","thread":%q,"body":{"x":1}}`, id), `"body"`, change+`"body"`, 1)
	}
	for _, test := range []struct {
		status     int
		code, body string
		header     []string
	}{
		{422, "INVALID_BODY", ``, nil},
		{422, "INVALID_BODY", `[]`, nil},
		{422, "INVALID_BODY", `{"act":`, nil},
		{422, "INVALID_BODY", good(`"sequence":1,`), nil},
		{422, "INVALID_BODY", good("") + good(""), nil},
		{422, "INVALID_BODY", strings.Replace(good(""), "KNOW", "SHOUT", 1), nil},
		{422, "INVALID_BODY", strings.Replace(good(""), id, "th_short", 1), nil},
		{422, "INVALID_BODY", strings.Replace(good(""), `{"x":1}`, `[1]`, 1), nil},
		{422, "INVALID_BODY", good(`"clock":-1,`), nil},
		{422, "INVALID_BODY", good(`"parents":["` + strings.Repeat("0", 64) + `"],`), nil},
		{400, "MISSING_FIELD", `{"act":"KNOW","body":{}}`, nil},
		{400, "MISSING_FIELD", `{"thread":"x","body":{}}`, nil},
		{400, "MISSING_FIELD", `{"act":"KNOW","thread":"x"}`, nil},
		{413, "TOO_LARGE", good(`"data_type":"` + strings.Repeat("x", 5000) + `",`), nil},
		{403, "RUN_ACTOR_NOT_COVERED", good(""), []string{"X-Playground-Actor", "did:sync:user:nobody"}},
		{403, "RUN_ACTOR_NOT_COVERED", good(""), []string{"X-Syncropel-Actor", "did:sync:system:engine"}},
		{400, "INVALID_QUERY", good(""), []string{"X-Playground-Actor", ""}},
		{400, "INVALID_QUERY", good(""), []string{"X-Playground-Actor", bob, "X-Syncropel-Actor", operator}},
		{403, "SCOPE_FORBIDDEN", good(`"actor":"did:sync:user:carol",`), []string{"X-Playground-Actor", bob}},
		{403, "WRITE_KIND_NOT_ADMITTED", good(`"actor":"did:sync:system:engine",`), nil},
	} {
		w.refused(test.status, test.code, "POST", "/v1/records", test.body, test.header...)
	}
	// What the kernel says is the kernel's alone, under every name.
	for _, kind := range []string{"core.work.tool_verdict.v1", "core.work.loop_outcome.v1", "core.work.loop.v1", "core.work.tool_call.v1", "core.work.tool_result.v1"} {
		for _, actor := range []string{operator, bob, "did:sync:agent:x", record.EngineDID} {
			w.refused(403, "WRITE_KIND_NOT_ADMITTED", "POST", "/v1/records",
				fmt.Sprintf(`{"act":"KNOW","actor":%q,"thread":%q,"body":{"kind":%q}}`, actor, id, kind))
		}
		w.refused(403, "WRITE_KIND_NOT_ADMITTED", "POST", "/v1/records", // a second spelling of a member is no way around
			fmt.Sprintf(`{"act":"KNOW","thread":%q,"body":{"k\u0069nd":%q}}`, id, kind))
	}
	if threads, err := w.client.Threads(t.Context(), 0, 0); err != nil || len(threads.Data) != 0 {
		t.Errorf("something was written: %+v, %v", threads, err)
	}
}

func TestConfiguration(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	config := func(body string) workapi.NewRecord {
		return workapi.NewRecord{Act: record.ActLearn, Actor: record.EngineDID, Thread: record.ConfigThread, Body: json.RawMessage(body)}
	}
	for _, body := range []string{
		`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":"sandboxed"}`,
		`{"topic":"permission_rule","name":"low","expression":"true","action":"allow","priority":1,"enabled":true}`,
		`{"topic":"permission_rule","name":"b","expression":"resource == \"tool:bash\"","action":"deny","priority":5,"enabled":true}`,
		`{"topic":"permission_rule","name":"a","expression":"false","action":"allow","priority":5,"enabled":true}`,
		`{"topic":"permission_rule","name":"low","expression":"true","action":"allow","priority":9,"enabled":false}`,
	} {
		if _, err := w.client.WriteRecord(ctx, config(body)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	if _, err := w.client.As(bob).WriteRecord(ctx, workapi.NewRecord{Act: record.ActLearn, Thread: record.ConfigThread, Body: json.RawMessage(`{"topic":"x"}`)}); !is(err, fault.Denied, "CONFIG_WRITE_DENIED") {
		t.Errorf("a member writes configuration: %v", err)
	}
	for body, want := range map[string]string{
		`{"topic":"permission_rule","name":"x","expression":"resource ==","action":"deny","priority":1,"enabled":true}`: "INVALID_BODY",
		`{"topic":"permission_rule","name":"x","expression":"true","action":"ask","priority":1,"enabled":true}`:         "INVALID_BODY",
		`{"topic":"permissions_enabled","enabled":true}`:                                                                "UNSUPPORTED",
		`{"topic":"auth_required","enabled":false}`:                                                                     "UNSUPPORTED",
		`{"topic":"run_code","enabled":true}`:                                                                           "UNSUPPORTED",
		`{"kind":"core.permission_rule.v1","name":"x","expression":"true","action":"deny"}`:                             "INVALID_BODY",
	} {
		if _, err := w.client.WriteRecord(ctx, config(body)); !is(err, fault.Invalid, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	highest := config(`{"text":"x"}`)
	highest.Clock = new(int64(record.MaxClock))
	if _, err := w.client.WriteRecord(ctx, highest); !is(err, fault.Invalid, "INVALID_BODY") {
		t.Errorf("the engine's clock was used up: %v", err)
	}
	rules, err := w.client.Rules(ctx)
	if err != nil || len(rules.Data) != 3 || rules.PermissionsEnabled || rules.ToolGuard != "on" {
		t.Fatalf("%+v, %v", rules, err)
	}
	var order []string
	for _, rule := range rules.Data {
		order = append(order, fmt.Sprint(rule.Name, rule.Enabled))
		if rule.Record == "" || rule.Sequence == 0 {
			t.Errorf("%+v", rule)
		}
	}
	if got := strings.Join(order, " "); got != "btrue atrue lowfalse" {
		t.Errorf("rules in the order %s", got)
	}
}

func TestThreads(t *testing.T) {
	w := newWorld(t)
	ctx, one, two := t.Context(), thread("one"), thread("two")
	opened := w.append(record.Draft{Thread: one, Actor: bob, Act: record.ActIntend, Body: map[string]any{"goal": "x"}})
	w.append(record.Draft{Thread: two, Actor: operator, Act: record.ActIntend, Body: map[string]any{"source_thread": one}, Parents: []string{opened[0].ID}},
		record.Draft{Thread: two, Actor: bob, Act: record.ActKnow, Body: map[string]any{"source_thread": 7}})
	list, err := w.client.Threads(ctx, 0, 1)
	if err != nil || len(list.Data) != 1 || !list.HasMore || list.Data[0].ID != one || list.Data[0].Object != "thread" {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err = w.client.Threads(ctx, list.NextAfter, 0); err != nil || len(list.Data) != 1 || list.HasMore || list.Data[0].ID != two {
		t.Errorf("%+v, %v", list, err)
	}
	if got, err := w.client.Thread(ctx, two); err != nil || got.Records != 2 || len(got.Participants) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, missing := range []string{thread("none"), "th_x", "..", "%2e%2e"} {
		w.refused(404, "NOT_FOUND", "GET", "/v1/threads/"+url.PathEscape(missing), "")
		w.refused(404, "NOT_FOUND", "GET", "/v1/threads/"+url.PathEscape(missing)+"/records", "")
	}
	records, err := w.client.ThreadRecords(ctx, two, 0, 0)
	if err != nil || len(records.Data) != 2 || records.HasMore {
		t.Errorf("%+v, %v", records, err)
	}
	if records, err = w.client.ThreadRecords(ctx, two, records.Data[0].Sequence, 1); err != nil || len(records.Data) != 1 || records.HasMore {
		t.Errorf("%+v, %v", records, err)
	}
	if _, state := w.do("GET", "/v1/threads/"+one+"/state", ""); state["state"] != "open" || state["last_clock"] != float64(0) || state["object"] != "thread_state" {
		t.Errorf("%v", state)
	}
	for path, want := range map[string]string{one + "/children": two, two + "/parents": one, one + "/parents": "", two + "/children": ""} {
		status, answer := w.do("GET", "/v1/threads/"+path, "")
		data, _ := answer["data"].([]any)
		got := ""
		if len(data) == 1 {
			got, _ = data[0].(map[string]any)["id"].(string)
		}
		if status != 200 || got != want || data == nil {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if _, answer := w.do("GET", "/v1/threads/"+two+"/participants", ""); len(answer["data"].([]any)) != 2 {
		t.Errorf("%v", answer)
	}
}

// A refusal names what is wrong and, where there is one, the next step.
func TestRefusalsSayWhatToDo(t *testing.T) {
	w := newWorld(t)
	id := thread("hints")
	for _, test := range []struct {
		status                               int
		code, method, path, body, text, hint string
	}{
		{422, "INVALID_BODY", "POST", "/v1/work/loop", `{"goal":"x","budget":1}`, `there is no field "budget"`, "budget_usd"},
		{422, "INVALID_BODY", "POST", "/v1/records", `{"act":"KNOW","thread":"` + id + `","body":{},"colck":1}`, `there is no field "colck"`, "act, actor, thread, body, clock"},
		{422, "INVALID_BODY", "POST", "/v1/records/query", `{"where":{}}`, `there is no field "where"`, "filter"},
		{422, "INVALID_BODY", "POST", "/v1/records", `[]`, "a JSON array, not a JSON object", ""},
		{422, "INVALID_BODY", "POST", "/v1/work/loop", `"x"`, "a JSON string, not a JSON object", ""},
		{422, "INVALID_BODY", "POST", "/v1/work/loop", `{"goal":1}`, `field "goal" cannot hold a JSON number`, ""},
		{404, "NOT_FOUND", "GET", "/v1/work/loop", "", `GET "/v1/work/loop"`, "this path takes POST"},
		{404, "NOT_FOUND", "PUT", "/v1/records", "{}", `PUT "/v1/records"`, "this path takes GET, POST"},
		{404, "NOT_FOUND", "DELETE", "/v1/runs/" + id, "", "DELETE", "this path takes GET"},
		{404, "NOT_FOUND", "GET", "/v1/recordz", "", `GET "/v1/recordz"`, ""},
		{403, "NAMESPACE_REJECTED", "POST", "/v1/records", `{"act":"KNOW","thread":"` + id + `","body":{"namespace":"../etc"}}`, "is not a namespace", "leave it out"},
		{404, "NOT_FOUND", "GET", "/v1/threads/" + id, "", "no thread", "playground thread list"},
		{404, "NOT_FOUND", "GET", "/v1/records/" + strings.Repeat("0", 64), "", "no record", ""},
		{422, "INVALID_BODY", "GET", "/v1/actors/bob/runs", "", `"bob" is not a DID`, "did:sync:user:NAME"},
		{422, "INVALID_BODY", "GET", "/v1/actors/bob/usage", "", `"bob" is not a DID`, "did:sync:user:NAME"},
	} {
		w.refused(test.status, test.code, test.method, test.path, test.body)
		_, answer := w.do(test.method, test.path, test.body)
		message, _ := answer["message"].(string)
		hint, _ := answer["hint"].(string)
		if !strings.Contains(message, test.text) || !strings.Contains(hint, test.hint) || (hint == "") != (test.hint == "") {
			t.Errorf("%s %s %s: message %q, hint %q, want %q and %q", test.method, test.path, test.body, message, hint, test.text, test.hint)
		}
	}
}

// A member writes on threads of its own runs and of nobody's, and not on those of another's runs, which a record could seem to end.
func TestForeignThreads(t *testing.T) {
	w := newWorld(t)
	id := thread("carols run")
	anchor := w.append(work(id, workloop.KindLoop, nil))[0].ID
	w.engine.rows[id] = workloop.Row{Thread: id, State: workloop.Running, Principal: "did:sync:user:carol"}
	for _, body := range []string{`{"cancels":"` + anchor + `"}`, `{"text":"x"}`} {
		write := fmt.Sprintf(`{"act":"DO","thread":%q,"body":%s}`, id, body)
		w.refused(403, "SCOPE_FORBIDDEN", "POST", "/v1/records", write, "X-Playground-Actor", bob)
	}
	for _, actor := range []string{"did:sync:user:carol", operator} {
		if status, answer := w.do("POST", "/v1/records", fmt.Sprintf(`{"act":"KNOW","thread":%q,"body":{"text":"x"}}`, id), "X-Playground-Actor", actor); status != 201 {
			t.Errorf("%s: %d %v", actor, status, answer)
		}
	}
	if status, answer := w.do("POST", "/v1/records", fmt.Sprintf(`{"act":"KNOW","thread":%q,"body":{"text":"x"}}`, thread("nobodys")), "X-Playground-Actor", bob); status != 201 {
		t.Errorf("%d %v", status, answer)
	}
}

// A setting that nobody reads is not taken: whoever wrote it would wait for it in vain.
func TestUnreadConfiguration(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string][]string{
		`{"kind":"core.engine.config.v1","topic":"work_loop_transports","transport":"sandboxed"}`: {`"work_loop_transports"`, "work_loop_transport_members"},
		`{"kind":"core.engine.config.v1","transport":"sandboxed"}`:                                {"topic", "work_loop_transport_members"},
		`{"kind":"core.engine.config.v1","topic":7}`:                                              {"topic", ""},
	} {
		status, answer := w.do("POST", "/v1/records", `{"act":"LEARN","actor":"`+record.EngineDID+`","thread":"th_engine_config","body":`+body+`}`)
		if status != 422 || !strings.Contains(fmt.Sprint(answer["message"]), want[0]) || !strings.Contains(fmt.Sprint(answer["hint"]), want[1]) {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	for _, body := range []string{
		`{"kind":"core.engine.config.v1","topic":"work_loop_transport_members","transport":"sandboxed"}`, `{"kind":"core.engine.config.v1","topic":"run_code","enabled":false}`,
		`{"kind":"core.engine.config.v1","topic":"permission_rule","name":"x","expression":"true","action":"deny"}`, `{"topic":"of my own"}`, `{"kind":"my.own.thing"}`,
	} {
		if status, answer := w.do("POST", "/v1/records", `{"act":"LEARN","thread":"th_engine_config","body":`+body+`}`); status != 201 {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
}
