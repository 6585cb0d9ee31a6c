package localapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"playground/fault"
)

// maxAnswer bounds an answer's body, against a daemon gone wild. The largest true one is a file of the configured size
// in base64.
const maxAnswer = 256 << 20

// A Client calls one daemon. It is safe for concurrent use and keeps idle connections for reuse.
type Client struct {
	Daemon string // its name in error texts; NewClient takes the socket's name
	path   string
	http   http.Client
}

// NewClient returns a client of the daemon that listens at path. It connects at the first call.
func NewClient(path string) *Client {
	c := &Client{Daemon: strings.TrimSuffix(filepath.Base(path), ".sock"), path: path}
	c.http = http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
			MaxIdleConnsPerHost: 256, // a burst of polls must not reconnect each time
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			// A whole exec request or answer goes through in few system calls.
			WriteBufferSize: 64 << 10,
			ReadBufferSize:  64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close gives up idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Path returns the socket's path.
func (c *Client) Path() string { return c.path }

// dial connects to a socket. A burst of callers can fill a live daemon's backlog, which FreeBSD reports as a refusal and
// Linux as EAGAIN, so either counts only after some patience.
func dial(ctx context.Context, path string) (net.Conn, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var d net.Dialer
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		conn, err := d.DialContext(ctx, "unix", path)
		full := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EAGAIN)
		if !full || wait > 100*time.Millisecond {
			return conn, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Do calls method and path (already escaped) with in as the JSON body, none for nil, and decodes the answer into out
// unless that is nil. The large byte strings of a Carrier travel raw. The daemon's refusal comes back as the *fault.Error it was. The call lasts as long as ctx does;
// when ctx ends, its error is returned and the daemon's handler is cancelled.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	req, err := c.request(ctx, method, path, in)
	if err != nil {
		return err
	}
	if _, ok := out.(Carrier); ok {
		req.Header.Set("Accept", blobType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.callError(ctx, err)
	}
	defer resp.Body.Close()
	body, err := readBody(resp)
	if err != nil {
		return c.callError(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		return parseError(c.Daemon, resp.StatusCode, body)
	}
	if out == nil {
		return nil
	}
	if err := readAnswer(resp, body, out); err != nil {
		return fault.Wrap(fault.Internal, err, "cannot read the answer of %s", c.Daemon)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var data []byte
	var sizes string
	var err error
	switch v := in.(type) {
	case nil:
	case Carrier:
		data, sizes, err = encodeBlobs(v)
	default:
		data, err = encode(v)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "cannot encode request")
	}
	var body io.Reader // a nil interface, not a nil *bytes.Reader, is no body
	if in != nil {
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+hostName+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "cannot build request")
	}
	req.Header.Set("User-Agent", "playground")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sizes != "" {
		req.Header.Set("Content-Type", blobType)
		req.Header.Set(blobHeader, sizes)
	}
	return req, nil
}

// hostName fills the place of a host, which a unix socket does not have.
const hostName = "local"

// readBody reads an answer into one buffer of the right size, where the daemon said how long it is.
func readBody(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > maxAnswer {
		return nil, fault.New(fault.TooLarge, "answer has %d bytes, over %d", resp.ContentLength, maxAnswer)
	}
	if resp.ContentLength >= 0 {
		body := make([]byte, resp.ContentLength)
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		return nil, fault.New(fault.TooLarge, "answer is over %d bytes", maxAnswer)
	}
	return body, err
}

// callError says why a call brought no answer.
func (c *Client) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	const start = "start it with `service playground start`, or run the whole suite with `playground up`"
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTSOCK):
		return c.unreachable(fault.Unavailable, err).WithHint(start)
	case errors.Is(err, fs.ErrPermission):
		return c.unreachable(fault.Denied, err).WithHint("run this as root or as the daemon's own user")
	}
	e := fault.New(fault.Unavailable, "lost the connection to %s at %s: %v", c.Daemon, c.path, cause(err))
	e.Err = err
	return e.WithHint("it may have been restarted; look at its log, then try again")
}

func (c *Client) unreachable(kind fault.Kind, err error) *fault.Error {
	e := fault.New(kind, "cannot reach %s at %s: %v", c.Daemon, c.path, cause(err))
	e.Err = err
	return e
}

// cause strips the layers of net/http and net, which only repeat the address, from an error's text.
func cause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// Join builds a request path from literal and escaped parts: a "%s" of format is one path element.
func Join(format string, elements ...string) string {
	args := make([]any, len(elements))
	for i, e := range elements {
		args[i] = escape(e)
	}
	return fmt.Sprintf(format, args...)
}
