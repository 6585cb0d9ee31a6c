package doors_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/inference"
	"playground/record"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

const (
	own    = "th_1111111111111111111111111111111111111111111111111111111111111111"
	given  = "th_2222222222222222222222222222222222222222222222222222222222222222"
	other  = "th_3333333333333333333333333333333333333333333333333333333333333333"
	id     = "00000000000000000000000000000000000000000000000000000000000000aa"
	bearer = "pg_run_secret"
)

// A kernel notes what reaches it.
type kernel struct {
	reached  []any
	verdict  loop.Verdict
	result   loop.Result
	page     record.Page
	complete func(ctx context.Context) (loop.Completion, error)
	err      error
}

func (k *kernel) Propose(_ context.Context, p loop.Proposal) (loop.Verdict, error) {
	k.reached = append(k.reached, p)
	return k.verdict, k.err
}

func (k *kernel) Call(_ context.Context, call string) (loop.Result, error) {
	k.reached = append(k.reached, call)
	return k.result, k.err
}

func (k *kernel) Append(_ context.Context, e loop.Entry) (string, error) {
	k.reached = append(k.reached, e)
	return id, k.err
}

func (k *kernel) Query(_ context.Context, q record.Query) (record.Page, error) {
	k.reached = append(k.reached, q)
	return k.page, k.err
}

func (k *kernel) Complete(ctx context.Context, r inference.Request) (loop.Completion, error) {
	k.reached = append(k.reached, r)
	if k.complete != nil {
		return k.complete(ctx)
	}
	return loop.Completion{}, k.err
}

// A seam is a served connection.
type seam struct {
	conn  net.Conn // the worker's end
	ended atomic.Bool
	in    *bufio.Reader
}

