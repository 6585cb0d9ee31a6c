package catalogue_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"playground/catalogue"
	"playground/fault"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}` + "\n"

// serveText is what Serve answers to a whole input, by the ids of its messages; "null" stands for those without one.
func serveText(t *testing.T, in string) (answers map[string][]string, err error) {
	t.Helper()
	jails := &sandboxtest.Jails{Prefix: "pg"}
	provider := sandbox.New(jails, &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}, sandbox.Options{Prefix: "pg"})
	var out bytes.Buffer
	err = catalogue.Serve(t.Context(), provider, "alice", catalogue.Options{}, io.NopCloser(strings.NewReader(in)), &out)
	answers = map[string][]string{}
	for line := range strings.Lines(out.String()) {
		type message struct {
			Version string `json:"jsonrpc"`
			ID      json.RawMessage
		}
		var all []message
		if !strings.HasPrefix(line, "[") {
			line = "[" + line + "]"
		}
		if jsonErr := json.Unmarshal([]byte(line), &all); jsonErr != nil {
			t.Errorf("%q: %v", line, jsonErr)
		}
		for _, m := range all {
			if m.Version != "2.0" {
				t.Errorf("%q", line)
			}
			answers[string(m.ID)] = append(answers[string(m.ID)], line)
		}
	}
	return answers, err
}

// A line that is no message is answered, and does not end the service of those that are.
func TestServeBadLines(t *testing.T) {
	for name, c := range map[string]struct{ line, id, want string }{
		"text":                 {"not json", "null", "-32700"},
		"cut off":              {`{"jsonrpc":"2.0","id":1,`, "null", "-32700"},
		"two on one line":      {`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, "null", "-32700"},
		"a number":             {"5", "null", "-32600"},
		"not UTF-8":            {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\",\"arguments\":{\"text\":\"\xff\"}}}", "null", "base64"},
		"no method":            {`{"jsonrpc":"2.0","id":1}`, "1", "no method"},
		"JSON-RPC 1":           {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "1", `\"jsonrpc\": \"2.0\"`},
		"an id that rots":      {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "null", "2^53"},
		"params a number":      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}`, "1", "params must be an object"},
		"an id of no kind":     {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, "null", "2^53"},
		"an id of parts":       {`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, "null", "2^53"},
		"an answer to nothing": {`{"jsonrpc":"2.0","result":{}}`, "null", "no request, notification or response"},
		"an error of no kind":  {`{"jsonrpc":"2.0","id":1,"error":5}`, "1", "no request, notification or response"},
		"half a batch":         {`[{"jsonrpc":"2.0","id":1,"method":"ping"}`, "null", "-32700"},
		"a batch":              {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", "no batches"},
		"a numeric name":       {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, "1", "params.name must be a string"},
		"longer than long":     {strings.Repeat("x", 20<<20+1), "null", "over the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			answers, err := serveText(t, hello+c.line+"\r\n\n"+`{"jsonrpc":"2.0","id":"last","method":"tools/list"}`)
			if err != nil {
				t.Fatal(err)
			}
			if len(answers[`"hello"`]) != 1 || len(answers[`"last"`]) != 1 {
				t.Errorf("messages around it: %q", answers)
			}
			if got := answers[c.id]; len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.Contains(got[0], "hint") || strings.Contains(got[0], "mcp.") {
				t.Errorf("%q", got)
			}
		})
	}
}

// Older versions have batches: their calls are answered, and what is no batch is told.
func TestServeBatches(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":%,"method":"ping"}`
	in := strings.Replace(hello, "2025-11-25", "2025-03-26", 1)
	for _, line := range []string{"[]", "[5]", "[" + strings.Replace(call, "%", "1", 1) + "," + strings.Replace(call, "%", "2", 1) + "]", strings.Replace(call, "%", "3", 1)} {
		in += line + "\n"
	}
	answers, err := serveText(t, in)
	if err != nil {
		t.Fatal(err)
	}
	if bad := strings.Join(answers["null"], ""); !strings.Contains(bad, "the batch is empty") || !strings.Contains(bad, "a part of the batch") || len(answers["null"]) != 2 {
		t.Errorf("%q", answers)
	}
	for _, id := range []string{"1", "2", "3"} {
		if len(answers[id]) != 1 {
			t.Errorf("call %s: %q", id, answers)
		}
	}
}

// Whoever types at the program is told what it is for.
func TestServeNoMessages(t *testing.T) {
	answers, err := serveText(t, "help\nquit\n")
	if len(answers["null"]) != 2 || err == nil || !strings.Contains(fault.HintOf(err), "MCP client") {
		t.Errorf("%v, %q", err, answers)
	}
	if answers, err := serveText(t, ""); err != nil || len(answers) != 0 {
		t.Errorf("nothing at all: %v, %q", err, answers)
	}
}
