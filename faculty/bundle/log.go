package bundle

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A plain writer hands on what a build prints as text that a terminal only shows: control characters, those of the writing
// direction too, and bytes that are no UTF-8 become codes like \x1b. A log is read with cat(1) as often as not.
type plain struct {
	w    io.Writer
	rest []byte // the beginning of a character whose end is still to come
	cr   bool   // a carriage return was the last character
}

// Write implements io.Writer; it reports the length of p, whatever was written for it.
func (t *plain) Write(p []byte) (int, error) {
	text := append(t.rest, p...)
	var b strings.Builder
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		t.show(&b, r, text[:size])
		text = text[size:]
	}
	t.rest = append([]byte(nil), text...)
	if _, err := io.WriteString(t.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// show writes one character. A carriage return ends a line, with or without the line feed that may follow: a progress bar
// stays readable, and nothing is written over.
func (t *plain) show(b *strings.Builder, r rune, bytes []byte) {
	after := t.cr
	t.cr = r == '\r'
	switch {
	case r == '\r' || r == '\n' && !after:
		b.WriteByte('\n')
	case r == '\n': // of the line that the carriage return ended
	case r == utf8.RuneError && len(bytes) == 1, unicode.IsControl(r) && r != '\t', unicode.Is(unicode.Bidi_Control, r):
		for _, c := range bytes {
			fmt.Fprintf(b, `\x%02x`, c)
		}
	default:
		b.Write(bytes)
	}
}

// A capped writer writes no more than left bytes and drops the rest: a build may print for ever.
type capped struct {
	w    io.Writer
	left int
}

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	if c.left == 0 {
		return len(p), nil
	}
	n := min(len(p), c.left)
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	if c.left -= n; c.left == 0 {
		fmt.Fprint(c.w, "\n[the log is full: more is not kept]\n")
	}
	return len(p), nil
}
