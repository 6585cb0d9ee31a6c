package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTranscriptCounts(t *testing.T) {
	var out bytes.Buffer
	tr := &transcript{out: &out}
	tr.title("A step")
	tr.asked("ada", "exec command=true")
	tr.answered("one\ntwo\n3\n4\n5\n6\n7\n8\n9", 1500*time.Microsecond)
	if !tr.check(true, "right") || tr.check(false, "not %s", "right") {
		t.Error("check does not return what it was given")
	}
	tr.notShown("no bricks", "a wall")
	if tr.passed != 1 || tr.failed != 1 || tr.unseen != 1 {
		t.Errorf("counted %d, %d, %d; want one each", tr.passed, tr.failed, tr.unseen)
	}
	text := out.String() + tr.summary(2*time.Second)
	for _, want := range []string{"1. A step", "ada → exec", "one   (1.5 ms)", "... 2 more lines", "✓ right", "✗ WRONG: not right",
		"NOT SHOWN (no bricks): a wall", "1 checks passed, 1 failed, 1 could not be shown here, in 2.0 s"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("colours without a terminal")
	}
}

// A long argument is cut, and a command is shown as typed.
func TestBrief(t *testing.T) {
	got := brief(map[string]any{"command": `echo "hi"`, "base64": strings.Repeat("A", 1000), "cursor": 7})
	if !strings.Contains(got, `command=echo "hi"`) || !strings.Contains(got, "cursor=7") || !strings.Contains(got, "(1002 bytes)") || len(got) > 200 {
		t.Errorf("got %s", got)
	}
}
