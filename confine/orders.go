package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Orders are the first line on a worker's standard input. They hold nothing secret: a worker that is not confined yet reads them.
type Orders struct {
	Bounds Bounds `json:"bounds"`
	Parent int    `json:"parent"` // the daemon's process id
	// UID and GID are, on Linux, the host's ids that the worker maps itself to, 0 where the daemon did that; on FreeBSD the ids
	// that it takes.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
	JID int `json:"jid,omitempty"` // FreeBSD: the jail that it enters
	// Namespaces are the daemon's, for Linux: name to identity.
	Namespaces map[string]string `json:"namespaces,omitempty"`

	weakening
}

// An Attempt is something that must fail in a worker, tried, and what came of it.
type Attempt struct {
	Layer  Layer  `json:"layer"`
	Name   string `json:"attempt"`
	Expect string `json:"expect"` // names of errors, or what else is right, separated by "|"
	Errno  string `json:"errno"`  // the error's name, "none", or what else was seen
	Pass   bool   `json:"pass"`
}

// A Word is the one line that a worker writes once it is confined, before it has been told anything.
type Word struct {
	Error    string    `json:"error,omitempty"` // why it could not confine itself
	Attempts []Attempt `json:"attempts"`
}

// Bounds of what the two sides read of each other before the handoff.
const (
	maxOrders = 64 << 10
	maxWord   = 64 << 10
)

// readOrders reads the first line of a worker's standard input.
func readOrders(in *bufio.Reader) (Orders, error) {
	line, err := ReadLine(in, maxOrders)
	if err != nil {
		return Orders{}, fmt.Errorf("cannot read orders: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var o Orders
	if err := dec.Decode(&o); err != nil {
		return Orders{}, fmt.Errorf("cannot read orders: %w", err)
	}
	return o, o.Bounds.Validate()
}

// errLine is a line over its bound.
var errLine = errors.New("the line is too long")

// ReadLine reads one line of at most limit bytes and returns it without its end. The end of the input before a line's end is an
// error.
func ReadLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLine
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// parseWord reads a worker's word. What it says is data from a process that may be hostile: it is bounded, and nothing in it
// decides alone.
func parseWord(line []byte) (Word, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var w Word
	if err := dec.Decode(&w); err != nil {
		return Word{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if dec.More() {
		return Word{}, fmt.Errorf("%w: data after it", ErrReport)
	}
	return w, nil
}
