package catalogue

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// Whatever comes in, what is handed on is JSON a line at a time, and what is answered is JSON-RPC: one or the other for each line.
func FuzzScreen(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "x", "{}\n", `{"jsonrpc":"2.0","method":"ping","id":1}`, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}\r\n[]\n", "[{}]\n5\n", "\xff\n{}",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, "\xef\xbb\xbf{}\n", `{"id":1,"id":2,"jsonrpc":"2.0","result":null}`, "[\n]\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var answers bytes.Buffer
		s := newScreen(io.NopCloser(iotest.OneByteReader(strings.NewReader(in))), &answers)
		passed, _ := io.ReadAll(s)
		full := 0
		for line := range strings.Lines(in) {
			if strings.TrimSpace(line) != "" {
				full++
			}
		}
		got := 0
		for line := range bytes.Lines(append(passed, answers.Bytes()...)) {
			if got++; !json.Valid(line) || !utf8.Valid(line) {
				t.Errorf("%q made %q", in, line)
			}
		}
		if got != full {
			t.Errorf("%q: %d lines in, %d out", in, full, got)
		}
	})
}
