package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/inference"
)

const secret = "sk-test-0123456789abcdef"

// A dialect is one of the two APIs, with streams that say the same.
type dialect struct {
	name, path, header, value string
	build                     func(o Options) (inference.Provider, *service, error)
	text, tool, cut, broken   string // streams
	half, huge                string
}

func dialects() []dialect {
	return []dialect{
		{
			name: "anthropic", path: "/v1/messages", header: "X-Api-Key", value: secret,
			build: func(o Options) (inference.Provider, *service, error) {
				p, err := NewAnthropic(o)
				if err != nil {
					return nil, nil, err
				}
				return p, p.service, nil
			},
			text:   anthropicWireText,
			tool:   anthropicWireTool,
			cut:    anthropicWireCut,
			broken: anthropicWireStart + "event: content_block_start\ndata: {\"type\":\n\n",
			half:   anthropicWireStart,
			huge:   anthropicWireStart + "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		},
		{
			name: "openai", path: "/chat/completions", header: "Authorization", value: "Bearer " + secret,
			build: func(o Options) (inference.Provider, *service, error) {
				p, err := NewOpenAI(o)
				if err != nil {
					return nil, nil, err
				}
				return p, p.service, nil
			},
			text:   openaiWireText,
			tool:   openaiWireTool,
			cut:    openaiWireCut,
			broken: openaiWireStart + "data: {\"choices\":\n\n",
			half:   openaiWireStart,
			huge:   ": nothing\n\n",
		},
	}
}

const (
	anthropicWireStart = `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"big","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":2,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}

`
	anthropicWireMiddle = anthropicWireStart + `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

`
	anthropicWireText = anthropicWireMiddle + `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

`
	anthropicWireCall = anthropicWireMiddle + `event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}

`
	anthropicWireTool = anthropicWireCall + `event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"ls\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`
	anthropicWireCut = anthropicWireCall + `event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`
	openaiWireStart = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}],"usage":null}

`
	openaiWireMiddle = openaiWireStart + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}

`
	openaiWireText = openaiWireMiddle + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7,"total_tokens":19}}

data: [DONE]

`
	openaiWireCall = openaiWireMiddle + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"bash","arguments":"{\"command\":"}}]},"finish_reason":null}]}

`
	openaiWireTool = openaiWireCall + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}}]},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}

data: [DONE]

`
	openaiWireCut = openaiWireCall + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"big","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}

data: [DONE]

`
)

