package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A transcript writes what was asked, what came back and how long it took, and counts what was not as it should be.
type transcript struct {
	out    io.Writer
	colour bool
	step   int
	passed int
	failed int
	unseen int // steps that this host cannot show
}

// The looks of a terminal; a file gets plain text.
const (
	bold  = "1"
	dim   = "2"
	red   = "1;31"
	green = "32"
	gold  = "33"
)

func (t *transcript) paint(look, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// title begins a numbered step.
func (t *transcript) title(format string, args ...any) {
	t.step++
	fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, fmt.Sprintf("%d. %s", t.step, fmt.Sprintf(format, args...))))
}

// asked shows a request.
func (t *transcript) asked(who, what string) {
	fmt.Fprintf(t.out, "   %s %s\n", t.paint(dim, who+" →"), what)
}

// answered shows an answer and its time; more than a few lines are cut in the middle of nothing important.
func (t *transcript) answered(text string, took time.Duration) {
	const most = 7
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if extra := len(lines) - most; extra > 0 {
		lines = append(lines[:most], fmt.Sprintf("... %d more lines", extra))
	}
	for i, line := range lines {
		if i == 0 {
			line += t.paint(dim, fmt.Sprintf("   (%s)", spent(took)))
		}
		fmt.Fprintf(t.out, "      %s\n", line)
	}
}

// note shows a line of explanation.
func (t *transcript) note(format string, args ...any) {
	fmt.Fprintf(t.out, "   %s\n", t.paint(dim, fmt.Sprintf(format, args...)))
}

// check records whether something is as it should be. It returns ok.
func (t *transcript) check(ok bool, format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	if ok {
		t.passed++
		fmt.Fprintf(t.out, "   %s %s\n", t.paint(green, "✓"), text)
	} else {
		t.failed++
		fmt.Fprintf(t.out, "   %s %s\n", t.paint(red, "✗ WRONG:"), text)
	}
	return ok
}

// notShown marks something that cannot be shown, and why.
func (t *transcript) notShown(why, format string, args ...any) {
	t.unseen++
	fmt.Fprintf(t.out, "   %s %s\n", t.paint(gold, "- NOT SHOWN ("+why+"):"), fmt.Sprintf(format, args...))
}

// noIsolation is the usual reason.
const noIsolation = "no isolation on this host"

// spent shows a duration with a sensible number of digits.
func spent(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
