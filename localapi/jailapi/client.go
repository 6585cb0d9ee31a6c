package jailapi

import (
	"context"
	"os"

	"playground/fault"
	"playground/jail"
	"playground/localapi"
)

// A Client calls playground-jaild. It is a Sandboxes.
type Client struct{ api *localapi.Client }

var _ Sandboxes = (*Client)(nil)

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playground-jaild"
	return &Client{api}
}

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// Provision makes a new tenant's sandbox: all of it or nothing.
func (c *Client) Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error) {
	var sandbox jail.Sandbox
	err := c.api.Do(ctx, "POST", "/v1/sandboxes", spec, &sandbox)
	return sandbox, err
}

// List returns every sandbox, by tenant name.
func (c *Client) List(ctx context.Context) ([]jail.Sandbox, error) {
	var all []jail.Sandbox
	err := c.api.Do(ctx, "GET", "/v1/sandboxes", nil, &all)
	return all, err
}

// Get returns one sandbox, or fault.NotFound.
func (c *Client) Get(ctx context.Context, tenant string) (jail.Sandbox, error) {
	var sandbox jail.Sandbox
	err := c.api.Do(ctx, "GET", localapi.Join("/v1/sandboxes/%s", tenant), nil, &sandbox)
	return sandbox, err
}

// Destroy removes a sandbox and its storage; its pile stays.
func (c *Client) Destroy(ctx context.Context, tenant string) error {
	return c.api.Do(ctx, "DELETE", localapi.Join("/v1/sandboxes/%s", tenant), nil, nil)
}

// Open counts one more handle and makes sure the kernel object exists.
func (c *Client) Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error) {
	var sandbox jail.Sandbox
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/sandboxes/%s/open", tenant), options, &sandbox)
	return sandbox, err
}

// Close counts one handle less; the last one detaches.
func (c *Client) Close(ctx context.Context, tenant string) (jail.Sandbox, error) {
	var sandbox jail.Sandbox
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/sandboxes/%s/close", tenant), nil, &sandbox)
	return sandbox, err
}

// Attachment returns what is needed to run a command inside; for reaperd only.
func (c *Client) Attachment(ctx context.Context, tenant string) (jail.Attachment, error) {
	var attachment jail.Attachment
	err := c.api.Do(ctx, "GET", localapi.Join("/v1/sandboxes/%s/attachment", tenant), nil, &attachment)
	return attachment, err
}

// Connect returns a new connection to the tenant's holder; for reaperd only. The caller closes it.
func (c *Client) Connect(ctx context.Context, tenant string) (*os.File, error) {
	return c.receive(ctx, localapi.Join("/v1/sandboxes/%s/connect", tenant), tenant, nil)
}

// Dial returns a TCP connection to a loopback address of the sandbox's own network. The caller closes it.
func (c *Client) Dial(ctx context.Context, tenant, address string) (*os.File, error) {
	return c.receive(ctx, localapi.Join("/v1/sandboxes/%s/dial", tenant), tenant, dialRequest{address})
}

// receive takes the descriptor that answers a request.
func (c *Client) receive(ctx context.Context, path, tenant string, in any) (*os.File, error) {
	conn, err := c.api.Upgrade(ctx, path, in)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := localapi.Bound(ctx, conn)
	_, files, err := localapi.ReceiveFiles(conn, 1, 1)
	if err = stop(err); err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fault.Wrap(fault.Unavailable, err, "cannot receive the connection to sandbox %q", tenant)
	}
	if len(files) != 1 {
		return nil, fault.New(fault.Internal, "%s sent no connection to sandbox %q", c.api.Daemon, tenant)
	}
	return files[0], nil
}

// Probe says which process serves the socket.
func (c *Client) Probe(ctx context.Context) (localapi.Probe, error) { return c.api.Probe(ctx) }
