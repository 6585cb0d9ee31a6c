package userapi

import (
	"context"

	"playground/account"
	"playground/jail"
	"playground/localapi"
)

// A Client calls playgroundd's operator socket. It is a Users.
type Client struct{ api *localapi.Client }

var _ Users = (*Client)(nil)

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playgroundd"
	return &Client{api}
}

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// Create makes a tenant: sandbox, account and token.
func (c *Client) Create(ctx context.Context, spec jail.ProvisionSpec) (Created, error) {
	var created Created
	err := c.api.Do(ctx, "POST", "/v1/users", spec, &created)
	return created, err
}

// List returns all tenants by name.
func (c *Client) List(ctx context.Context) ([]User, error) {
	var all []User
	err := c.api.Do(ctx, "GET", "/v1/users", nil, &all)
	return all, err
}

// Get returns one tenant, or fault.NotFound.
func (c *Client) Get(ctx context.Context, tenant string) (User, error) {
	var user User
	err := c.api.Do(ctx, "GET", localapi.Join("/v1/users/%s", tenant), nil, &user)
	return user, err
}

// Attach opens the tenant's sandbox, as one more handle.
func (c *Client) Attach(ctx context.Context, tenant string) (User, error) {
	var user User
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/users/%s/attach", tenant), nil, &user)
	return user, err
}

// Detach gives one handle back.
func (c *Client) Detach(ctx context.Context, tenant string) (User, error) {
	var user User
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/users/%s/detach", tenant), nil, &user)
	return user, err
}

// Destroy removes a tenant; with force, its running commands too.
func (c *Client) Destroy(ctx context.Context, tenant string, force bool) error {
	path := localapi.Join("/v1/users/%s", tenant)
	if force {
		path += "?force=true"
	}
	return c.api.Do(ctx, "DELETE", path, nil, nil)
}

// Token describes the tenant's newest token, without its secret.
func (c *Client) Token(ctx context.Context, tenant string) (account.TokenInfo, error) {
	var info account.TokenInfo
	err := c.api.Do(ctx, "GET", localapi.Join("/v1/users/%s/token", tenant), nil, &info)
	return info, err
}

// ResetToken revokes the tenant's tokens and mints a new one.
func (c *Client) ResetToken(ctx context.Context, tenant string) (NewToken, error) {
	var token NewToken
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/users/%s/token", tenant), nil, &token)
	return token, err
}

// RevokeToken revokes the tenant's tokens.
func (c *Client) RevokeToken(ctx context.Context, tenant string) error {
	return c.api.Do(ctx, "DELETE", localapi.Join("/v1/users/%s/token", tenant), nil, nil)
}

// Status returns the state of the whole suite.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.api.Do(ctx, "GET", "/v1/status", nil, &status)
	return status, err
}

// Health returns nil when tenants can work, and else why not.
func (c *Client) Health(ctx context.Context) error {
	return c.api.Do(ctx, "GET", "/healthz", nil, nil)
}
