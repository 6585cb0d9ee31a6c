package ring_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"playground/ring"
)

// TestLogProperties drives a log with any writes, cuts of text, cursors and page sizes, and compares every page with a
// model: no byte is lost or repeated, what is dropped adds up, bounds hold, and text is never cut inside a rune.
func TestLogProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{
			maxBytes:  rapid.OneOf(rapid.IntRange(4, 40), rapid.IntRange(4, 300<<10)).Draw(t, "maxBytes"),
			maxChunks: rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(1, 1024)).Draw(t, "maxChunks"),
			text:      rapid.Bool().Draw(t, "text"),
			rest:      make(map[ring.Stream][]byte),
		}
		d.m = newModel(d.maxBytes, d.maxChunks, d.text)
		t.Repeat(map[string]func(*rapid.T){
			"write": d.write, "next": d.next, "retry": d.retry, "anywhere": d.anywhere, "future": d.future, "close": d.close,
			"": d.check,
		})
	})
}

// A driver is the state machine of TestLogProperties: a reader that goes on from page to page, and two streams.
type driver struct {
	maxBytes, maxChunks   int
	text                  bool
	m                     *model
	cursor, read, dropped int64
	closed                bool
	// rest is the text that a stream has begun and not yet written: writes may end inside a rune.
	rest map[ring.Stream][]byte
}

// page reads and checks one page.
func (d *driver) page(t *rapid.T, cursor int64, limit int) ring.Page {
	page, err := d.m.check(cursor, limit, d.maxChunks)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func (d *driver) write(t *rapid.T) {
	if d.closed {
		t.Skip("closed")
	}
	s := rapid.SampledFrom([]ring.Stream{ring.Stdout, ring.Stderr}).Draw(t, "stream")
	p := drawOutput(t, d.text)
	if d.text {
		p = append(d.rest[s], p...)
		cut := max(0, len(p)-rapid.IntRange(0, 4).Draw(t, "cut"))
		p, d.rest[s] = p[:cut], bytes.Clone(p[cut:])
	}
	d.m.write(s, p)
}

func (d *driver) next(t *rapid.T) {
	page := d.page(t, d.cursor, drawLimit(t))
	for _, c := range page.Chunks {
		d.read += int64(len(c.Data))
	}
	d.dropped += page.Dropped
	d.cursor = page.Next
}

func (d *driver) retry(t *rapid.T) {
	limit := drawLimit(t)
	first, second := d.page(t, d.cursor, limit), d.page(t, d.cursor, limit)
	if first.Next != second.Next || len(first.Chunks) != len(second.Chunks) {
		t.Fatalf("two reads at %d ended at %d and %d", d.cursor, first.Next, second.Next)
	}
}

func (d *driver) anywhere(t *rapid.T) {
	if d.text {
		t.Skip("a made-up cursor may lie inside a rune")
	}
	d.page(t, rapid.Int64Range(0, int64(len(d.m.data))).Draw(t, "cursor"), drawLimit(t))
}

func (d *driver) future(t *rapid.T) {
	if _, err := d.m.log.Read(int64(len(d.m.data))+rapid.Int64Range(1, 1<<40).Draw(t, "ahead"), 10); err == nil {
		t.Fatal("a future cursor was taken")
	}
}

func (d *driver) close(t *rapid.T) {
	if d.closed || rapid.IntRange(0, 9).Draw(t, "luck") > 0 {
		t.Skip("not now")
	}
	for _, s := range []ring.Stream{ring.Stdout, ring.Stderr} {
		d.m.write(s, d.rest[s])
	}
	d.m.close()
	d.m.log.Write(ring.Stdout, []byte("late"))
	d.closed = true
}

func (d *driver) check(t *rapid.T) {
	if err := d.m.checkBounds(d.maxBytes); err != nil {
		t.Fatal(err)
	}
	if d.read+d.dropped != d.cursor {
		t.Fatalf("%d read and %d dropped bytes at cursor %d", d.read, d.dropped, d.cursor)
	}
}

func drawOutput(t *rapid.T, text bool) []byte {
	var p []byte
	if text {
		p = []byte(rapid.StringN(0, 40, -1).Draw(t, "text"))
	} else {
		// Beginnings and ends of runes in any order.
		nasty := rapid.SampledFrom([]byte("a\xc3\xa9\xe2\x82\xac\xe0\xf0\x9f\x98\x80\xff"))
		p = rapid.SliceOfN(rapid.OneOf(nasty, rapid.Byte()), 0, 40).Draw(t, "bytes")
	}
	// Now and then much at once, so that chunks and the log itself overflow.
	return bytes.Repeat(p, rapid.SampledFrom([]int{1, 1, 1, 1, 50, 5000}).Draw(t, "times"))
}

func drawLimit(t *rapid.T) int {
	return rapid.OneOf(rapid.IntRange(-1, 12), rapid.IntRange(1, 256<<10)).Draw(t, "limit")
}

// TestCaptureProperties compares a capture with all that was written.
func TestCaptureProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(0, 30).Draw(t, "head"), rapid.IntRange(0, 30).Draw(t, "tail")
		c := ring.NewCapture(head, tail)
		all := map[ring.Stream][]byte{}
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			s := rapid.SampledFrom([]ring.Stream{ring.Stdout, ring.Stderr}).Draw(t, "stream")
			p := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "p")
			all[s] = append(all[s], p...)
			c.Write(s, p)
		}
		full := false
		for s, want := range all {
			got := c.Stream(s)
			n := min(head, len(want))
			last := want[n:][max(0, len(want[n:])-tail):]
			if got.Total != int64(len(want)) || !bytes.Equal(got.Head, want[:n]) || !bytes.Equal(got.Tail, last) {
				t.Fatalf("captured %+v of %d bytes with head %d and tail %d", got, len(want), head, tail)
			}
			if got.Truncated() != (len(want) > head+tail) {
				t.Fatalf("truncated is %v for %d bytes with head %d and tail %d", got.Truncated(), len(want), head, tail)
			}
			full = full || tail == 0 && len(want) > head
		}
		select {
		case <-c.Full():
			if !full {
				t.Fatal("full without need")
			}
		default:
			if full {
				t.Fatal("not full")
			}
		}
	})
}
