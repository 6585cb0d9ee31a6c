package main

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const testToken = "0123456789abcdef0123456789abcdef"

func newPile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "self.pile")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func testNotebook(t *testing.T, path string) *notebook {
	t.Helper()
	return newNotebook(path, "alice assistant", func() time.Time { return time.Unix(1_700_000_000, 0) })
}

func TestAppendAndSearch(t *testing.T) {
	path := newPile(t, nil)
	n := testNotebook(t, path)
	for _, text := range []string{"The pump needs oil", "the oil is in the shed", "nothing"} {
		if _, err := n.add(text, []string{"garden"}); err != nil {
			t.Fatal(err)
		}
	}
	// A second process, which has read nothing yet.
	for _, book := range []*notebook{n, testNotebook(t, path)} {
		found, total, err := book.search("OIL garden", 1)
		if err != nil || total != 2 || len(found) != 1 || found[0].Text != "the oil is in the shed" || found[0].Author != "alice assistant" {
			t.Errorf("%+v of %d, %v", found, total, err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data)%align != 0 || hex.EncodeToString(data[:16]) != blobMarker {
		t.Errorf("%d bytes that begin with %x, %v", len(data), data[:16], err)
	}
}

// A search beside an append sees the note or does not; it never sees half of one.
func TestSearchWhileAppending(t *testing.T) {
	n := testNotebook(t, newPile(t, nil))
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for range 100 {
				if _, err := n.add(strings.Repeat("x", maxText), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if _, _, err := n.search("nothing", 1); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedNotes(t *testing.T) {
	path := newPile(t, nil)
	n := testNotebook(t, path)
	for name, in := range map[string]addInput{
		"empty": {Text: " \n"}, "large": {Text: strings.Repeat("x", maxText+1)}, "not UTF-8": {Text: "\xff"},
		"many tags": {Text: "x", Tags: make([]string, maxTags+1)}, "tag with a space": {Text: "x", Tags: []string{"a b"}},
	} {
		if _, err := n.add(in.Text, in.Tags); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the pile grew: %v %v", info.Size(), err)
	}
}

// Other writers' records are stepped over, in both versions of the format; damaged ones are nobody's notes.
func TestOthersRecords(t *testing.T) {
	v3, err := hex.DecodeString("9c33eeb525065a62eaec4be43dcc355a")
	if err != nil {
		t.Fatal(err)
	}
	head := append(v3, make([]byte, alignV3-16)...)
	head[24] = 5 // its length
	other := append(head, make([]byte, alignV3)...)
	path := newPile(t, other)
	n := testNotebook(t, path)
	if _, err := n.add("after it", nil); err != nil {
		t.Fatal(err)
	}
	if found, _, err := n.search("", 0); err != nil || len(found) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(other)+align+5] ^= 1
	if found, _, err := testNotebook(t, newPile(t, data)).search("", 0); err != nil || len(found) != 0 {
		t.Errorf("a damaged note was found: %+v, %v", found, err)
	}
}

func TestBrokenPiles(t *testing.T) {
	whole := record([]byte(`{"faculty":"notebook","text":"x"}`), [32]byte{}, time.Unix(0, 0))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"unknown":  {append(whole, make([]byte, align)...), "from byte 128 on: its marker 0000"},
		"cut off":  {whole[:align], "from byte 0 on: the record is cut off"},
		"header":   {append(whole, whole[:20]...), "from byte 128 on: the record is cut off"},
		"too long": {record(nil, [32]byte{}, time.Unix(0, 0)), ""},
	} {
		if name == "too long" {
			for i := 24; i < 32; i++ {
				c.content[i] = 0xff
			}
			c.want = "cut off"
		}
		n := testNotebook(t, newPile(t, c.content))
		if err := n.refresh(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := testNotebook(t, newPile(t, whole[:70])).add("x", nil); err == nil {
		t.Error("appended behind half a record")
	}
}

func FuzzScan(f *testing.F) {
	f.Add(record([]byte("x"), [32]byte{}, time.Unix(0, 0)))
	f.Fuzz(func(t *testing.T, content []byte) {
		end, err := pile{newPile(t, content)}.scan(0, func([]byte) {})
		if end > int64(len(content)) || err == nil && end != int64(len(content)) {
			t.Errorf("end %d of %d, %v", end, len(content), err)
		}
	})
}

// withToken shows the bearer token.
type withToken struct{ token string }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return http.DefaultTransport.RoundTrip(r)
}

func TestOverMCP(t *testing.T) {
	server := httptest.NewServer(handler(testNotebook(t, newPile(t, nil)), testToken))
	defer server.Close()
	transport := &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: withToken{testToken}}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if c := session.InitializeResult().Capabilities; c.Tools == nil || c.Logging != nil {
		t.Errorf("capabilities %+v", c)
	}
	if list, err := session.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 || list.CacheScope != "private" {
		t.Errorf("a tenant's own tools: %+v, %v", list, err)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "append_note", Arguments: map[string]any{"text": "remember the milk"}}); err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_notes", Arguments: map[string]any{"query": "milk"}})
	if err != nil || result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	if text := result.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "remember the milk") {
		t.Errorf("%q", text)
	}
}

// One request without a session, as from 2026-07-28 on.
func TestStateless(t *testing.T) {
	server := httptest.NewServer(handler(testNotebook(t, newPile(t, nil)), testToken))
	defer server.Close()
	for token, want := range map[string]int{testToken: http.StatusOK, testToken + "x": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/list")
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("token %q: %d", token, response.StatusCode)
		}
	}
}

func TestRefusedStarts(t *testing.T) {
	short := newPile(t, []byte("short\n"))
	t.Setenv("PILE", "")
	if err := run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "PILE") {
		t.Errorf("without a pile: %v", err)
	}
	t.Setenv("PILE", newPile(t, nil))
	for _, args := range [][]string{nil, {"--token-file", short}, {"--token-file", "/nowhere"}} {
		if err := run(t.Context(), args); err == nil || strings.Contains(err.Error(), "short\n") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