// A fakeService answers each request by the next of its handlers, the last one for ever.
type fakeService struct {
	*httptest.Server
	calls atomic.Int64

	mu       sync.Mutex // guards what follows
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, handlers ...http.HandlerFunc) *fakeService {
	t.Helper()
	f := &fakeService{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.requests, f.bodies = append(f.requests, r), append(f.bodies, string(body))
		f.mu.Unlock()
		handlers[min(int(f.calls.Add(1)), len(handlers))-1](w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// provider builds a provider of d against url whose pauses are noted and take no time.
func (d dialect) provider(t *testing.T, url string) (inference.Provider, *[]time.Duration) {
	t.Helper()
	p, s, err := d.build(Options{BaseURL: url, Key: []byte(secret + "\n"), KeyFile: "/etc/keys/" + d.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	var pauses []time.Duration
	s.wait = func(ctx context.Context, pause time.Duration) error {
		pauses = append(pauses, pause)
		return ctx.Err()
	}
	return p, &pauses
}

func ask() inference.Request {
	return inference.Request{
		Model: "big", System: "be brief", MaxTokens: 100,
		Messages: []inference.Message{
			{Role: inference.User, Content: []inference.Block{{Type: inference.Text, Text: "list files"}}},
			{Role: inference.Assistant, Content: []inference.Block{{Type: inference.Text, Text: "yes"}, {Type: inference.ToolUse, ID: "t0", Name: "bash", Input: json.RawMessage(`{"command":"pwd"}`)}}},
			{Role: inference.User, Content: []inference.Block{{Type: inference.ToolResult, ToolUseID: "t0", Text: "/root", IsError: true}, {Type: inference.Text, Text: "go on"}}},
			{Role: inference.User},
		},
		Tools: []inference.Tool{{Name: "bash", Description: "runs a command", InputSchema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}},
	}
}

// failure checks the class of an error, and that no error shows the key in any form of print.
func failure(t *testing.T, err error, want inference.Failure, started bool) *inference.Error {
	t.Helper()
	failed, ok := errors.AsType[*inference.Error](err)
	if !ok || failed.Failure != want || failed.Started != started {
		t.Fatalf("error is %#v, want %s with started %v", err, want, started)
	}
	if fault.KindOf(err) == fault.Internal {
		t.Errorf("%v has no kind", err)
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %#v", err, err, err), fault.HintOf(err)} {
		if strings.Contains(text, secret) || strings.Contains(text, "0123456789") {
			t.Errorf("the key is in %q", text)
		}
	}
	return failed
}

func TestStreams(t *testing.T) {
	text := inference.Block{Type: inference.Text, Text: "Hello"}
	for _, d := range dialects() {
		for name, c := range map[string]struct {
			stream string
			want   inference.Response
		}{
			"text": {d.text, inference.Response{Model: "big", Content: []inference.Block{text}, StopReason: inference.EndTurn, InputTokens: 12, OutputTokens: 7}},
			"tool": {d.tool, inference.Response{Model: "big", Content: []inference.Block{text, {Type: inference.ToolUse, ID: "t1", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)}},
				StopReason: inference.StopToolUse, InputTokens: 12, OutputTokens: 9}},
			"cut": {d.cut, inference.Response{Model: "big", Content: []inference.Block{text, {Type: inference.ToolUse, ID: "t1", Name: "bash", Input: json.RawMessage(`"{\"command\":"`)}},
				StopReason: inference.MaxTokens, InputTokens: 12, OutputTokens: 9}},
		} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				f := serve(t, stream(c.stream))
				p, _ := d.provider(t, f.URL)
				var heard []string
				got, err := p.Complete(t.Context(), ask(), func(s string) { heard = append(heard, s) })
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"Hel", "lo"}, heard); diff != "" {
					t.Errorf("pieces (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// What is sent: the key in its header and nowhere else, and the conversation in the form of the API.
func TestRequests(t *testing.T) {
	want := map[string]string{
		"anthropic": `{"max_tokens":100,"messages":[{"content":[{"text":"list files","type":"text"}],"role":"user"},
			{"content":[{"text":"yes","type":"text"},{"id":"t0","input":{"command":"pwd"},"name":"bash","type":"tool_use"}],"role":"assistant"},
			{"content":[{"content":[{"text":"/root","type":"text"}],"is_error":true,"tool_use_id":"t0","type":"tool_result"},{"text":"go on","type":"text"}],"role":"user"}],
			"model":"big","stream":true,"system":[{"text":"be brief","type":"text"}],
			"tools":[{"description":"runs a command","input_schema":{"properties":{"command":{"type":"string"}},"required":["command"],"type":"object"},"name":"bash"}]}`,
		"openai": `{"max_tokens":100,"messages":[{"content":"be brief","role":"system"},{"content":"list files","role":"user"},
			{"content":"yes","role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\":\"pwd\"}","name":"bash"},"id":"t0","type":"function"}]},
			{"content":"error: /root","role":"tool","tool_call_id":"t0"},{"content":"go on","role":"user"}],
			"model":"big","stream":true,"stream_options":{"include_usage":true},
			"tools":[{"function":{"description":"runs a command","name":"bash","parameters":{"properties":{"command":{"type":"string"}},"required":["command"],"type":"object"}},"type":"function"}]}`,
	}
	// A key that somebody left in the environment must not be used.
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ORG_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			f := serve(t, stream(d.text))
			p, _ := d.provider(t, f.URL)
			if _, err := p.Complete(t.Context(), ask(), nil); err != nil {
				t.Fatal(err)
			}
			r := f.requests[0]
			if r.Method != http.MethodPost || r.URL.Path != d.path || r.URL.RawQuery != "" {
				t.Errorf("request is %s %s", r.Method, r.URL)
			}
			for name, values := range r.Header {
				joined := strings.Join(values, ",")
				if name == d.header {
					if joined != d.value {
						t.Errorf("%s is not the key", name)
					}
				} else if strings.Contains(joined, secret) || strings.Contains(joined, "from-the-environment") {
					t.Errorf("a key is in header %s", name)
				}
			}
			if r.Header.Get(d.header) == "" {
				t.Errorf("no key in %s: %v", d.header, r.Header)
			}
			var got, wanted any
			if err := json.Unmarshal([]byte(f.bodies[0]), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(want[d.name]), &wanted); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if strings.Contains(f.bodies[0], secret) {
				t.Error("the key is in the body")
			}
		})
	}
}

func TestRetries(t *testing.T) {
	busy := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for _, d := range dialects() {
		for name, c := range map[string]struct {
			handlers []http.HandlerFunc
			calls    int64
			fails    inference.Failure // "" is success
			pause    time.Duration
		}{
			"429 with a pause":     {[]http.HandlerFunc{status(429, busy, "Retry-After", "7"), stream(d.text)}, 2, "", 7 * time.Second},
			"429 with a long one":  {[]http.HandlerFunc{status(429, busy, "Retry-After", "21"), stream(d.text)}, 1, inference.RateLimited, 0},
			"529 twice":            {[]http.HandlerFunc{status(529, busy), status(529, busy), stream(d.text)}, 3, "", firstBackoff / 2},
			"529 for ever":         {[]http.HandlerFunc{status(529, busy)}, 3, inference.Overloaded, firstBackoff / 2},
			"500":                  {[]http.HandlerFunc{status(500, "<html>"), stream(d.text)}, 2, "", firstBackoff / 2},
			"408":                  {[]http.HandlerFunc{status(408, ""), stream(d.text)}, 2, "", firstBackoff / 2},
			"400":                  {[]http.HandlerFunc{status(400, `{"error":{"message":"no such model; you sent `+secret+`"}}`)}, 1, inference.InvalidRequest, 0},
			"401":                  {[]http.HandlerFunc{status(401, `{"error":{"message":"bad key `+secret+` or sk-****cdef"}}`)}, 1, inference.Authentication, 0},
			"404":                  {[]http.HandlerFunc{status(404, "")}, 1, inference.InvalidRequest, 0},
			"413":                  {[]http.HandlerFunc{status(413, "")}, 1, inference.InvalidRequest, 0},
			"reset before a reply": {[]http.HandlerFunc{reset, stream(d.text)}, 2, "", firstBackoff / 2},
		} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				f := serve(t, c.handlers...)
				p, pauses := d.provider(t, f.URL)
				_, err := p.Complete(t.Context(), ask(), nil)
				if c.fails != "" {
					failure(t, err, c.fails, false)
				} else if err != nil {
					t.Fatal(err)
				}
				if got := f.calls.Load(); got != c.calls {
					t.Errorf("%d calls, want %d", got, c.calls)
				}
				if len(*pauses) != int(c.calls)-1 {
					t.Errorf("pauses: %v", *pauses)
				}
				for _, pause := range *pauses {
					if pause < c.pause || pause > maxRetryAfter {
						t.Errorf("pause of %v, want at least %v", pause, c.pause)
					}
				}
			})
		}
	}
}

