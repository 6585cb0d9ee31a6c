package doors

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout = 10 * time.Second // from a request's first byte to the end of its header
	maxHeaderIn   = 8 << 10
)

// Serve serves the doors on one connection, one request after the other, until the connection or ctx ends. It closes conn,
// and returns after the last request in progress has returned. A worker may be silent between requests as long as it likes;
// its run's clock is kept elsewhere.
func Serve(ctx context.Context, conn net.Conn, h http.Handler) error {
	work := &requests{next: h}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:                      work,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		Protocols:                    protocols,
		ReadHeaderTimeout:            headerTimeout,
		MaxHeaderBytes:               maxHeaderIn,
		DisableGeneralOptionsHandler: true,
	}
	listener := &oneConn{conn: conn, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close(); _ = listener.Close() })
	defer stop()
	err := server.Serve(listener)
	_ = server.Close()
	_ = conn.Close()
	work.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// requests are those in progress.
type requests struct {
	next    http.Handler
	mu      sync.Mutex // guards ended, and the first Add of working against its Wait
	ended   bool
	working sync.WaitGroup
}

// ServeHTTP implements http.Handler.
func (r *requests) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.working.Add(1)
	r.mu.Unlock()
	defer r.working.Done()
	r.next.ServeHTTP(w, request)
}

// end lets no further request begin and waits for the others.
func (r *requests) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.working.Wait()
}

// oneConn is a listener that has one connection to give, and then waits for its end.
type oneConn struct {
	conn  net.Conn
	given bool // by the one goroutine that accepts
	once  sync.Once
	done  chan struct{} // closed at the end of the connection
}

// Accept returns the connection when its first byte has come, so that the header's deadline does not run before.
func (l *oneConn) Accept() (net.Conn, error) {
	if l.given {
		<-l.done
		return nil, net.ErrClosed
	}
	l.given = true
	first := make([]byte, 1)
	if n, err := l.conn.Read(first); n == 0 {
		_ = l.Close()
		if err == nil {
			err = net.ErrClosed
		}
		return nil, errors.Join(net.ErrClosed, err)
	}
	return &servedConn{Conn: l.conn, first: first, listener: l}, nil
}

// Close ends the connection.
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.conn.Close()
}

// Addr implements net.Listener.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// servedConn is the connection with its first byte put back.
type servedConn struct {
	net.Conn
	first    []byte // read by one goroutine at a time
	listener *oneConn
}

// Read implements net.Conn.
func (c *servedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *servedConn) Close() error { return c.listener.Close() }
