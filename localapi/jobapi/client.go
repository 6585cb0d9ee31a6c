package jobapi

import (
	"context"
	"time"

	"playground/job"
	"playground/localapi"
)

// A Client calls playground-reaperd. Its methods are those of a *job.Manager, each with the caller's context.
type Client struct{ api *localapi.Client }

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playground-reaperd"
	return &Client{api}
}

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// Exec runs one command to its end and keeps the first head and the last tail bytes of each stream. The end of ctx
// cancels the command; its result is then lost.
func (c *Client) Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error) {
	var done execution
	err := c.api.Do(ctx, "POST", "/v1/exec", &execRequest{spec, head, tail}, &done)
	return job.Execution(done), err
}

// Start starts a job and returns at once. ctx bounds the call, not the job.
func (c *Client) Start(ctx context.Context, spec job.Spec) (job.Status, error) {
	var status job.Status
	err := c.api.Do(ctx, "POST", "/v1/jobs", spec, &status)
	return status, err
}

// Poll returns a job's output from cursor on, waiting up to wait for news.
func (c *Client) Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error) {
	// Round up: a wait of a microsecond is still a wait.
	in := pollRequest{Tenant: tenant, Cursor: cursor, WaitMS: int64((wait + time.Millisecond - 1) / time.Millisecond)}
	var news page
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/jobs/%s/poll", id), in, &news)
	return job.Page(news), err
}

// Cancel asks for a job's end and returns its state. It may be repeated.
func (c *Client) Cancel(ctx context.Context, tenant, id string) (job.Status, error) {
	var status job.Status
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/jobs/%s/cancel", id), cancelRequest{tenant}, &status)
	return status, err
}

// DropTenant cancels all that the tenant runs, waits for the proof that it is gone and forgets its handles.
func (c *Client) DropTenant(ctx context.Context, tenant string) error {
	return c.api.Do(ctx, "DELETE", localapi.Join("/v1/tenants/%s/jobs", tenant), nil, nil)
}

// Status returns what the host runs and keeps.
func (c *Client) Status(ctx context.Context) (job.HostStatus, error) {
	var status job.HostStatus
	err := c.api.Do(ctx, "GET", "/v1/status", nil, &status)
	return status, err
}

// Ack says that the operator has seen to the processes of a lost proof; starts are admitted again.
func (c *Client) Ack(ctx context.Context) error {
	return c.api.Do(ctx, "POST", "/v1/ack", nil, nil)
}

// Probe says which process serves the socket.
func (c *Client) Probe(ctx context.Context) (localapi.Probe, error) { return c.api.Probe(ctx) }
