package catalogue

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"playground/fault"
	"playground/job"
	"playground/ring"
	"playground/sandbox"
)

// No arguments, however bad, do anything but pass the check or get a typed refusal with a hint.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `null`, `{}`, `[]`, `{"session":"s","command":"c","timeout_ms":1e3}`, `{"env":{"A":"b"}}`, `{"env":{"A":null}}`,
		`{"cursor":9007199254740993}`, `{"text":"\ud800"}`, `{"a":1,"a":2}`, `{"session"`, "{\"session\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	c := &catalogue{provider: sandbox.New(nil, nil, sandbox.Options{}), options: Options{Limits: job.DefaultLimits()}}
	tools := c.tools()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, tool := range tools {
			args, err := tool.arguments(json.RawMessage(raw))
			if err != nil {
				if !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
					t.Errorf("%s(%q): %v", tool.name, raw, err)
				}
				continue
			}
			for _, p := range tool.params {
				value, ok := args[p.name]
				if p.required && !ok {
					t.Errorf("%s(%q): %s is missing", tool.name, raw, p.name)
				}
				if n, isInt := value.(int64); isInt && (n < p.min || n > p.max) {
					t.Errorf("%s(%q): %s is %d", tool.name, raw, p.name, n)
				}
			}
		}
	})
}

// Any output fits the budget as valid text, and what the marker counts adds up.
func FuzzExecText(f *testing.F) {
	f.Add([]byte("hello"), []byte(""), 600)
	f.Add([]byte("h\xffllo\xe2\x82"), []byte("ääääääääääää"), 300)
	f.Fuzz(func(t *testing.T, out, errs []byte, budget int) {
		budget = 512 + (budget&0x7fffffff)%2048
		capture := ring.NewCapture(budget/2, budget/2)
		capture.Write(ring.Stdout, out)
		capture.Write(ring.Stderr, errs)
		e := job.Execution{Result: job.Result{Outcome: job.Exited, Cleanup: job.Cleanup{Proven: true}}, Stdout: capture.Stream(ring.Stdout), Stderr: capture.Stream(ring.Stderr)}
		words, truncated := execText(e, budget)
		if len(words) > budget+markerBytes || !utf8.ValidString(words) {
			t.Errorf("%d bytes of text for a budget of %d", len(words), budget)
		}
		if !truncated && (e.Stdout.Truncated() || e.Stderr.Truncated()) {
			t.Error("a cut output is not said to be one")
		}
	})
}

func TestWholeNumber(t *testing.T) {
	for in, want := range map[string]int64{"9007199254740993": 9007199254740993, "5.0": 5, "1e3": 1000, "-0": 0} {
		if got, ok := wholeNumber(json.RawMessage(in)); !ok || got != want {
			t.Errorf("%s = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"1.5", "1e300", `"5"`, "true", "9223372036854775808", "[1]"} {
		if got, ok := wholeNumber(json.RawMessage(in)); ok {
			t.Errorf("%s = %d", in, got)
		}
	}
}

func TestHalfSurrogate(t *testing.T) {
	for in, want := range map[string]bool{
		`""`: false, `"a"`: false, `"\ud83d\ude00"`: false, `"x\ud83d\ude00\ud83d\ude01"`: false, `"\\ud800"`: false, `"\ufffd"`: false, `"\u0041"`: false,
		`"\ud800"`: true, `"\udc00"`: true, `"\ud800x"`: true, `"\ud800\n"`: true, `"\ud800\u0041"`: true, `"\ud800\ud800"`: true, `"\\\ud800"`: true,
		`"\ude00\ud83d"`: true, `"\ud83d\ude00\ud83d"`: true,
	} {
		if got := halfSurrogate(json.RawMessage(in)); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func FuzzHalfSurrogate(f *testing.F) {
	f.Add(`"\ud83d\ude00"`)
	f.Add(`"\\ud800\ud800"`)
	f.Fuzz(func(t *testing.T, in string) {
		var s string
		if !utf8.ValidString(in) || json.Unmarshal([]byte(in), &s) != nil {
			return
		}
		// A replacement that was not written out, by itself or as an escape, comes from half a pair.
		replaced := strings.Count(s, "\uFFFD") - strings.Count(in, "\uFFFD") - len(regexp.MustCompile(`(?i)\\ufffd`).FindAllString(in, -1))
		if got := halfSurrogate(json.RawMessage(in)); replaced > 0 && !got || got && !strings.Contains(s, "\uFFFD") {
			t.Errorf("%q: %v", in, got)
		}
	})
}
