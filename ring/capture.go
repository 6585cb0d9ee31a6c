package ring

import "sync"

// A Capture keeps the first bytes and the last bytes of each stream of one command and counts all of them. Its memory is
// bounded by what it was told to keep, and grows only with what was written.
type Capture struct {
	head, tail int
	full       chan struct{}

	// mu guards all below; a command's two streams are written by two goroutines.
	mu      sync.Mutex
	isFull  bool
	streams [streams]captured
}

// captured is the state of one stream.
type captured struct {
	head  []byte
	tail  []byte // circular once it has its full length
	next  int    // where the next byte goes in a circular tail: the oldest byte
	total int64
}

// Captured is what is left of one stream. Head and Tail never overlap; Head comes before Tail, and bytes between them are
// missing if and only if Total is more than both.
type Captured struct {
	Head  []byte `json:"head"`
	Tail  []byte `json:"tail"`
	Total int64  `json:"total"`
}

// Truncated reports whether bytes are missing.
func (c Captured) Truncated() bool { return c.Total > int64(len(c.Head)+len(c.Tail)) }

// NewCapture returns a Capture that keeps the first head and the last tail bytes of each stream. Less than zero counts as
// zero.
func NewCapture(head, tail int) *Capture {
	return &Capture{head: max(head, 0), tail: max(tail, 0), full: make(chan struct{})}
}

// Write appends a copy of p to stream s. It never waits and never fails.
func (c *Capture) Write(s Stream, p []byte) {
	mustBeStream(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.streams[s]
	st.total += int64(len(p))
	n := min(c.head-len(st.head), len(p))
	st.head = append(st.head, p[:n]...)
	st.keepLast(p[n:], c.tail)
	if c.tail == 0 && n < len(p) && !c.isFull {
		c.isFull = true
		close(c.full)
	}
}

// Full returns a channel that is closed when a stream went past what can be kept of its beginning and no end is kept:
// nothing that follows can matter. With a tail it is never closed.
func (c *Capture) Full() <-chan struct{} { return c.full }

// Stream returns what was kept of stream s. Later writes do not change it.
func (c *Capture) Stream(s Stream) Captured {
	mustBeStream(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.streams[s]
	last := make([]byte, 0, len(st.tail))
	last = append(last, st.tail[st.next:]...)
	last = append(last, st.tail[:st.next]...)
	// The head only ever grows behind its length, so that it needs no copy.
	return Captured{Head: st.head[:len(st.head):len(st.head)], Tail: last, Total: st.total}
}

// keepLast appends p to a tail of at most size bytes.
func (st *captured) keepLast(p []byte, size int) {
	if len(p) > size {
		p = p[len(p)-size:]
	}
	n := min(size-len(st.tail), len(p))
	st.tail = append(st.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(st.tail[st.next:], p)
		st.next = (st.next + n) % size
	}
}
