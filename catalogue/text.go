package catalogue

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"playground/job"
	"playground/ring"
	"playground/sandbox"
)

// markerBytes is set aside for the lines between the parts of an output text.
const markerBytes = 256

// execText is a command's end and output for a model: the outcome first, because readers of cut results see the front,
// then notes, stdout, and stderr under a marker. truncated says that the text leaves output out.
func execText(e job.Execution, budget int) (words string, truncated bool) {
	var b strings.Builder
	b.WriteString(outcomeText(e.Result))
	out, errs := newExcerpt(e.Stdout), newExcerpt(e.Stderr)
	if out.foreign || errs.foreign {
		b.WriteString("\nnote: the output is not all UTF-8; other bytes show as \uFFFD. For exact bytes redirect to a file and use read")
	}
	room := max(budget-b.Len()-markerBytes, 0)
	// Each stream gets what it needs, or half, or what the other one leaves.
	outRoom := min(out.cost, max(room/2, room-errs.cost))
	outText, outLeft := out.render(outRoom)
	errText, errLeft := errs.render(room - outRoom)
	if e.Stdout.Total > 0 {
		b.WriteString("\n" + outText)
	}
	if e.Stderr.Total > 0 {
		if !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString("--- stderr ---\n" + errText)
	}
	return b.String(), outLeft+errLeft > 0
}

// outcomeText is a command's end in one line, and one more line for each thing the reader should know.
func outcomeText(r job.Result) string {
	var b strings.Builder
	took := duration(r.DurationMS)
	switch r.Outcome {
	case job.Exited:
		code := -1
		if r.ExitCode != nil {
			code = *r.ExitCode
		}
		fmt.Fprintf(&b, "exit %d in %s", code, took)
	case job.Signalled:
		fmt.Fprintf(&b, "killed by %s after %s", r.Signal, took)
	case job.TimedOut:
		fmt.Fprintf(&b, "timed out after %s; killed with its tree", took)
	case job.Cancelled:
		fmt.Fprintf(&b, "cancelled after %s; killed with its tree", took)
	case job.Failed:
		fmt.Fprintf(&b, "failed: %s", r.Error)
		if hint := sandbox.NextStep(r.Error); hint != "" {
			b.WriteString("\nhint: " + hint)
		}
	default:
		fmt.Fprintf(&b, "%s after %s", r.Outcome, took)
	}
	for _, hint := range r.Hints {
		b.WriteString("\nnote: " + hint)
	}
	if n := r.Cleanup.Killed; n > 0 && (r.Outcome == job.Exited || r.Outcome == job.Signalled) {
		if n == 1 {
			b.WriteString("\n1 process left running was killed; run servers with job_exec")
		} else {
			fmt.Fprintf(&b, "\n%d processes left running were killed; run servers with job_exec", n)
		}
	}
	if !r.Cleanup.Proven {
		b.WriteString("\nnote: it is not proved that all its processes are gone; new commands are refused until the operator has looked")
	}
	return b.String()
}

func duration(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return fmt.Sprintf("%d s", (ms+500)/1000)
}

// An excerpt is what is there of one stream: its front and, after a gap, its end.
type excerpt struct {
	front, end []byte
	total      int64
	cost       int  // size as text of all that is there
	foreign    bool // holds bytes that are not UTF-8
}

func newExcerpt(c ring.Captured) excerpt {
	x := excerpt{front: c.Head, end: c.Tail, total: c.Total}
	if c.Truncated() {
		// The gap may have cut runes in two; the halves count as left out.
		x.front, x.end = x.front[:len(x.front)-halfRune(x.front)], x.end[leadingHalf(x.end):]
	} else {
		x.front, x.end = append(x.front[:len(x.front):len(x.front)], x.end...), nil
	}
	x.cost = textSize(x.front) + textSize(x.end)
	x.foreign = !utf8.Valid(x.front) || !utf8.Valid(x.end)
	return x
}

