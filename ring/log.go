// Package ring keeps the output of commands in bounded memory. A Log is for a job that is polled: one side writes and
// never waits, never fails and never sees a reader; the other reads pages from any place it likes, as often as it likes.
// What no longer fits is dropped from the front, and every reader learns how much it missed. A Capture is for a command
// whose caller waits: it keeps the beginning and the end.
//
// Places in a Log are absolute byte offsets, so that a cursor is exact, a page may be asked for twice, and the bytes read
// and the bytes dropped add up to the bytes written. Text is never cut inside a rune, wherever chunks, pages and the
// dropped front begin or end, as long as each stream on its own is valid UTF-8.
package ring

import (
	"sync"
	"unicode/utf8"
)

const (
	// coalesceBytes is how far small writes of one stream fill up one chunk, so that a program that writes a byte at a
	// time does not use up the chunks.
	coalesceBytes = 4 << 10
	// chunkBytes is the most that one chunk holds.
	chunkBytes = 64 << 10
	// firstBuffer is the memory a Log begins with; most jobs print little.
	firstBuffer = 4 << 10
)

// A Log is a bounded byte log of two streams. All methods may be called at once from any goroutine; no method holds the
// lock for longer than a copy of memory takes.
type Log struct {
	maxBytes, maxChunks int

	// mu guards all below.
	mu sync.Mutex
	// buf holds byte n of the log at n % len(buf). It grows up to maxBytes, and nothing else grows with the output.
	buf         []byte
	oldest, end int64 // the log holds the bytes [oldest, end)
	// marks is a circular list of where the chunks begin; a chunk ends where the next begins, the last one at end.
	marks        []mark
	first, count int
	held         [streams]tail // an unfinished rune of each stream, not yet in the log
	total        [streams]int64
	closed       bool
	news         chan struct{} // closed at the next change; nil while nobody waits
}

// A mark is where a chunk begins.
type mark struct {
	seq    int64
	stream Stream
}

// A tail is the beginning of a rune.
type tail struct {
	b [utf8.UTFMax]byte
	n int
}

// New returns an empty Log that holds at most maxBytes bytes (at least 4, a rune) in at most maxChunks chunks (at least 1).
// It panics for less: that is a bug of the caller. Up to three bytes of each stream wait outside of these bounds.
func New(maxBytes, maxChunks int) *Log {
	if maxBytes < utf8.UTFMax || maxChunks < 1 {
		panic("internal error: ring: bounds are too small")
	}
	return &Log{maxBytes: maxBytes, maxChunks: maxChunks}
}

// Write appends a copy of p to stream s. It never waits for a reader and never fails; what is oldest is dropped to make
// room. An unfinished rune at the end of p is held back until the stream's next write or until Close, because the other
// stream may write first. After Close, Write does nothing.
func (l *Log) Write(s Stream, p []byte) {
	mustBeStream(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.total[s] += int64(len(p))
	before := l.end
	p = l.finishRune(s, p)
	whole := len(p) - incompleteTail(p)
	l.put(s, p[:whole])
	if whole < len(p) {
		l.held[s].n = copy(l.held[s].b[:], p[whole:])
	}
	if l.end != before {
		l.announce()
	}
}

// Close appends what was held back, takes no more writes and wakes who waits. It may be called more than once.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, s := range []Stream{Stdout, Stderr} {
		l.put(s, l.held[s].b[:l.held[s].n])
		l.held[s].n = 0
	}
	l.closed = true
	l.announce()
}