// serve serves k on one end of a connection until the test ends.
func serve(t *testing.T, k loop.Kernel) *seam {
	t.Helper()
	worker, daemon := net.Pipe()
	s := &seam{conn: worker, in: bufio.NewReader(worker)}
	bounds := doors.Bounds{Thread: own, Reads: []string{given}, Kinds: []string{loop.KindTurn, loop.KindToolResult, loop.KindNote, loop.KindObservation, loop.KindGuardrail, loop.KindCoercion}}
	handler := doors.NewHandler(func(got string) (loop.Kernel, doors.Bounds, bool) {
		return k, bounds, got == bearer && !s.ended.Load()
	})
	done := make(chan error, 1)
	go func() { done <- doors.Serve(t.Context(), daemon, handler) }()
	t.Cleanup(func() {
		_ = worker.Close()
		if err := <-done; err != nil && t.Context().Err() == nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// raw sends bytes and returns the answer's status and body.
func (s *seam) raw(t *testing.T, request string) (int, string) {
	t.Helper()
	go func() { _, _ = io.WriteString(s.conn, request) }()
	response, err := http.ReadResponse(s.in, &http.Request{Method: strings.Fields(request)[0]})
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// post sends a body to a door with the run's bearer and returns the status and the code.
func (s *seam) post(t *testing.T, door, body string) (int, string) {
	t.Helper()
	status, answer := s.raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", door, bearer, len(body), body))
	var refusal struct{ Object, Code string }
	if err := json.Unmarshal([]byte(answer), &refusal); err != nil || (status != 200 && refusal.Object != "error") {
		t.Fatalf("%s: answer %q", door, answer)
	}
	return status, refusal.Code
}

// Only five request lines are doors, and everything else is not there, with the right bearer too.
func TestRequestLine(t *testing.T) {
	for _, line := range []string{
		"GET /v1/records HTTP/1.1", "PUT /v1/records HTTP/1.1", "post /v1/records HTTP/1.1", "HEAD /v1/records HTTP/1.1", "OPTIONS /v1/records HTTP/1.1", "OPTIONS * HTTP/1.1",
		"DELETE /v1/records HTTP/1.1", "CONNECT /v1/records HTTP/1.1", "CONNECT d:80 HTTP/1.1", "TRACE /v1/records HTTP/1.1",
		"POST /v1/records/ HTTP/1.1", "POST //v1/records HTTP/1.1", "POST /v1//records HTTP/1.1", "POST /v1/./records HTTP/1.1", "POST /v1/x/../records HTTP/1.1",
		"POST /v1/records? HTTP/1.1", "POST /v1/records?x=1 HTTP/1.1", "POST /v1/records%3Fx HTTP/1.1", "POST /v1/%72ecords HTTP/1.1", "POST /v1%2Frecords HTTP/1.1", "POST /v1/records;x HTTP/1.1",
		"POST /V1/records HTTP/1.1", "POST /v1/Records HTTP/1.1", "POST /v1/records%00 HTTP/1.1", "POST http://d/v1/records HTTP/1.1", "POST /v1/records# HTTP/1.1",
		"POST /v1/records HTTP/1.0", "POST / HTTP/1.1", "POST /v1 HTTP/1.1", "POST /v1/broker/ HTTP/1.1", "POST /v1/broker/keys HTTP/1.1", "POST /v1/work/loop HTTP/1.1", "POST /v1/threads HTTP/1.1",
		"POST /v1/runs/" + own + "/events HTTP/1.1", "GET /v1/engine/health HTTP/1.1", "GET /health HTTP/1.1", "GET /metrics HTTP/1.1", "POST /v1/records/" + id + " HTTP/1.1",
	} {
		k := &kernel{}
		status, body := serve(t, k).raw(t, line+"\r\nHost: d\r\nAuthorization: Bearer "+bearer+"\r\nContent-Length: 0\r\n\r\n")
		if status != 404 || (!strings.HasPrefix(line, "HEAD") && !strings.Contains(body, `"code":"NOT_FOUND"`)) || len(k.reached) > 0 {
			t.Errorf("%s: %d %s, reached %v", line, status, body, k.reached)
		}
	}
}

// What is not one whole HTTP request ends the connection, and nothing of it reaches the kernel.
func TestMalformedRequests(t *testing.T) {
	head := "POST /v1/work/tool-call HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + bearer + "\r\n"
	body := `{"call":"` + id + `"}`
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"chunked", head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), 411},
		{"chunked and length", head + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n", len(body)) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), 411},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + body, 400},
		{"negative length", head + "Content-Length: -1\r\n\r\n", 400},
		{"odd length", head + "Content-Length: +5\r\n\r\n" + body, 400},
		{"odd coding", head + "Transfer-Encoding: gzip\r\n\r\n" + body, 501},
		{"no host", strings.Replace(head, "Host: d\r\n", "", 1) + "Content-Length: 0\r\n\r\n", 400},
		{"large header", head + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"bare line", "hello\r\n\r\n", 400},
		{"later version", strings.Replace(head, "HTTP/1.1", "HTTP/3.0", 1) + "Content-Length: 0\r\n\r\n", 505},
		{"space in header", head + "Content-Length : 5\r\n\r\n" + body, 400},
		{"too large", head + "Content-Length: 100000\r\n\r\n", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{}
			status, answer := serve(t, k).raw(t, tt.request)
			if status != tt.status || len(k.reached) > 0 {
				t.Errorf("%d %s, want %d; reached %v", status, answer, tt.status, k.reached)
			}
		})
	}
}

// Two requests in one write are answered one after the other, the second by its own merits.
func TestPipelining(t *testing.T) {
	k := &kernel{result: loop.Result{Status: "ok"}}
	s := serve(t, k)
	body := `{"call":"` + id + `"}`
	one := fmt.Sprintf("POST /v1/work/tool-call HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", bearer, len(body), body)
	first, _ := s.raw(t, one+"POST /v1/work/tool-call HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\n\r\n{}")
	response, err := http.ReadResponse(s.in, nil)
	if err != nil || first != 200 || response.StatusCode != 401 || len(k.reached) != 1 {
		t.Errorf("%d, %+v, %v, reached %d", first, response, err, len(k.reached))
	}
}

func TestBearer(t *testing.T) {
	k := &kernel{}
	s := serve(t, k)
	for _, header := range []string{
		"", "Authorization: \r\n", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n", "Authorization: " + bearer + "\r\n", "Authorization: Basic " + bearer + "\r\n",
		"Authorization: Bearer " + bearer + "x\r\n", "Authorization: Bearer " + bearer[:5] + "\r\n", "Authorization: Bearer " + bearer + ", Bearer x\r\n",
		"Authorization: Bearer " + bearer + "\r\nAuthorization: Bearer " + bearer + "\r\n", "Authorization: Bearer  " + bearer + "\r\n", "Cookie: " + bearer + "\r\n", "X-Api-Key: " + bearer + "\r\n",
	} {
		status, body := s.raw(t, "POST /v1/records HTTP/1.1\r\nHost: d\r\n"+header+"Content-Length: 2\r\n\r\n{}")
		if status != 401 || !strings.Contains(body, `"code":"AUTH_REQUIRED"`) || len(k.reached) > 0 {
			t.Errorf("%q: %d %s", header, status, body)
		}
	}
	if status, code := s.post(t, doors.DoorRecords, `{}`); status != 422 || code != loop.CodeInvalidBody {
		t.Errorf("with the bearer: %d %s", status, code)
	}
}

// The credential of a run that has ended is worth nothing, on the connection where it was good before too.
func TestReplay(t *testing.T) {
	k := &kernel{}
	s := serve(t, k)
	note := `{"body":{"kind":"core.work.note.v1","text":"n"}}`
	if status, _ := s.post(t, doors.DoorRecords, note); status != 200 {
		t.Fatalf("before the end: %d", status)
	}
	s.ended.Store(true)
	for _, door := range []string{doors.DoorVerdict, doors.DoorCall, doors.DoorRecords, doors.DoorQuery, doors.DoorMessages} {
		if status, code := s.post(t, door, note); status != 401 || code != loop.CodeAuthRequired {
			t.Errorf("%s after the end: %d %s", door, status, code)
		}
	}
	if len(k.reached) != 1 {
		t.Errorf("reached %v", k.reached)
	}
}

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       loop.Entry
	}{
		{"kind in the body", `{"act":"KNOW","thread":"` + own + `","body":{"kind":"core.work.note.v1","text":"n","turn_index":2}}`, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "n", TurnIndex: 2}}},
		{"kind beside it", `{"kind":"core.work.turn.v1","body":{"model":"m"}}`, loop.Entry{Kind: loop.KindTurn, Act: record.ActDo, Body: loop.TurnBody{Model: "m"}}},
		{"both", `{"kind":"core.work.note.v1","body":{"kind":"core.work.note.v1","text":"n"}}`, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "n"}}},
		{"result", `{"kind":"core.work.tool_result.v1","body":{"fulfills":"` + id + `","tool":"t","status":"ok","content":"c","data":{"b":1,"a":2}}}`,
			loop.Entry{Kind: loop.KindToolResult, Act: record.ActKnow, Body: loop.ToolResultBody{Fulfills: id, Tool: "t", Status: "ok", Content: "c", Data: json.RawMessage(`{"b":1,"a":2}`)}}},
	} {
		k := &kernel{}
		status, code := serve(t, k).post(t, doors.DoorRecords, tt.body)
		if diff := cmp.Diff([]any{tt.want}, k.reached); status != 200 || diff != "" {
			t.Errorf("%s: %d %s (-want +got):\n%s", tt.name, status, code, diff)
		}
	}
}

