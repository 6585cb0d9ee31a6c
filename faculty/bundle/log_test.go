package bundle

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What a build prints can neither command the terminal of whoever reads its log nor write over what it said before.
func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"text":           {"made tool\tü €\n", "made tool\tü €\n"},
		"window title":   {"\x1b]0;evil\a", `\x1b]0;evil\x07`},
		"colour":         {"\x1b[31mred", `\x1b[31mred`},
		"C1":             {"\u009b31m", `\xc2\x9b31m`},
		"direction":      {"a\u202eb", `a\xe2\x80\xaeb`},
		"not UTF-8":      {"a\xffb", `a\xffb`},
		"DOS line ends":  {"a\r\nb\r\n", "a\nb\n"},
		"a progress bar": {"10%\r20%\r\n", "10%\n20%\n"},
		"NUL":            {"a\x00b", `a\x00b`},
	} {
		for _, size := range []int{1, 2, 1000} {
			var out bytes.Buffer
			w := &plain{w: &out}
			for rest := []byte(c.in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatalf("%s: %d, %v", name, n, err)
				}
			}
			if out.String() != c.want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, out.String(), c.want)
			}
		}
	}
}

func TestPlainIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		w := &plain{w: &out}
		for _, piece := range rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "pieces") {
			_, _ = w.Write(piece)
		}
		hidden := func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		}
		if text := out.String(); !utf8.ValidString(text) || strings.ContainsFunc(text, hidden) {
			t.Fatalf("%q", text)
		}
	})
}
