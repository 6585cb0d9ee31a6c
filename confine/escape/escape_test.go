package escape_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"playground/confine"
	"playground/confine/escape"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "no shape", `{"shape":"user","x":1}`: "unknown field", `{"shape":"user","use_up":"all"}`: "use up", `[]`: "cannot read",
	} {
		if _, err := escape.Parse(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	p, err := escape.Parse(json.RawMessage(`{"shape":"root","processes":[7],"use_up":"cpu"}`))
	if err != nil || p.Shape != "root" || len(p.Processes) != 1 || p.UseUp != "cpu" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTable(t *testing.T) {
	rows := []escape.Row{
		{Shape: "user", Row: 1, Attempt: confine.Attempt{Layer: confine.Root, Name: "open /etc/passwd", Expect: "ENOENT", Errno: "ENOENT", Pass: true}},
		{Shape: "user", Row: 2, Attempt: confine.Attempt{Layer: confine.Syscalls, Name: "mount", Expect: "EPERM", Errno: "none"}},
		{Shape: "user", Row: 3, Attempt: confine.Attempt{Layer: escape.Doors, Name: "POST /", Expect: "404", Errno: "404", Pass: true}},
	}
	var b bytes.Buffer
	if err := escape.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	const want = `RED  user 2  syscalls      mount: none, want EPERM
ok   root            1 attempts, 0 red
RED  syscalls        1 attempts, 1 red
ok   doors           1 attempts, 0 red
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := escape.RowOf(string(text)); !ok || got != row {
			t.Errorf("%s was read as %+v, %v", text, got, ok)
		}
	}
	for _, note := range []string{"", "transport-check", "{}", `{"shape":"user"}`, `{"shape":"user","row":1,"layer":"root","more":1}`} {
		if _, ok := escape.RowOf(note); ok {
			t.Errorf("%q is taken for a row", note)
		}
	}
}

func TestUsed(t *testing.T) {
	proven := confine.Cleanup{Proven: true}
	for _, tt := range []struct {
		what string
		exit confine.Exit
		want bool
	}{
		{"cpu", confine.Exit{Status: -1, Signal: "SIGKILL", Cleanup: proven}, true},
		{"cpu", confine.Exit{Status: 1, Cleanup: proven}, false},
		{"memory", confine.Exit{Status: 2, Cleanup: proven}, true},
		{"memory", confine.Exit{Status: 0, Cleanup: proven}, false},
		{"threads", confine.Exit{Status: 2}, false},
	} {
		if row := escape.Used("user", 1, tt.what, tt.exit); row.Pass != tt.want {
			t.Errorf("%+v: %+v", tt, row)
		}
	}
}
