package catalogue

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
	"playground/sandbox"
)

const (
	// answerTime is how long calls that are under way when the input ends may still answer, so that requests piped in
	// are answered. Then they are cancelled: whoever asked has most likely gone.
	answerTime = time.Second
	// closeTime bounds the giving back of handles after the client has gone.
	closeTime = 10 * time.Second
)

// Serve speaks MCP over a pair of streams, one message a line, until in ends or ctx does. Then it ends the calls that are
// under way and gives back the session handles that were opened here; jobs go on. The client's going is no error; an input without
// a single message is.
func Serve(ctx context.Context, provider *sandbox.Provider, tenant string, options Options, in io.ReadCloser, out io.Writer) error {
	handles := NewHandles(provider, tenant)
	options.OnOpen, options.OnClose = both(options.OnOpen, handles.Opened), both(options.OnClose, handles.Closed)
	server := New(provider, tenant, options)
	// The SDK's Run waits for calls when ctx ends but does not cancel them.
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(callCtx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			callCtx, cancel := context.WithCancel(callCtx)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return next(callCtx, method, req)
		}
	})
	lines := &lockedWriter{w: out}
	err := server.Run(ctx, drainTransport{&mcp.IOTransport{Reader: newScreen(in, lines), Writer: nopCloser{lines}, MaxLineLength: maxLine + 1<<16}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		err = nil
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if closeErr := handles.Close(closing); closeErr != nil && !errors.Is(closeErr, fault.Busy) {
		err = errors.Join(err, closeErr)
	}
	return err
}

// both calls each of two functions; the first may be nil.
func both(first, second func(string)) func(string) {
	return func(session string) {
		if first != nil {
			first(session)
		}
		second(session)
	}
}

// A drainTransport holds the end of the input back while calls are unanswered. The SDK would otherwise drop them, and even
// what it has read but not begun.
type drainTransport struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (t drainTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainConn{Connection: c, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

type drainConn struct {
	mcp.Connection
	calls    atomic.Int64  // read and not answered
	answered chan struct{} // holds one value after an answer
	closed   chan struct{}
	once     sync.Once
}

// Read implements mcp.Connection.
func (c *drainConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if request, ok := message.(*jsonrpc.Request); ok && err == nil && request.IsCall() {
		c.calls.Add(1)
	}
	if errors.Is(err, io.EOF) {
		late := time.After(answerTime)
		for c.calls.Load() > 0 {
			select {
			case <-c.answered:
				continue
			case <-late:
			case <-c.closed:
			case <-ctx.Done():
			}
			break
		}
	}
	return message, err
}

// Write implements mcp.Connection.
func (c *drainConn) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if _, ok := message.(*jsonrpc.Response); ok {
		c.calls.Add(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// Close implements mcp.Connection.
func (c *drainConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
