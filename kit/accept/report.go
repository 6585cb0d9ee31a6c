package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A report writes TAP: one line a check, with what was expected and what was seen, so that a failure tells its cause where
// nobody can look at the host.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	count   int
	failed  int
	skipped int
	stopped func() bool // somebody has ended the play: what is wrong since then says nothing
}

// check writes one line and returns ok.
func (r *report) check(ok bool, name, expected, seen string, args ...any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	verdict := "ok"
	if !ok && r.stopped != nil && r.stopped() {
		r.skipped++
		fmt.Fprintf(r.out, "ok %d - %s # SKIP the play was ended from outside: %s\n", r.count, plain(name), plain(fmt.Sprintf(seen, args...)))
		return false
	}
	if !ok {
		verdict = "not ok"
		r.failed++
	}
	fmt.Fprintf(r.out, "%s %d - %s | expected: %s | seen: %s\n", verdict, r.count, plain(name), plain(expected), plain(fmt.Sprintf(seen, args...)))
	return ok
}

// skip says that a check cannot be made here, and why.
func (r *report) skip(name, reason string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.skipped++
	fmt.Fprintf(r.out, "ok %d - %s # SKIP %s\n", r.count, plain(name), plain(fmt.Sprintf(reason, args...)))
}

// note writes lines that are no check.
func (r *report) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintf(r.out, "# %s\n", strings.TrimRight(line, "\n"))
	}
}

// plan ends the stream.
func (r *report) plan() { fmt.Fprintf(r.out, "1..%d\n", r.count) }

// mostText is what one field of a line holds.
const mostText = 500

// plain makes text safe for one TAP line: no line breaks, no directives, no field marks, nothing that a terminal obeys.
func plain(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c == '#':
			return '='
		case c == '|':
			return '/'
		case c < ' ' || c == 0x7f:
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "..."
	}
	if text == "" {
		return "nothing"
	}
	return text
}