// What a run must not write never reaches the kernel.
func TestAppendAttacks(t *testing.T) {
	note := func(more string) string {
		return `{"act":"KNOW","body":{"kind":"core.work.note.v1","text":"n"` + more + `}}`
	}
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"verdict", `{"act":"KNOW","body":{"kind":"core.work.tool_verdict.v1","decision":"allow"}}`, 403, loop.CodeKindNotAdmitted},
		{"outcome", `{"act":"KNOW","thread":"` + own + `","body":{"kind":"core.work.loop_outcome.v1","outcome":"completed","success":true}}`, 403, loop.CodeKindNotAdmitted},
		{"call", `{"kind":"core.work.tool_call.v1","body":{}}`, 403, loop.CodeKindNotAdmitted},
		{"anchor", `{"act":"INTEND","body":{"kind":"core.work.loop.v1"}}`, 403, loop.CodeKindNotAdmitted},
		{"cancel", `{"act":"DO","body":{"kind":"core.work.loop_cancel.v1","cancels":"` + id + `"}}`, 403, loop.CodeKindNotAdmitted},
		{"decision request", `{"body":{"kind":"core.work.decision_request.v1"}}`, 403, loop.CodeKindNotAdmitted},
		{"config", `{"act":"LEARN","body":{"kind":"core.engine.config.v1","topic":"permission_rule"}}`, 403, loop.CodeKindNotAdmitted},
		{"old name", `{"body":{"kind":"core.agent.note.v1","text":"n"}}`, 403, loop.CodeKindNotAdmitted},
		{"no kind", `{"body":{"text":"n"}}`, 403, loop.CodeKindNotAdmitted},
		{"kind is no text", `{"body":{"kind":["core.work.note.v1"],"text":"n"}}`, 403, loop.CodeKindNotAdmitted},
		{"two kinds", `{"kind":"core.work.note.v1","body":{"kind":"core.work.loop_outcome.v1","text":"n"}}`, 403, loop.CodeKindNotAdmitted},
		{"kind in another case", `{"Kind":"core.work.note.v1","body":{"text":"n"}}`, 422, loop.CodeInvalidBody},
		{"kind twice", `{"body":{"kind":"core.work.note.v1","kind":"core.work.loop_outcome.v1","text":"n"}}`, 400, loop.CodeInvalidBody},
		{"kind twice, escaped", `{"body":{"kind":"core.work.note.v1","\u006bind":"core.work.loop_outcome.v1","text":"n"}}`, 400, loop.CodeInvalidBody},
		{"body twice", `{"body":{"kind":"core.work.note.v1","text":"n"},"body":{"kind":"core.work.loop_outcome.v1"}}`, 400, loop.CodeInvalidBody},
		{"body in another case", `{"body":{"kind":"core.work.note.v1","text":"n"},"Body":{"kind":"core.work.loop_outcome.v1"}}`, 422, loop.CodeInvalidBody},
		{"kind smuggled", note(`,"Kind":"core.work.loop_outcome.v1"`), 422, loop.CodeInvalidBody},
		{"kind smuggled by folding", note(`,"\u212aind":"core.work.loop_outcome.v1"`), 422, loop.CodeInvalidBody},
		{"text in another case", note(`,"Text":"m"`), 422, loop.CodeInvalidBody},
		{"closes the thread", note(`,"fulfills":"` + id + `"`), 422, loop.CodeInvalidBody},
		{"cancels", note(`,"cancels":"` + id + `"`), 422, loop.CodeInvalidBody},
		{"rejects", note(`,"verdict":"reject"`), 422, loop.CodeInvalidBody},
		{"rejects by guardrail", `{"body":{"kind":"core.work.guardrail.v1","verdict":"reject","tool":"t"}}`, 422, loop.CodeInvalidBody},
		{"namespace", note(`,"namespace":"prod"`), 422, loop.CodeInvalidBody},
		{"topic", note(`,"topic":"work_loop_transport"`), 422, loop.CodeInvalidBody},
		{"other thread", `{"thread":"` + other + `","body":{"kind":"core.work.note.v1","text":"n"}}`, 403, loop.CodeScopeForbidden},
		{"readable thread", `{"thread":"` + given + `","body":{"kind":"core.work.note.v1","text":"n"}}`, 403, loop.CodeScopeForbidden},
		{"config thread", `{"thread":"th_engine_config","body":{"kind":"core.work.note.v1","text":"n"}}`, 403, loop.CodeScopeForbidden},
		{"engine as author", `{"actor":"did:sync:system:engine","body":{"kind":"core.work.note.v1","text":"n"}}`, 403, loop.CodeScopeForbidden},
		{"another author", `{"actor":"did:sync:user:eve","body":{"kind":"core.work.loop_outcome.v1"}}`, 403, loop.CodeScopeForbidden},
		{"no author", `{"actor":null,"body":{"kind":"core.work.note.v1","text":"n"}}`, 403, loop.CodeScopeForbidden},
		{"author in another case", `{"Actor":"did:sync:system:engine","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"clock", `{"clock":0,"body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"parents", `{"parents":["` + id + `"],"body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"data type", `{"data_type":"MORPHISM","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"judged by", `{"judged_by":"` + id + `","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"id", `{"id":"` + id + `","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"opens a thread", `{"act":"INTEND","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"config act", `{"act":"LEARN","body":{"kind":"core.work.note.v1","text":"n"}}`, 422, loop.CodeInvalidBody},
		{"denied result", `{"body":{"kind":"core.work.tool_result.v1","fulfills":"` + id + `","status":"denied"}}`, 422, loop.CodeInvalidBody},
		{"result of nothing", `{"body":{"kind":"core.work.tool_result.v1","fulfills":"x","status":"ok"}}`, 422, loop.CodeInvalidBody},
		{"observation without a rule", `{"body":{"kind":"core.work.observation.v1","rule":" ","text":"t","loop_thread":"` + own + `"}}`, 422, loop.CodeInvalidBody},
		{"observation of another run", `{"body":{"kind":"core.work.observation.v1","rule":"r","text":"t","loop_thread":"` + other + `"}}`, 422, loop.CodeInvalidBody},
		{"empty note", `{"body":{"kind":"core.work.note.v1","text":""}}`, 422, loop.CodeInvalidBody},
		{"negative cost", `{"body":{"kind":"core.work.turn.v1","cost_usd":-1}}`, 422, loop.CodeInvalidBody},
		{"body is a list", `{"body":[{"kind":"core.work.note.v1"}]}`, 422, loop.CodeInvalidBody},
		{"a list", `[{"body":{"kind":"core.work.note.v1","text":"n"}}]`, 400, loop.CodeInvalidBody},
		{"null", `null`, 400, loop.CodeInvalidBody},
		{"two values", note("") + note(""), 400, loop.CodeInvalidBody},
		{"half", `{"body":{"kind":"core.work.note.v1","text":"n"`, 400, loop.CodeInvalidBody},
		{"invalid UTF-8", note(`,"turn_index":1,"x` + "\xff" + `":1`), 400, loop.CodeInvalidBody},
		{"deep", `{"body":{"kind":"core.work.tool_result.v1","status":"ok","fulfills":"` + id + `","data":` + strings.Repeat("[", 50000) + strings.Repeat("]", 50000) + `}}`, 400, loop.CodeInvalidBody},
		{"nothing", ``, 400, loop.CodeInvalidBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{}
			status, code := serve(t, k).post(t, doors.DoorRecords, tt.body)
			if status != tt.status || code != tt.code || len(k.reached) > 0 {
				t.Errorf("%d %s, want %d %s; reached %v", status, code, tt.status, tt.code, k.reached)
			}
		})
	}
}

func TestQueryBounds(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"own", `{"thread":"` + own + `"}`, 200, ""},
		{"given", `{"thread":"` + given + `","limit":5,"sort":{"clock":-1}}`, 200, ""},
		{"a filter cannot widen", `{"thread":"` + own + `","filter":{"$or":[{"thread":"` + other + `"},{"clock":{"$gte":0}}]}}`, 200, ""}, // the thread still holds
		{"other", `{"thread":"` + other + `"}`, 403, loop.CodeReadsNotCovered},
		{"config", `{"thread":"th_engine_config"}`, 403, loop.CodeReadsNotCovered},
		{"no thread", `{}`, 403, loop.CodeReadsNotCovered},
		{"thread in the filter", `{"filter":{"thread":"` + own + `"}}`, 403, loop.CodeReadsNotCovered},
		{"either thread", `{"filter":{"$or":[{"thread":"` + own + `"},{"thread":"` + other + `"}]}}`, 403, loop.CodeReadsNotCovered},
		{"prefix", `{"thread":"` + own + ` "}`, 403, loop.CodeReadsNotCovered},
		{"two threads", `{"thread":"` + own + `","thread":"` + other + `"}`, 400, loop.CodeInvalidBody},
		{"thread in another case", `{"thread":"` + own + `","Thread":"` + other + `"}`, 422, loop.CodeInvalidBody},
		{"list", `{"thread":["` + own + `","` + other + `"]}`, 422, loop.CodeInvalidBody},
		{"negative", `{"thread":"` + own + `","limit":-1}`, 400, loop.CodeInvalidQuery},
		{"unknown field", `{"thread":"` + own + `","union":1}`, 422, loop.CodeInvalidBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kernel{}
			status, code := serve(t, k).post(t, doors.DoorQuery, tt.body)
			if status != tt.status || code != tt.code || (status != 200) != (len(k.reached) == 0) {
				t.Errorf("%d %s, want %d %s; reached %v", status, code, tt.status, tt.code, k.reached)
			}
			for _, q := range k.reached {
				if q := q.(record.Query); q.Limit < 1 || q.Limit > 200 || q.Explain || !slices.Contains([]string{own, given}, q.Thread) {
					t.Errorf("reached by %+v", q)
				}
			}
		})
	}
}

// A store that would hand out another thread's record is not believed.
func TestQueryAnswer(t *testing.T) {
	k := &kernel{page: record.Page{Data: []record.Record{{ID: id, Thread: own, Body: json.RawMessage(`{}`)}, {ID: id, Thread: other, Body: json.RawMessage(`{"secret":1}`)}}}}
	if status, code := serve(t, k).post(t, doors.DoorQuery, `{"thread":"`+own+`","explain":true}`); status != 403 || code != loop.CodeReadsNotCovered {
		t.Errorf("%d %s", status, code)
	}
	big := record.Record{ID: id, Thread: own, Body: json.RawMessage(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)}
	k = &kernel{page: record.Page{Data: slices.Repeat([]record.Record{big}, 20), MatchedTotal: 20, Plan: &record.Plan{SQL: "SELECT"}}}
	status, answer := serve(t, k).raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", doors.DoorQuery, bearer, len(own)+13, `{"thread":"`+own+`"}`))
	var page record.Page
	if err := json.Unmarshal([]byte(answer), &page); status != 200 || err != nil || len(answer) > 8<<20 || len(page.Data) != 7 || !page.Capped || page.MatchedTotal != 20 || page.Plan != nil {
		t.Errorf("%d, %d bytes, %d records, %v", status, len(answer), len(page.Data), err)
	}
}

func TestOtherBodies(t *testing.T) {
	for _, tt := range []struct {
		door, body string
		status     int
	}{
		{doors.DoorVerdict, `{"call_id":"c","turn_index":0,"tool":"bash","args":{}}`, 200},
		{doors.DoorVerdict, `{"call_id":"c","turn_index":0,"tool":"bash"}`, 422},
		{doors.DoorVerdict, `{"tool":"bash","args":"{}"}`, 422},
		{doors.DoorVerdict, `{"tool":"bash","args":null}`, 422},
		{doors.DoorVerdict, `{"tool":"","args":{}}`, 422},
		{doors.DoorVerdict, `{"tool":"bash","Tool":"record_note","args":{}}`, 422},
		{doors.DoorVerdict, `{"tool":"bash","args":{"a":1,"a":2}}`, 400},
		{doors.DoorVerdict, `{"tool":"bash","args":{},"decision":"allow"}`, 422},
		{doors.DoorVerdict, `{"tool":"bash","args":{},"turn_index":-1}`, 422},
		{doors.DoorCall, `{"call":"` + id + `"}`, 200},
		{doors.DoorCall, `{"call":"` + id + `","args":{}}`, 422},
		{doors.DoorCall, `{"call":"x"}`, 422},
		{doors.DoorMessages, `{"messages":[{"role":"user","content":[]}],"max_tokens":1}`, 200},
		{doors.DoorMessages, `{"messages":[],"max_tokens":1}`, 422},
		{doors.DoorMessages, `{"messages":[{"role":"user","content":[]}],"max_tokens":0}`, 422},
		{doors.DoorMessages, `{"messages":[{"role":"user","content":[]}],"max_tokens":1,"api_key":"x"}`, 422},
	} {
		k := &kernel{}
		status, code := serve(t, k).post(t, tt.door, tt.body)
		if status != tt.status || (status != 200) != (len(k.reached) == 0) {
			t.Errorf("%s %s: %d %s, want %d; reached %v", tt.door, tt.body, status, code, tt.status, k.reached)
		}
	}
}