// Total returns how many bytes were written to stream s, dropped ones included.
func (l *Log) Total(s Stream) int64 {
	mustBeStream(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total[s]
}

// Bounds returns the place of the oldest byte that is still held and the place after the newest.
func (l *Log) Bounds() (oldest, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest, l.end
}

// finishRune puts the rune that s holds back together with the beginning of p, and returns the rest of p. If p does not
// finish the rune it is held back with the rest; if it cannot, the held bytes were never text and go as they are.
func (l *Log) finishRune(s Stream, p []byte) []byte {
	held := &l.held[s]
	if held.n == 0 {
		return p
	}
	b, n, used := held.b, held.n, 0
	for used < len(p) && !utf8.FullRune(b[:n]) {
		b[n] = p[used]
		n++
		used++
	}
	if !utf8.FullRune(b[:n]) {
		held.b, held.n = b, n
		return nil
	}
	if _, size := utf8.DecodeRune(b[:n]); size < n {
		n, used = held.n, 0
	}
	l.put(s, b[:n])
	held.n = 0
	return p[used:]
}

// put appends p, which ends with a whole rune, in as many chunks as it takes.
func (l *Log) put(s Stream, p []byte) {
	for len(p) > 0 {
		n := l.fit(s, p)
		fresh := n == 0 // otherwise both the newest chunk and p[:n] fit, so that making room leaves that chunk alone
		if fresh {
			n = wholeRunes(p, min(len(p), chunkBytes, l.maxBytes))
		}
		l.makeRoom(n)
		if fresh {
			l.beginChunk(s)
		}
		l.store(p[:n])
		p = p[n:]
	}
}

// fit returns how many bytes of p the newest chunk still takes.
func (l *Log) fit(s Stream, p []byte) int {
	if l.count == 0 {
		return 0
	}
	last := l.mark(l.count - 1)
	room := min(coalesceBytes, l.maxBytes) - int(l.end-last.seq)
	if last.stream != s || room <= 0 {
		return 0
	}
	return wholeRunes(p, min(len(p), room))
}

// makeRoom drops the oldest bytes until n more fit, and goes on to the next rune if that ended inside one.
func (l *Log) makeRoom(n int) {
	for {
		excess := l.end - l.oldest + int64(n) - int64(l.maxBytes)
		if excess <= 0 {
			return
		}
		chunkEnd := l.chunkEnd(0)
		cut := min(l.oldest+excess, chunkEnd)
		for i := 1; i < utf8.UTFMax && cut < chunkEnd && !utf8.RuneStart(l.at(cut)); i++ {
			cut++
		}
		if cut == chunkEnd {
			l.dropChunk()
			continue
		}
		l.mark(0).seq = cut
		l.oldest = cut
	}
}

// dropChunk forgets the oldest chunk.
func (l *Log) dropChunk() {
	l.oldest = l.chunkEnd(0)
	l.first = (l.first + 1) % len(l.marks)
	l.count--
}

// beginChunk begins an empty chunk at the end.
func (l *Log) beginChunk(s Stream) {
	if l.count == l.maxChunks {
		l.dropChunk()
	}
	if l.count == len(l.marks) {
		marks := make([]mark, min(max(2*l.count, 8), l.maxChunks))
		for i := range l.count {
			marks[i] = *l.mark(i)
		}
		l.marks, l.first = marks, 0
	}
	l.count++
	*l.mark(l.count - 1) = mark{seq: l.end, stream: s}
}

// store copies p to the end; there is room for it.
func (l *Log) store(p []byte) {
	if need := int(l.end-l.oldest) + len(p); need > len(l.buf) {
		bigger := make([]byte, min(max(2*len(l.buf), need, firstBuffer), l.maxBytes))
		for at := l.oldest; at < l.end; {
			// Each turn copies up to where either buffer wraps around.
			piece := l.from(at, l.end)
			at += int64(copy(bigger[at%int64(len(bigger)):], piece))
		}
		l.buf = bigger
	}
	for len(p) > 0 {
		n := copy(l.buf[l.end%int64(len(l.buf)):], p)
		l.end += int64(n)
		p = p[n:]
	}
}

// mark returns the i-th mark, the oldest chunk's being the 0th.
func (l *Log) mark(i int) *mark { return &l.marks[(l.first+i)%len(l.marks)] }

// chunkEnd returns the place after the i-th chunk.
func (l *Log) chunkEnd(i int) int64 {
	if i+1 < l.count {
		return l.mark(i + 1).seq
	}
	return l.end
}

// at returns the byte at a place.
func (l *Log) at(place int64) byte { return l.buf[place%int64(len(l.buf))] }

// from returns the bytes of [from, to), or as many of them as lie in one piece in memory.
func (l *Log) from(from, to int64) []byte {
	start := int(from % int64(len(l.buf)))
	return l.buf[start:min(start+int(to-from), len(l.buf))]
}

// announce wakes who waits.
func (l *Log) announce() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}
