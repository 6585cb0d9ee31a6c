package escape

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"playground/confine"
)

// The five doors, as a worker may know them.
const (
	doorVerdict  = "/v1/work/tool-verdict"
	doorCall     = "/v1/work/tool-call"
	doorRecords  = "/v1/records"
	doorQuery    = "/v1/records/query"
	doorMessages = "/v1/broker/messages"
)

// A knock is one request at the doors.
type knock struct {
	name         string
	method, path string
	bearer       string // "-": none
	body         string
	status       int
}

// doors knocks where no door is, without the key, and with the key at what it does not open.
func doors(p Plan) []confine.Attempt {
	wire := bufio.NewReader(p.Doors)
	var all []confine.Attempt
	for _, k := range knocks(p) {
		if k.bearer == "" {
			k.bearer = p.Bearer
		}
		got := "none"
		if status, err := k.ask(p, wire); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(status)
		}
		want := fmt.Sprint(k.status)
		all = append(all, confine.Attempt{Layer: Doors, Name: k.name, Expect: want, Errno: got, Pass: got == want})
	}
	return all
}

func knocks(p Plan) []knock {
	body := func(v any) string {
		text, _ := json.Marshal(v) // maps of strings
		return string(text)
	}
	note := func(thread, kind string) string {
		return body(map[string]any{"thread": thread, "kind": kind, "body": map[string]any{"text": "escape", "kind": kind}})
	}
	var list []knock
	for _, path := range []string{
		"/", "/health", "/v1/health", "/v1/threads", "/v1/engine/health", "/v1/work/loop", "/v1/work/loop/preview", "/v1/work/escape", "/v1/runs",
		"/v1/decisions", "/v1/config/permission-rules", "/v1/operators", "/mcp", "/v1/workers", "/v1/exec", "/metrics",
		doorRecords + "/", doorRecords + "?x=1", "/" + doorRecords, "/v1/work/../records", "/v1/%72ecords", strings.ToUpper(doorRecords),
	} {
		list = append(list, knock{name: "no such door: POST " + path, method: http.MethodPost, path: path, body: "{}", status: http.StatusNotFound})
	}
	for _, path := range []string{doorVerdict, doorCall, doorRecords, doorQuery, doorMessages} {
		list = append(list,
			knock{name: "no such door: GET " + path, method: http.MethodGet, path: path, status: http.StatusNotFound},
			knock{name: "without a credential: " + path, method: http.MethodPost, path: path, bearer: "-", body: "{}", status: http.StatusUnauthorized},
			knock{name: "with a wrong credential: " + path, method: http.MethodPost, path: path, bearer: "spl_run_x_y", body: "{}", status: http.StatusUnauthorized},
		)
		if p.Ended != "" {
			list = append(list, knock{name: "with the credential of an ended run: " + path, method: http.MethodPost, path: path, bearer: p.Ended, body: "{}",
				status: http.StatusUnauthorized})
		}
	}
	for _, kind := range []string{
		"core.work.tool_verdict.v1", "core.work.loop_outcome.v1", "core.work.loop.v1", "core.work.tool_call.v1", "core.work.decision_request.v1",
		"core.work.loop_cancel.v1", "core.engine.config.v1", "core.hook.v1", "core.permission_rule.v1",
	} {
		list = append(list, knock{name: "write " + kind, method: http.MethodPost, path: doorRecords, body: note(p.Thread, kind), status: http.StatusForbidden})
	}
	for _, thread := range []string{p.Other, "th_engine_config"} {
		list = append(list,
			knock{name: "write to the thread " + thread, method: http.MethodPost, path: doorRecords, body: note(thread, "core.work.note.v1"), status: http.StatusForbidden},
			knock{name: "read the thread " + thread, method: http.MethodPost, path: doorQuery, body: body(map[string]any{"thread": thread}), status: http.StatusForbidden})
	}
	return list
}

// answerTime bounds one answer.
const answerTime = 20 * time.Second

// ask sends one request as it is, without what a client would mend, and returns the answer's status.
func (k knock) ask(p Plan, wire *bufio.Reader) (int, error) {
	if err := p.Doors.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return 0, err
	}
	defer p.Doors.SetDeadline(time.Time{})
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: doors\r\n", k.method, k.path)
	if k.bearer != "-" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", k.bearer)
	}
	if k.body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(k.body))
	}
	b.WriteString("\r\n" + k.body)
	if _, err := io.WriteString(p.Doors, b.String()); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(wire, &http.Request{Method: k.method})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	const most = 1 << 20
	_, err = io.CopyN(io.Discard, resp.Body, most)
	if err == nil {
		return 0, fmt.Errorf("the answer is over %d bytes", most)
	}
	return resp.StatusCode, nil
}
