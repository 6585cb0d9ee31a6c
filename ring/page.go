package ring

import (
	"context"
	"sort"
	"unicode/utf8"

	"playground/fault"
)

// A Chunk is consecutive bytes of one stream.
type Chunk struct {
	Sequence int64  `json:"sequence"` // the place of the first byte in the log
	Stream   Stream `json:"stream"`
	Data     []byte `json:"data"`
}

// A Page is what a reader gets for a cursor. It holds copies.
type Page struct {
	Chunks  []Chunk `json:"chunks"`
	Next    int64   `json:"next"`    // the cursor of the following page
	More    bool    `json:"more"`    // the log holds bytes from Next on already
	Gap     bool    `json:"gap"`     // bytes between the cursor and the first chunk were dropped
	Dropped int64   `json:"dropped"` // how many
	Closed  bool    `json:"closed"`  // no byte will be written any more
}

// Read returns the bytes from cursor on, at most limit of them; a limit below 4 counts as 4, so that a rune always fits and
// every page that can go on does. Any cursor from 0 to the end is good, and reading is without effect: a page may be asked
// for again, and is then the same or longer, unless its front was dropped meanwhile.
func (l *Log) Read(cursor int64, limit int) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cursor < 0 {
		return Page{}, fault.New(fault.Invalid, "cursor %d is negative", cursor).WithHint("begin with cursor 0")
	}
	if cursor > l.end {
		return Page{}, fault.New(fault.Invalid, "cursor %d is in the future: the output ends at %d", cursor, l.end).
			WithHint("use next_cursor of the last page, or 0 to read from the beginning")
	}
	page := Page{Next: cursor, Closed: l.closed}
	if cursor < l.oldest {
		page.Gap, page.Dropped, page.Next = true, l.oldest-cursor, l.oldest
	}
	l.fill(&page, max(limit, utf8.UTFMax))
	page.More = page.Next < l.end
	return page, nil
}

// fill adds the bytes from page.Next on to page, at most budget of them.
func (l *Log) fill(page *Page, budget int) {
	budget = int(min(l.end-page.Next, int64(budget)))
	if budget == 0 {
		return
	}
	// One allocation serves all chunks of the page.
	data := make([]byte, 0, budget)
	for i := l.find(page.Next); i < l.count && budget > 0; i++ {
		to := min(l.chunkEnd(i), page.Next+int64(budget))
		start := len(data)
		for at := page.Next; at < to; {
			piece := l.from(at, to)
			data = append(data, piece...)
			at += int64(len(piece))
		}
		piece := data[start:]
		if to < l.chunkEnd(i) {
			// The page ends inside a chunk. If not even one rune fits, the page is done; it has other chunks then.
			piece = piece[:len(piece)-incompleteTail(piece)]
			budget = len(piece)
		}
		if len(piece) == 0 {
			return
		}
		page.Chunks = append(page.Chunks, Chunk{
			Sequence: page.Next, Stream: l.mark(i).stream, Data: piece[:len(piece):len(piece)],
		})
		page.Next += int64(len(piece))
		budget -= len(piece)
	}
}

// find returns the index of the chunk that holds the byte at place.
func (l *Log) find(place int64) int {
	return sort.Search(l.count, func(i int) bool { return l.chunkEnd(i) > place })
}

// Wait returns nil as soon as the log holds bytes after cursor or is closed, and ctx's error if ctx ends before.
func (l *Log) Wait(ctx context.Context, cursor int64) error {
	for {
		news := l.newsAfter(cursor)
		if news == nil {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newsAfter returns a channel that is closed at the next change, or nil if there is something to read after cursor.
func (l *Log) newsAfter(cursor int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.end > cursor {
		return nil
	}
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return l.news
}
