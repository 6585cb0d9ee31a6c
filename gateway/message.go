package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// A message is what the gateway looks at in a body: whether it begins a session, and which request an error answers. All
// else is between the client and the worker, malformed bodies included.
type message struct {
	method string
	id     json.RawMessage // a string or a number, or nil
}

// A brief is a member's value if it is short: arguments may be megabytes.
type brief []byte

// UnmarshalJSON implements json.Unmarshaler.
func (b *brief) UnmarshalJSON(p []byte) error {
	if len(p) <= 1024 {
		*b = bytes.Clone(p)
	}
	return nil
}

// peek looks into a body. What it cannot read, a compressed one for example, has no method and so begins no session.
func peek(r *http.Request, body []byte) (m message) {
	if r.Method != http.MethodPost || len(body) == 0 {
		return m
	}
	var members map[string]brief // not a struct, which would take "Method" for "method"
	if json.Unmarshal(body, &members) != nil {
		return m
	}
	if json.Unmarshal(members["method"], &m.method) != nil {
		m.method = ""
	}
	if id := members["id"]; len(id) > 0 && strings.IndexByte(`"-0123456789`, id[0]) >= 0 {
		m.id = json.RawMessage(id)
	}
	return m
}

// initializes reports whether a request begins a session. Most do not even hold the word, in whichever way it could be written.
func initializes(r *http.Request, body []byte) bool {
	return (bytes.Contains(body, []byte("initialize")) || bytes.Contains(body, []byte(`\u`))) && peek(r, body).method == "initialize"
}

// An eventTail follows an event stream and knows whether it stands between two events (the HTML standard, section 9.2.6), so that
// one more could be written after it.
type eventTail struct {
	head   [3]byte // of the current line
	length int     // of the current line
	open   bool    // the event has lines
	ids    bool    // some event has an id: the client can take up the stream again
	wasCR  bool
}

func (e *eventTail) write(p []byte) {
	for _, c := range p {
		switch {
		case c == '\n' && e.wasCR: // the second half of a line end
			e.wasCR = false
			continue
		case c == '\n' || c == '\r':
			e.line()
		default:
			if e.length < len(e.head) {
				e.head[e.length] = c
			}
			e.length++
		}
		e.wasCR = c == '\r'
	}
}

func (e *eventTail) line() {
	switch {
	case e.length == 0:
		e.open = false
	case e.head[0] == ':': // a comment
	default:
		e.open = true
		if e.head[0] == 'i' && e.head[1] == 'd' && (e.length == 2 || e.head[2] == ':') {
			e.ids = true
		}
	}
	e.length = 0
}

// between reports whether nothing of an event is unfinished.
func (e *eventTail) between() bool { return e.length == 0 && !e.open }