// reset closes the connection with a RST and without an answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close()
	}
}

func TestAuthenticationHint(t *testing.T) {
	for _, d := range dialects() {
		f := serve(t, status(401, `{"error":{"message":"bad key"}}`))
		p, _ := d.provider(t, f.URL)
		_, err := p.Complete(t.Context(), ask(), nil)
		failed := failure(t, err, inference.Authentication, false)
		if hint := fault.HintOf(failed); !strings.Contains(hint, "/etc/keys/"+d.name) || fault.KindOf(failed) != fault.Denied {
			t.Errorf("hint %q of kind %s", hint, fault.KindOf(failed))
		}
	}
}

// Once anything of an answer was received, the call is not made again: it would be paid for twice.
func TestNoRetryAfterAnswer(t *testing.T) {
	overloaded := map[string]string{
		"anthropic": "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		"openai":    "data: {\"error\":{\"type\":\"server_error\",\"message\":\"Overloaded\"}}\n\n",
	}
	for _, d := range dialects() {
		for name, c := range map[string]struct {
			handler http.HandlerFunc
			want    inference.Failure
			text    string
		}{
			"ends early":     {stream(d.half), inference.Network, "in the middle"},
			"is cut":         {cutAfter(d.half), inference.Network, "in the middle"},
			"is empty":       {stream(""), inference.Network, "in the middle"},
			"malformed":      {stream(d.broken), inference.Malformed, "not what its API promises"},
			"reports errors": {stream(d.half + overloaded[d.name]), inference.Overloaded, "cannot answer now (status 200): Overloaded"},
			"huge":           {flood(d.huge), inference.Malformed, "longer than"},
			"huge line":      {flood("x"), inference.Malformed, "longer than"},
			"no stream":      {status(200, `{"choices":[]}`), inference.Malformed, "event stream"},
		} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				f := serve(t, c.handler)
				p, _ := d.provider(t, f.URL)
				_, err := p.Complete(t.Context(), ask(), nil)
				failure(t, err, c.want, true)
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("error is %q, want it to say %q", err, c.text)
				}
				if got := f.calls.Load(); got != 1 {
					t.Errorf("%d calls", got)
				}
			})
		}
	}
}

