package gateway

import (
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestInitializes(t *testing.T) {
	for body, want := range map[string]bool{
		`{"method":"initialize"}`:                                true,
		`{"method":"\u0069nitialize"}`:                           true,
		` {"id":1,"method":"initialize","x":{}} `:                true,
		`{"method":"x","method":"initialize"}`:                   true, // as most decoders read it
		`{"method":"initialize","method":"x"}`:                   false,
		`{"Method":"initialize"}`:                                false,
		`{"params":{"method":"initialize"},"method":"x"}`:        false,
		`[{"method":"initialize"}]`:                              false,
		`{"method":"initialize"`:                                 false,
		`{"method":["initialize"]}`:                              false,
		`{"method":"initialize"} {}`:                             false,
		"":                                                       false,
		`"initialize"`:                                           false,
		`{"method":"` + strings.Repeat("initialize", 200) + `"}`: false,
	} {
		if got := initializes(&http.Request{Method: http.MethodPost}, []byte(body)); got != want {
			t.Errorf("%.60s: %v", body, got)
		}
		if initializes(&http.Request{Method: http.MethodGet}, []byte(body)) {
			t.Errorf("GET with %.60s", body)
		}
	}
}

func TestPeekID(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":1}`: `1`, `{"id":"a"}`: `"a"`, `{"id":12345678901234567890.5}`: `12345678901234567890.5`,
		`{"id":null}`: "", `{"id":{}}`: "", `{"id":[1]}`: "", `{"id":true}`: "", `{}`: "", `{"id":"` + strings.Repeat("x", 2000) + `"}`: "",
	} {
		if got := peek(&http.Request{Method: http.MethodPost}, []byte(body)); string(got.id) != want {
			t.Errorf("%.60s: %q", body, got.id)
		}
	}
}

// Where a stream stands does not depend on the pieces that it came in, and is what a slower reading of the standard says.
func TestEventTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"data: x", "data", ":c", "id", "id: 1", "idx: 1", "\n", "\r", "\r\n", "\n\n", "a"})).Draw(t, "text"), "")
		var whole, pieces eventTail
		whole.write([]byte(text))
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if whole != pieces {
			t.Fatalf("%q: %+v in one piece, %+v in several", text, whole, pieces)
		}
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
		open, ids := false, false
		for _, line := range lines[:len(lines)-1] {
			name, _, _ := strings.Cut(line, ":")
			open = line != "" && (open || !strings.HasPrefix(line, ":"))
			ids = ids || name == "id"
		}
		if want := !open && lines[len(lines)-1] == ""; whole.between() != want || whole.ids != ids {
			t.Fatalf("%q: between %v, ids %v; want %v, %v", text, whole.between(), whole.ids, want, ids)
		}
	})
}

// No body makes the gateway fail, and an id that comes out can be put into an answer.
func FuzzPeek(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	f.Add(`{"id":-0.e`)
	f.Fuzz(func(t *testing.T, body string) {
		m := peek(&http.Request{Method: http.MethodPost}, []byte(body))
		if len(m.id) > 1024 || m.id != nil && m.id[0] != '"' && m.id[0] != '-' && (m.id[0] < '0' || m.id[0] > '9') {
			t.Errorf("id %q", m.id)
		}
	})
}