// render returns the excerpt in at most room bytes, but for the line that stands for what is left out, and how many bytes
// that is.
func (x excerpt) render(room int) (words string, left int64) {
	front, end := x.front, x.end
	switch {
	case x.cost <= room:
	case len(end) == 0:
		n := fitFront(front, room/2)
		front, end = front[:n], front[n:]
		end = end[len(end)-fitEnd(end, room-textSize(front)):]
	default:
		front = front[:fitFront(front, max(room/2, room-textSize(end)))]
		end = end[len(end)-fitEnd(end, room-textSize(front)):]
	}
	left = x.total - int64(len(front)) - int64(len(end))
	if left == 0 {
		return asText(front) + asText(end), 0
	}
	line := fmt.Sprintf("[... %d of %d bytes left out; redirect to a file to see all ...]\n", left, x.total)
	if len(front) > 0 && front[len(front)-1] != '\n' {
		line = "\n" + line
	}
	return asText(front) + line + asText(end), left
}

// pollText is a page for a model. What does not fit into the budget is not lost: the text names the cursor to go on with.
func pollText(page job.Page, budget int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s; next cursor %d", page.JobID, page.State, page.NextCursor)
	if page.HasMore {
		b.WriteString(", more output is ready")
	}
	if page.Result != nil {
		b.WriteString("\n" + outcomeText(*page.Result))
	}
	if page.Gap {
		fmt.Fprintf(&b, "\nnote: %d bytes of older output were dropped", page.DroppedBytes)
	}
	room := max(budget-b.Len()-markerBytes, 0)
	stream := ring.Stdout
	for i, chunk := range page.Chunks {
		if i == 0 || chunk.Stream != stream {
			if !strings.HasSuffix(b.String(), "\n") {
				b.WriteString("\n")
			}
			if i > 0 || chunk.Stream != ring.Stdout {
				mark := "--- " + chunk.Stream.String() + " ---\n"
				room -= len(mark) + 1
				b.WriteString(mark)
			}
			stream = chunk.Stream
		}
		n := fitFront(chunk.Data, max(room, 0))
		b.WriteString(asText(chunk.Data[:n]))
		room -= textSize(chunk.Data[:n])
		if n < len(chunk.Data) {
			next := chunk.Sequence + int64(n)
			fmt.Fprintf(&b, "\n[... %d more bytes of this page; to see them poll with cursor %d ...]", page.NextCursor-next, next)
			break
		}
	}
	return b.String()
}

// asText shows bytes as text, one U+FFFD for each byte that is none.
func asText(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	return string([]rune(string(p)))
}

// runeCost is the size of p's first rune and of its text.
func runeCost(r rune, size int) int {
	if r == utf8.RuneError && size == 1 {
		return len("\uFFFD")
	}
	return size
}

func textSize(p []byte) (cost int) {
	if utf8.Valid(p) {
		return len(p)
	}
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		cost += runeCost(r, size)
		p = p[size:]
	}
	return cost
}

// fitFront is the length of p's longest front whose text has at most room bytes.
func fitFront(p []byte, room int) (n int) {
	for n < len(p) {
		r, size := utf8.DecodeRune(p[n:])
		if room -= runeCost(r, size); room < 0 {
			break
		}
		n += size
	}
	return n
}

// fitEnd is the length of p's longest end whose text has at most room bytes.
func fitEnd(p []byte, room int) (n int) {
	for n < len(p) {
		r, size := utf8.DecodeLastRune(p[:len(p)-n])
		if room -= runeCost(r, size); room < 0 {
			break
		}
		n += size
	}
	return n
}

// halfRune is the length of the incomplete rune at p's end.
func halfRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// leadingHalf is the length of what p's first bytes continue.
func leadingHalf(p []byte) int {
	n := 0
	for n < len(p) && n < utf8.UTFMax-1 && !utf8.RuneStart(p[n]) {
		n++
	}
	return n
}
