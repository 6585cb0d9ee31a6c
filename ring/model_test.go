package ring_test

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"playground/ring"
)

// A model is what a Log would be without bounds, kept in the most obvious way: every byte with its stream.
type model struct {
	log     *ring.Log
	data    []byte
	streams []ring.Stream
	held    map[ring.Stream][]byte
	text    bool // the streams are valid UTF-8
}

func newModel(maxBytes, maxChunks int, text bool) *model {
	return &model{log: ring.New(maxBytes, maxChunks), held: make(map[ring.Stream][]byte), text: text}
}

// write writes to the log and to the model.
func (m *model) write(s ring.Stream, p []byte) {
	scratch := bytes.Clone(p)
	m.log.Write(s, scratch)
	for i := range scratch {
		scratch[i] = 0xAA // the log must have copied
	}
	all := append(m.held[s], p...)
	keep := len(all)
	for i := len(all) - 1; i >= 0 && i >= len(all)-3; i-- {
		if utf8.RuneStart(all[i]) {
			if !utf8.FullRune(all[i:]) {
				keep = i
			}
			break
		}
	}
	m.add(s, all[:keep])
	m.held[s] = bytes.Clone(all[keep:])
}

// close closes the log and the model.
func (m *model) close() {
	m.log.Close()
	m.add(ring.Stdout, m.held[ring.Stdout])
	m.add(ring.Stderr, m.held[ring.Stderr])
	m.held = make(map[ring.Stream][]byte)
}

func (m *model) add(s ring.Stream, p []byte) {
	m.data = append(m.data, p...)
	for range p {
		m.streams = append(m.streams, s)
	}
}

// check reads one page, compares it with the model and returns it.
func (m *model) check(cursor int64, limit, maxChunks int) (ring.Page, error) {
	page, err := m.log.Read(cursor, limit)
	if err != nil {
		return page, fmt.Errorf("read at %d of %d: %w", cursor, len(m.data), err)
	}
	at, size := cursor, 0
	if page.Gap != (page.Dropped > 0) {
		return page, fmt.Errorf("gap %v with %d dropped bytes", page.Gap, page.Dropped)
	}
	at += page.Dropped
	for _, c := range page.Chunks {
		size += len(c.Data)
		end := c.Sequence + int64(len(c.Data))
		switch {
		case c.Sequence != at:
			return page, fmt.Errorf("chunk at %d, want %d", c.Sequence, at)
		case len(c.Data) == 0 || len(c.Data) > 64<<10:
			return page, fmt.Errorf("chunk of %d bytes", len(c.Data))
		case end > int64(len(m.data)) || !bytes.Equal(c.Data, m.data[at:end]):
			return page, fmt.Errorf("chunk at %d has other bytes than were written", at)
		case m.text && !utf8.Valid(c.Data):
			return page, fmt.Errorf("chunk at %d is cut inside a rune: %q", at, c.Data)
		}
		for i := at; i < end; i++ {
			if m.streams[i] != c.Stream {
				return page, fmt.Errorf("byte %d is of stream %v, want %v", i, c.Stream, m.streams[i])
			}
		}
		at = end
	}
	switch {
	case page.Next != at:
		return page, fmt.Errorf("next is %d, want %d", page.Next, at)
	case size > max(limit, utf8.UTFMax):
		return page, fmt.Errorf("page of %d bytes, limit %d", size, limit)
	case len(page.Chunks) > maxChunks:
		return page, fmt.Errorf("page of %d chunks, limit %d", len(page.Chunks), maxChunks)
	case page.More != (at < int64(len(m.data))):
		return page, fmt.Errorf("more is %v at %d of %d", page.More, at, len(m.data))
	case page.More && page.Next == cursor:
		return page, fmt.Errorf("no progress at %d of %d", cursor, len(m.data))
	}
	return page, nil
}

// checkBounds compares what is held with the bounds.
func (m *model) checkBounds(maxBytes int) error {
	oldest, end := m.log.Bounds()
	switch {
	case end != int64(len(m.data)):
		return fmt.Errorf("end is %d, want %d", end, len(m.data))
	case end-oldest > int64(maxBytes):
		return fmt.Errorf("%d bytes are held, limit %d", end-oldest, maxBytes)
	case oldest < 0 || oldest > end:
		return fmt.Errorf("oldest is %d, end %d", oldest, end)
	}
	return nil
}
