package localapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"playground/fault"
)

// protocol names the raw connection in the Upgrade header (RFC 9110, section 7.8).
const protocol = "playground-raw"

// escape makes one path element of s.
func escape(s string) string { return url.PathEscape(s) }

// Upgrade posts in to path and, when the daemon answers 101, returns the connection, which from then on is raw: it is
// for passing descriptors. ctx bounds the upgrade only; the caller owns and closes the connection.
func (c *Client) Upgrade(ctx context.Context, path string, in any) (*net.UnixConn, error) {
	req, err := c.request(ctx, http.MethodPost, path, in)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	raw, err := dial(ctx, c.path)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	conn := raw.(*net.UnixConn) // dial is always for "unix"
	stop := Bound(ctx, conn)
	err = c.switchProtocol(ctx, conn, req)
	if err = stop(err); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Client) switchProtocol(ctx context.Context, conn *net.UnixConn, req *http.Request) error {
	if err := req.Write(conn); err != nil {
		return c.callError(ctx, err)
	}
	// A reader that buffers would swallow the first raw byte, and with it the descriptors that ride on it.
	br := bufio.NewReader(oneByte{conn})
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return c.callError(ctx, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		body, err := readBody(resp)
		if err != nil {
			return c.callError(ctx, err)
		}
		return parseError(c.Daemon, resp.StatusCode, body)
	}
	if br.Buffered() != 0 {
		return fault.Wrap(fault.Internal, errUnexpectedData, "cannot upgrade connection to %s", c.Daemon)
	}
	return nil
}

// oneByte reads one byte at a time, so that a bufio.Reader above it never holds more than it was asked for.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.r.Read(p[:1])
}

// Bound makes conn's blocking calls fail when ctx ends. The returned function undoes that, and turns the error of a call
// that failed so into ctx's error.
func Bound(ctx context.Context, conn *net.UnixConn) (stop func(error) error) {
	done := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails only on a closed connection
	})
	return func(err error) error {
		if !release() {
			<-done
			_ = conn.SetDeadline(time.Time{})
			return ctx.Err()
		}
		return err
	}
}

// Hijack takes the connection of an upgrade request over, answers 101 and returns it raw; the handler owns and closes
// it. The body must have been decoded before. An error leaves the request to be answered as usual.
func Hijack(w http.ResponseWriter, r *http.Request) (*net.UnixConn, error) {
	if r.Header.Get("Upgrade") != protocol {
		return nil, fault.New(fault.Invalid, "this route needs the header \"Upgrade: %s\"", protocol)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "cannot take over connection")
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fault.New(fault.Internal, "cannot take over connection: it is a %T", conn)
	}
	if buffered.Reader.Buffered() != 0 {
		uc.Close()
		return nil, fault.Wrap(fault.Invalid, errUnexpectedData, "cannot upgrade connection")
	}
	_ = uc.SetDeadline(time.Time{}) // net/http's own; fails only on a closed connection
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
	if _, err := io.WriteString(uc, answer); err != nil {
		uc.Close()
		return nil, fmt.Errorf("cannot answer upgrade: %w", err)
	}
	return uc, nil
}
