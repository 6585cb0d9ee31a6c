package gateway

import (
	"context"
	"syscall"
	"time"

	"playground/localtcp"
)

// spareAge is how long a connection waits for a request: far less than any server waits for the first request of one.
const spareAge = time.Second

// A spare is a connection that was made before its request came, so that the request need not wait for it. No request has
// been on it, and one at most will be. A tenant has one at most, and no request goes another way while there is one: a worker
// that serves one connection after another would wait for what never comes on it. The Gateway's mu guards it.
type spare struct {
	made    chan struct{} // closed when conn is there, or is known not to come
	conn    Conn          // nil: it did not come
	discard *time.Timer
}

// take returns the tenant's spare connection, if there is one that is still open. For one that is being made it waits, because
// another would not be there sooner.
func (g *Gateway) take(ctx context.Context, t *tenant) Conn {
	g.mu.Lock()
	s := t.spare
	t.spare = nil
	g.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.made:
	case <-ctx.Done():
		g.abandon(s)
		return nil
	}
	if s.conn == nil {
		return nil
	}
	if s.discard.Stop() && quiet(s.conn) {
		return s.conn
	}
	_ = s.conn.Close() // nothing was sent on it
	return nil
}

// abandon closes a spare connection that nobody waits for any more, when it is there.
func (g *Gateway) abandon(s *spare) {
	end := func() {
		<-s.made
		if s.conn != nil {
			s.discard.Stop()
			_ = s.conn.Close() // nothing was sent on it
		}
	}
	select {
	case <-s.made:
		end()
	default:
		g.work.Go(end)
	}
}

// quiet reports whether a connection is open and its peer has said nothing yet.
func quiet(conn Conn) bool {
	switch c := conn.(type) {
	case interface{ Quiet() bool }:
		return c.Quiet()
	case syscall.Conn:
		return localtcp.Quiet(c)
	}
	return false
}

// prepare makes a spare connection, if the tenant's requests come quickly and one after another. Where several run at once the
// processor is what is short, and not the time between them. The goroutine of a request whose client has the whole answer makes it:
// it has nothing better to do, and another would have to be woken. The end of a stream comes only when its goroutine is done.
func (g *Gateway) prepare(t *tenant, began time.Time, whole bool) {
	s, ctx := g.wanted(t, began)
	switch {
	case s == nil:
	case whole:
		g.makeSpare(ctx, t, s)
	default:
		go g.makeSpare(ctx, t, s)
	}
}

// makeSpare makes the connection of a spare that is wanted.
func (g *Gateway) makeSpare(ctx context.Context, t *tenant, s *spare) {
	defer g.work.Done()
	defer close(s.made)
	limited, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := g.options.Dial(limited, t.worker.Tenant, t.worker.Address)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil: // the next request tries for itself and says so
	case ctx.Err() != nil:
		_ = conn.Close() // nothing was sent on it
	default:
		s.conn = conn
		s.discard = time.AfterFunc(spareAge, func() { g.discard(t, s) })
		return
	}
	if t.spare == s {
		t.spare = nil
	}
}

// wanted returns a spare that is to be made until the context ends, or nil. It counts as work.
func (g *Gateway) wanted(t *tenant, began time.Time) (*spare, context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	busy := began.Sub(t.last) < spareAge
	t.last = time.Now()
	if g.closed || !busy || t.requests > 0 || t.spare != nil {
		return nil, nil
	}
	t.spare = &spare{made: make(chan struct{})}
	g.work.Add(1)
	return t.spare, t.ctx
}

// discard closes a spare connection that nobody needed.
func (g *Gateway) discard(t *tenant, s *spare) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.spare == s {
		t.spare = nil
		_ = s.conn.Close() // nothing was sent on it
	}
}

// discardLocked closes the tenant's spare connection; one that is being made closes itself, since the tenant's context ended.
func (t *tenant) discardLocked() {
	if s := t.spare; s != nil && s.conn != nil {
		s.discard.Stop()
		_ = s.conn.Close() // nothing was sent on it
	}
	t.spare = nil
}
