package gateway

import (
	"context"
	"crypto/rand"
	"time"
)

// A session is a public session id and what the worker calls the same session. The Gateway's mu guards it.
type session struct {
	public   string
	upstream string // empty: the worker keeps no sessions
	ctx      context.Context
	cancel   context.CancelCauseFunc
	uses     int         // exchanges that run
	idle     *time.Timer // fires when uses was 0 for the idle time
}

// reserve takes a place for a session that is about to begin; open or release gives it up.
func (g *Gateway) reserve(t *tenant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(t.sessions)+t.starting >= g.options.SessionsPerTenant || g.sessions >= g.options.SessionsPerHost {
		return false
	}
	t.starting++
	g.sessions++
	return true
}

func (g *Gateway) release(t *tenant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.starting--
	g.sessions--
}

// open makes a session of a reserved place. It is in use until leave is called. It returns nil when the tenant was closed
// meanwhile: whose token began it may be revoked.
func (g *Gateway) open(ctx context.Context, t *tenant, upstream string) *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.starting--
	if ctx.Err() != nil {
		g.sessions--
		return nil
	}
	s := &session{public: rand.Text() + rand.Text(), upstream: upstream, uses: 1}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.idle = time.AfterFunc(g.options.SessionIdle, func() { g.expire(t, s) })
	s.idle.Stop()
	t.sessions[s.public] = s
	return s
}

// enter finds a session of the tenant and uses it. Another tenant's is not in its table, so it is as unknown as any.
func (g *Gateway) enter(t *tenant, public string) *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := t.sessions[public]
	if s != nil {
		s.uses++
		s.idle.Stop()
	}
	return s
}

// leave ends one use of a session; after the last one the idle time begins.
func (g *Gateway) leave(t *tenant, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch s.uses--; {
	case s.uses > 0:
	case t.sessions[s.public] == s:
		s.idle.Reset(g.options.SessionIdle)
	default: // it was dropped, and nothing runs in it any more
		s.cancel(errClosed)
	}
}

// expire drops a session that nobody used. A request that came at the last moment keeps it.
func (g *Gateway) expire(t *tenant, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.uses == 0 {
		g.dropLocked(t, s)
	}
}

// drop makes a session unknown; what runs in it goes on.
func (g *Gateway) drop(t *tenant, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetLocked(t, s)
}

// dropLocked makes a session unknown and ends what runs in it.
func (g *Gateway) dropLocked(t *tenant, s *session) {
	g.forgetLocked(t, s)
	s.cancel(errClosed)
}

func (g *Gateway) forgetLocked(t *tenant, s *session) {
	s.idle.Stop()
	if t.sessions[s.public] == s {
		delete(t.sessions, s.public)
		g.sessions--
	}
}

// close makes a session unknown and ends what runs in it.
func (g *Gateway) close(t *tenant, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropLocked(t, s)
}
