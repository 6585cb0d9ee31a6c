package transport

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// writeTime bounds one write to a client. It stands in for the server's WriteTimeout, which would cut long streams.
const writeTime = 2 * time.Minute

// keepAlive is an SSE comment: clients and proxies see traffic, parsers skip it.
const keepAlive = ": keep-alive\n\n"

// A stream is the ResponseWriter that the SDK gets. While a tool is silent it writes keep-alive comments, so that neither
// a proxy nor a client that wants its headers soon gives up.
//
// The SDK writes from several goroutines, one after another, and would not expect a writer beside them. So all writes go
// through mu, and the headers that the SDK sets are a map of its own: comments before the first event use a copy of it
// that ready takes at a moment when the SDK does not touch it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	header  http.Header   // the SDK's
	every   time.Duration // between comments; 0 = none

	mu     sync.Mutex  // guards all use of w and what follows
	first  http.Header // headers for a comment that comes first; nil = not yet
	status int         // 0 = no headers were sent
	events bool        // the answer is an event stream
	early  bool        // its headers were sent by a comment
	closed bool
	timer  *time.Timer
	// The SDK refuses what its own checks find in plain text; clients show people a JSON-RPC error.
	asked *json.RawMessage // the id of the request that the SDK answers; nil = somebody else answers
	texts bool             // the answer is such a text
}

func newStream(w http.ResponseWriter, every time.Duration) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), header: http.Header{}, every: every}
	s.deadline()
	return s
}

// answers says that the SDK answers the request with id, which may be nil.
func (s *stream) answers(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = &id
}

// Header implements http.ResponseWriter.
func (s *stream) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeaderLocked(status, s.header)
}

func (s *stream) writeHeaderLocked(status int, header http.Header) {
	if s.status != 0 || s.closed {
		return
	}
	s.status, s.events = status, isEvents(header)
	s.deadline()
	maps.Copy(s.w.Header(), header)
	if s.asked != nil && status >= http.StatusBadRequest && strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		s.texts = true
		s.w.Header().Set("Content-Type", "application/json")
		s.w.Header().Del("Content-Length")
	}
	s.w.WriteHeader(status)
	if s.events {
		s.startLocked()
	}
}

// Write implements http.ResponseWriter.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, http.ErrHandlerTimeout
	}
	s.writeHeaderLocked(http.StatusOK, s.header)
	if s.texts {
		_, err := s.writeLocked(fromText(strings.TrimSpace(string(p)), *s.asked))
		return len(p), err
	}
	if s.early && !isEvents(s.header) {
		// A protocol error after the first comment: its status came too late, so it goes on as an event.
		_, err := s.writeLocked([]byte("event: message\ndata: " + string(p) + "\n\n"))
		return len(p), err
	}
	return s.writeLocked(p)
}

func (s *stream) writeLocked(p []byte) (int, error) {
	s.deadline()
	return s.w.Write(p)
}

// deadline gives the next write its time. The connection keeps it, so every request begins by setting it anew.
func (s *stream) deadline() {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // best effort, as for the body
}

// FlushError is what http.ResponseController looks for.
func (s *stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return http.ErrHandlerTimeout
	}
	s.writeHeaderLocked(http.StatusOK, s.header)
	return s.control.Flush()
}

// ready says that a call (not a notification, whose status is still to come) has reached its handler. From then on, and until the handler answers, the SDK leaves the
// headers alone, and the status can no longer be anything but 200.
func (s *stream) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil && s.status == 0 && isEvents(s.header) {
		s.first = s.header.Clone()
		s.startLocked()
	}
}

func (s *stream) startLocked() {
	if s.timer == nil && !s.closed && s.every > 0 {
		s.timer = time.AfterFunc(s.every, s.ping)
	}
}

func (s *stream) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.status == 0 {
		s.early = true
		s.writeHeaderLocked(http.StatusOK, s.first)
	}
	if _, err := s.writeLocked([]byte(keepAlive)); err != nil {
		return // the client is gone; the request's context says so too
	}
	_ = s.control.Flush()
	s.timer.Reset(s.every)
}

// close ends all use of w. The handler must not return before.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == 0 {
		s.writeHeaderLocked(http.StatusOK, s.header) // what net/http would do
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.deadline() // for what net/http still has to send
}

func isEvents(header http.Header) bool {
	return strings.HasPrefix(header.Get("Content-Type"), "text/event-stream")
}
