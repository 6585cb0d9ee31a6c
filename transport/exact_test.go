package transport_test

import (
	"strings"
	"testing"
)

// An id that the SDK would round is refused, and so is a member name in another case, which it would overlook: either
// way the client would wait for an answer that never comes.
func TestIdsAndNamesAreExact(t *testing.T) {
	w := newWorld(t, nil)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":1152921504606846977,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"Method":"tools/list","params":{}}`,
	} {
		if got := w.do("POST", body); got.status != 400 {
			t.Errorf("%s: status %d %.200s", body, got.status, got.body)
		}
	}
	for _, id := range []string{`9007199254740992`, `-1`, `"x"`, `0`} {
		got := w.do("POST", `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list","params":{}}`)
		if got.status != 200 || !strings.Contains(got.body, `"id":`+id+`,`) {
			t.Errorf("id %s: status %d %.200s", id, got.status, got.body)
		}
	}
}