// cutAfter sends text and breaks the connection.
func cutAfter(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(text)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// flood sends text until nobody reads.
func flood(text string) http.HandlerFunc {
	block := strings.Repeat(text, 64<<10/len(text))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
}

// The partial count of a broken stream reaches the account.
func TestPartialUsage(t *testing.T) {
	d := dialects()[0]
	f := serve(t, stream(d.half))
	p, _ := d.provider(t, f.URL)
	response, err := p.Complete(t.Context(), ask(), nil)
	failure(t, err, inference.Network, true)
	if response.InputTokens != 12 {
		t.Errorf("usage of a broken stream: %+v", response)
	}
}

// A redirect to another host gets neither the key nor the conversation.
func TestRedirect(t *testing.T) {
	for _, d := range dialects() {
		for _, code := range []int{301, 302, 307, 308} {
			thief := serve(t, stream(d.text))
			f := serve(t, status(code, "", "Location", thief.URL+"/v1/messages"))
			p, _ := d.provider(t, f.URL)
			_, err := p.Complete(t.Context(), ask(), nil)
			failed := failure(t, err, inference.InvalidRequest, false)
			if thief.calls.Load() != 0 || f.calls.Load() != 1 || !strings.Contains(failed.Error(), "redirect") {
				t.Errorf("%s %d: %d requests to the other host, %v", d.name, code, thief.calls.Load(), err)
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	_ = listener.Close()
	for _, d := range dialects() {
		p, pauses := d.provider(t, url)
		_, err := p.Complete(t.Context(), ask(), nil)
		failure(t, err, inference.Network, false)
		if len(*pauses) != maxTries-1 || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v after pauses %v", d.name, err, *pauses)
		}
	}
}

func TestCancelled(t *testing.T) {
	for _, d := range dialects() {
		for name, text := range map[string]string{"before": "", "within": d.half} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				f := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if text == "" {
						cancel()
					} else {
						stream(text)(w, r)
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				})
				p, _ := d.provider(t, f.URL)
				_, err := p.Complete(ctx, ask(), func(string) { cancel() })
				failure(t, err, inference.Cancelled, text != "")
				if !errors.Is(err, context.Canceled) || f.calls.Load() != 1 {
					t.Errorf("%d calls, error %v", f.calls.Load(), err)
				}
			})
		}
	}
}

// A pause between two tries ends with the context.
func TestCancelledPause(t *testing.T) {
	d := dialects()[0]
	ctx, cancel := context.WithCancel(t.Context())
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status(429, "", "Retry-After", "20")(w, r)
		time.AfterFunc(time.Millisecond, cancel)
	})
	p, s, err := d.build(Options{BaseURL: f.URL, Key: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	if _, err := p.Complete(ctx, ask(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestSilence(t *testing.T) {
	for _, d := range dialects() {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, s, err := d.build(Options{BaseURL: f.URL, Key: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.client.CloseIdleConnections)
		_, err = s.complete(t.Context(), ask(), func(ctx context.Context, x *exchange) (inference.Response, error) {
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
			s.wait = func(context.Context, time.Duration) error { t.Error("tried again"); return nil }
			x.watch.Reset(time.Millisecond) // as if maxSilence were that long
			x.status = 200
			_, err := x.Do(request)
			return inference.Response{}, err
		})
		if failed := failure(t, err, inference.Network, true); !strings.Contains(failed.Error(), "sent nothing") {
			t.Errorf("error is %v", failed)
		}
	}
}
