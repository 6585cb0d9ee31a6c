package doors

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
)

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// A Client is a worker's Kernel. It makes one request at a time over one connection, which an error answer leaves as it
// was; a request that was interrupted ends it.
type Client struct {
	credential string

	mu     sync.Mutex // guards what follows, for one whole request
	conn   net.Conn
	in     *bufio.Reader
	left   io.LimitedReader // under in: what may still be read for this answer
	broken error            // why no more requests can be made
}

var _ loop.Kernel = (*Client)(nil)

// NewClient returns a client over conn, which it closes with Close.
func NewClient(conn net.Conn, credential string) *Client {
	c := &Client{credential: credential, conn: conn}
	c.left.R = conn
	c.in = bufio.NewReader(&c.left)
	return c
}

// Close closes the connection. A request in progress ends with an error.
func (c *Client) Close() error { return c.conn.Close() }

// Propose implements loop.Kernel.
func (c *Client) Propose(ctx context.Context, p loop.Proposal) (v loop.Verdict, err error) {
	return v, c.post(ctx, DoorVerdict, p, &v)
}

// Call implements loop.Kernel.
func (c *Client) Call(ctx context.Context, call string) (result loop.Result, err error) {
	return result, c.post(ctx, DoorCall, callRequest{call}, &result)
}

// Append implements loop.Kernel.
func (c *Client) Append(ctx context.Context, e loop.Entry) (string, error) {
	var answer appendAnswer
	body, err := json.Marshal(e.Body)
	if err != nil {
		return "", fmt.Errorf("cannot encode record of kind %q: %w", e.Kind, err)
	}
	err = c.post(ctx, DoorRecords, appendRequest{Kind: e.Kind, Act: string(e.Act), Body: body}, &answer)
	return answer.ID, err
}

// Query implements loop.Kernel.
func (c *Client) Query(ctx context.Context, q record.Query) (page record.Page, err error) {
	return page, c.post(ctx, DoorQuery, q, &page)
}

// Complete implements loop.Kernel.
func (c *Client) Complete(ctx context.Context, r inference.Request) (completion loop.Completion, err error) {
	return completion, c.post(ctx, DoorMessages, r, &completion)
}

// post sends in to a door and reads its answer into out. An error answer is a *loop.Refusal.
func (c *Client) post(ctx context.Context, door string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode request to %s: %w", door, err)
	}
	if int64(len(body)) > bodyLimit(door) {
		return tooLarge() // sending it would cost the connection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A deadline in the past ends reads and writes that wait.
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	status, answer, err := c.exchange(door, body)
	if !stop() {
		c.broken = errors.New("the connection to the daemon was given up with a request")
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		c.broken = fmt.Errorf("cannot reach the daemon: %w", err)
		return c.broken
	case status != http.StatusOK:
		return refusal(status, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("cannot read answer of %s: %w", door, err)
	}
	return nil
}

// exchange sends one request and reads its answer.
func (c *Client) exchange(door string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequest(http.MethodPost, "http://doors"+door, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.credential)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "")
	if err := request.Write(c.conn); err != nil {
		return 0, nil, err
	}
	c.left.N = maxHeader + maxAnswer
	response, err := http.ReadResponse(c.in, request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if response.Close {
		c.broken = errors.New("the daemon closed the connection")
	}
	return response.StatusCode, answer, err
}

// refusal reads an error answer.
func refusal(status int, answer []byte) error {
	fields := map[string]any{}
	_ = json.Unmarshal(answer, &fields) // what is not JSON has no code
	r := &loop.Refusal{Status: status}
	r.Code, _ = fields["code"].(string)
	r.Message, _ = fields["message"].(string)
	if r.Code == "" {
		return refuse(status, loop.CodeInternal, fmt.Sprintf("the daemon answered %d", status))
	}
	for _, key := range []string{"object", "code", "message"} {
		delete(fields, key)
	}
	if len(fields) > 0 {
		r.Extra = fields
	}
	return r
}
