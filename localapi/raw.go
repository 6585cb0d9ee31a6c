package localapi

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"playground/fault"
)

// Send makes one request and returns the answer as it came, whatever its status; the caller closes its body. It is for routes
// that have a form of their own for errors, or answer with a stream. body may be nil. What brought no answer is the error that
// Do returns.
func (c *Client) Send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	var reader io.Reader // a nil interface, not a nil *bytes.Reader, is no body
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+hostName+path, reader)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "cannot build request")
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("User-Agent", "playground")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return resp, nil
}

// Lost returns the error of an answer that broke off, as Do returns it.
func (c *Client) Lost(ctx context.Context, err error) error { return c.callError(ctx, err) }
