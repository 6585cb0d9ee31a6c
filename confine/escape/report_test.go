package escape_test

import (
	"slices"
	"strings"
	"testing"

	"playground/confine"
	"playground/confine/escape"
)

// whole are rows of which none is missing for the plan.
func whole(p escape.Plan) []escape.Row {
	names := []string{"open " + p.Files[0], "trace process 7", "connect to 127.0.0.1:80", "read the thread " + p.Other, "with the credential of an ended run: /v1/records"}
	var rows []escape.Row
	for i, layer := range slices.DeleteFunc(append(confine.Layers(), escape.Doors), func(l confine.Layer) bool { return l == confine.Image }) {
		name := "try"
		if i < len(names) {
			name = names[i]
		}
		rows = append(rows, escape.Row{Shape: p.Shape, Row: i + 1, Attempt: confine.Attempt{Layer: layer, Name: name, Pass: true}})
	}
	return rows
}

// TestMissing: what was not tried is said, so that silence never looks like success.
func TestMissing(t *testing.T) {
	p := escape.Plan{Shape: escape.SameUser, Files: []string{"/etc/passwd"}, Processes: []int{7}, Ports: []int{80}, Other: "th_other", Ended: "x"}
	rows := whole(p)
	said := escape.Summary(len(rows), 0)
	without := func(i int) []escape.Row { return slices.Delete(slices.Clone(rows), i, i+1) }
	for name, tt := range map[string]struct {
		rows []escape.Row
		said string
		want string // part of what is missing; "" = nothing is
	}{
		"nothing":               {rows, said, ""},
		"nothing, and a red":    {rows, escape.Summary(len(rows), 1) + ". The loop said: more", ""},
		"no end":                {rows, "the worker was ended by SIGKILL", "the end"},
		"no row at all":         {nil, said, "row 1"},
		"the first row":         {without(0), said, "row 1"},
		"one in the middle":     {without(5), said, "row 6"},
		"the last":              {without(len(rows) - 1), said, "row 13"},
		"a layer":               {without(3), said, "layer ipc"},
		"a row too many":        {append(slices.Clone(rows), rows[0]), said, "row 14"},
		"a file":                {without(0), said, "target /etc/passwd"},
		"a process":             {without(1), said, "target process 7"},
		"a port":                {without(2), said, "target 127.0.0.1:80"},
		"a thread":              {without(3), said, "target th_other"},
		"the ended credential":  {without(4), said, "target with the credential of an ended run"},
		"all, and it says none": {nil, escape.Summary(0, 0), "the end"},
	} {
		got := escape.Missing(p, tt.rows, tt.said)
		switch {
		case tt.want == "" && len(got) != 0, tt.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, tt.want) }):
			t.Errorf("%s: missing is %q, want %q", name, got, tt.want)
		case got == nil:
			t.Errorf("%s: null is no list", name)
		}
	}
	other := slices.Clone(rows)
	other[1].Name = "trace process 77"
	if got := escape.Missing(p, other, said); !slices.Contains(got, "target process 7") {
		t.Errorf("process 77 is taken for process 7: %q", got)
	}
}
