package facultyapi

import (
	"context"
	"fmt"

	"playground/faculty"
	"playground/localapi"
)

// A Client calls playground-facultyd.
type Client struct{ api *localapi.Client }

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playground-facultyd"
	return &Client{api}
}

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// List returns all workers, and what is wrong with the definitions.
func (c *Client) List(ctx context.Context) (faculty.Listing, error) {
	var listing faculty.Listing
	err := c.api.Do(ctx, "GET", "/v1/workers", nil, &listing)
	return listing, err
}

// Start starts a worker with what the definitions say now, and returns when it runs or when it is known why it does not.
func (c *Client) Start(ctx context.Context, id string) (faculty.Worker, error) {
	return c.change(ctx, id, "start")
}

// Stop stops a worker and returns when nothing of it is left. It stays stopped, over restarts of the daemon and the host too.
func (c *Client) Stop(ctx context.Context, id string) (faculty.Worker, error) {
	return c.change(ctx, id, "stop")
}

// Restart is Stop and Start. Definitions that are not valid are refused before anything is stopped.
func (c *Client) Restart(ctx context.Context, id string) (faculty.Worker, error) {
	return c.change(ctx, id, "restart")
}

func (c *Client) change(ctx context.Context, id, verb string) (faculty.Worker, error) {
	var worker faculty.Worker
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/workers/%s/"+verb, id), struct{}{}, &worker)
	return worker, err
}

// Log returns what a worker's log holds from a position on, a negative one being counted from the end.
func (c *Client) Log(ctx context.Context, id string, from int64) (faculty.LogPage, error) {
	var page faculty.LogPage
	err := c.api.Do(ctx, "GET", localapi.Join("/v1/workers/%s/log", id)+fmt.Sprintf("?from=%d", from), nil, &page)
	return page, err
}

// Report tells what a check of one life of a worker found. A life that is over is fault.NotFound.
func (c *Client) Report(ctx context.Context, id string, health faculty.Health) error {
	return c.api.Do(ctx, "POST", localapi.Join("/v1/workers/%s/health", id), health, nil)
}

// Probe says which process serves the socket.
func (c *Client) Probe(ctx context.Context) (localapi.Probe, error) { return c.api.Probe(ctx) }
