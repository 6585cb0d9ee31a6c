package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A session is one stateful MCP session. The SDK has a table of its own; this one knows what the SDK's does not: how many
// there are, that an open GET stream is a use, and which calls to end with it.
type session struct {
	id     string
	ss     *mcp.ServerSession
	ctx    context.Context // ends the session's calls
	cancel context.CancelCauseFunc
	refs   int         // requests being served; guarded by the endpoint's mu
	timer  *time.Timer // fires when refs was 0 for the idle time
}

// session returns the session of a message that has reached the server, and opens it when that message is its first.
func (e *endpoint) session(ss *mcp.ServerSession, who *caller, method string) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[ss.ID()]; s != nil {
		return s
	}
	if method != "initialize" || !who.starting || e.ctx.Err() != nil {
		return nil // it has ended, or its first request was given up
	}
	who.starting = false
	e.starting--
	s := &session{id: ss.ID(), ss: ss, refs: 1} // the initialize request itself
	s.ctx, s.cancel = context.WithCancelCause(e.ctx)
	s.timer = time.AfterFunc(e.transport.options.SessionIdle, func() { e.expire(s) })
	s.timer.Stop()
	e.sessions[s.id] = s
	e.watchers.Go(func() { e.watch(s) })
	return s
}

// watch waits for the end of a session, whatever ends it, and forgets it.
func (e *endpoint) watch(s *session) {
	logger := e.transport.options.Logger
	logger.Info().Str("tenant", e.tenant).Msg(eventSessionOpened)
	_ = s.ss.Wait()
	e.remove(s)
	s.cancel(errClosed)
	logger.Info().Str("tenant", e.tenant).Msg(eventSessionClosed)
}

func (e *endpoint) remove(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.timer.Stop()
	if e.sessions[s.id] == s {
		delete(e.sessions, s.id)
	}
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// inSession serves a request that names a session. An id that the tenant does not have is unknown, whoever else has it.
func (e *endpoint) inSession(name string, who *caller, w *stream, r *http.Request, id json.RawMessage) {
	e.mu.Lock()
	s := e.sessions[name]
	if s != nil {
		s.refs++
		s.timer.Stop()
	}
	e.mu.Unlock()
	if s == nil {
		unknownSession().write(w, id)
		return
	}
	defer e.leave(s)
	if r.Method == http.MethodDelete {
		// The SDK waits for the session's calls, so they are ended first.
		s.cancel(errClosed)
		defer e.remove(s)
	}
	e.serve(e.stateful, who, w, r)
}

// leave ends one use of a session; after the last one the idle time begins.
func (e *endpoint) leave(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.refs--
	if s.refs == 0 && e.sessions[s.id] == s {
		s.timer.Reset(e.transport.options.SessionIdle)
	}
}

// expire closes a session that has been idle. A request that came at the last moment keeps it.
func (e *endpoint) expire(s *session) {
	e.mu.Lock()
	if s.refs > 0 || e.sessions[s.id] != s {
		e.mu.Unlock()
		return
	}
	delete(e.sessions, s.id)
	e.mu.Unlock()
	s.cancel(errClosed)
	_ = s.ss.Close()
}
