package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"
)

const (
	// headerBytes bounds all headers of one answer, interim ones included.
	headerBytes = 64 << 10
	// interim is how many 1xx answers may come before the answer. They are not passed on: none has a meaning in MCP.
	interim = 5
	// smallBody is what a new connection of one host takes without being read from.
	smallBody = 32 << 10
)

// What is over its bound, or no answer at all.
var (
	errHeaders   = errors.New("the headers of the answer are over the limit")
	errAnswer    = errors.New("the answer is over the limit")
	errMalformed = errors.New("the answer is not one of HTTP/1.1")
)

// A link is one connection to a worker, for one request and its answer.
type link struct {
	conn    Conn
	in      meter
	release func() bool   // takes the context's hold off the connection
	wrote   chan struct{} // closed when a large request was written, or given up
}

// A meter lets so many bytes through.
type meter struct {
	from io.Reader
	left int64
	over error // for what comes after
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, m.over
	}
	n, err := m.from.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	return n, err
}

// connect opens the connection. An error means that nothing was sent.
func (g *Gateway) connect(ctx context.Context, t *tenant) (*link, error) {
	conn := g.take(ctx, t)
	if conn == nil {
		limited, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		var err error
		if conn, err = g.options.Dial(limited, t.worker.Tenant, t.worker.Address); err != nil {
			return nil, err
		}
	}
	l := &link{conn: conn, in: meter{conn, headerBytes, errHeaders}}
	// All that waits for the worker ends with ctx.
	l.release = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return l, nil
}

// close ends the connection, whatever the worker still does with it.
func (l *link) close() {
	l.release()
	_ = l.conn.Close() // nothing is left to send
	if l.wrote != nil {
		<-l.wrote
	}
}

// endpoint is the path of a worker's MCP service: as fixed as its address.
const endpoint = "/mcp"

// newRequest makes the request that goes to a worker.
func newRequest(method string, to netip.AddrPort, header http.Header, body []byte) *http.Request {
	r := &http.Request{
		Method: method, URL: &url.URL{Scheme: "http", Host: to.String(), Path: endpoint}, Host: to.String(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Close: true,
	}
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r
}

// roundTrip sends the request and returns the answer's head. An error says nothing of what the worker did.
func (l *link) roundTrip(r *http.Request) (*http.Response, error) {
	var sendErr error
	send := func() error {
		// Large enough for head and body together, so that a small request is one packet.
		w := bufio.NewWriterSize(l.conn, int(min(r.ContentLength, smallBody))+4<<10)
		if err := r.Write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if r.ContentLength <= smallBody {
		sendErr = send()
	} else {
		// A worker may answer before it has read everything.
		l.wrote = make(chan struct{})
		go func() {
			defer close(l.wrote)
			_ = send() // the answer, or its absence, says more
		}()
	}
	response, err := l.receive(r)
	if err != nil {
		return nil, errors.Join(sendErr, err)
	}
	return response, nil
}

// wordless keeps what a worker said out of the error, and so out of logs: it may be a token, or what its client sent. What the
// connection itself says stays: the kernel's error numbers are net.Errors too.
func wordless(err error) error {
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, errHeaders) || errors.Is(err, errAnswer) || errors.Is(err, os.ErrClosed) {
		return err
	}
	return errMalformed
}

func (l *link) receive(r *http.Request) (*http.Response, error) {
	reader := bufio.NewReader(&l.in)
	for range interim + 1 {
		response, err := http.ReadResponse(reader, r)
		if err != nil {
			return nil, wordless(err)
		}
		switch code := response.StatusCode; {
		case code == http.StatusSwitchingProtocols, code < 100, code > 599:
			return nil, fmt.Errorf("the answer has status %d", code)
		case code < 200:
			continue
		}
		l.in.left = math.MaxInt64 // whoever reads the body counts it
		return response, nil
	}
	return nil, fmt.Errorf("more than %d interim answers", interim)
}
