package cli

import (
	"bytes"
	"strings"
	"testing"

	"playground/confine"
	"playground/confine/escape"
)

// TestShowEscape: what is red stands out, what is missing is said, and what a worker wrote moves no cursor.
func TestShowEscape(t *testing.T) {
	var out, news bytes.Buffer
	e := &Env{Stdout: &out, Stderr: &news}
	err := e.showEscape(escape.Report{Shape: escape.RootDaemon, Missing: []string{"layer ipc\x1b[2J"}, Rows: []escape.Row{
		{Shape: escape.RootDaemon, Row: 1, Attempt: confine.Attempt{Layer: confine.Descriptors, Name: "use another descriptor", Pass: true}},
		{Shape: escape.RootDaemon, Row: 2, Attempt: confine.Attempt{Layer: confine.Root, Name: "list /", Expect: "", Errno: "x\x1b[2J\ny"}},
	}})
	const want = `ROW   LAYER         ATTEMPT                  EXPECTED   GOT           
1     descriptors   use another descriptor   nothing    nothing       ok
2     root          list /                   nothing    x\x1b[2J\ny   RED

RED  root-daemon 2  root          list /: x\x1b[2J\ny, want nothing
RED  root            1 attempts, 1 red
ok   descriptors     1 attempts, 0 red
root-daemon: 2 attempts, 1 red, 1 missing
`
	if err != nil || strings.ReplaceAll(out.String(), " \n", "\n") != strings.ReplaceAll(want, " \n", "\n") || news.String() != "missing: layer ipc\\x1b[2J\n" {
		t.Errorf("%v\n%s\n%s", err, out.String(), news.String())
	}
}
