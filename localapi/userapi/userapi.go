// Package userapi is playgroundd's operator socket: its route table, the typed client of it and the Operator behind it,
// which makes a tenant of a sandbox, an account and a token, and takes it apart again, in an order that leaves nothing
// half made. Its types are also what the command line prints as JSON, so their field names are a public contract.
package userapi

import (
	"context"
	"time"

	"playground/account"
	"playground/jail"
	"playground/job"
)

// Users is what the socket offers; *Operator and *Client do it.
type Users interface {
	Create(ctx context.Context, spec jail.ProvisionSpec) (Created, error)
	List(ctx context.Context) ([]User, error)
	Get(ctx context.Context, tenant string) (User, error)
	Attach(ctx context.Context, tenant string) (User, error)
	Detach(ctx context.Context, tenant string) (User, error)
	Destroy(ctx context.Context, tenant string, force bool) error
	Token(ctx context.Context, tenant string) (account.TokenInfo, error)
	ResetToken(ctx context.Context, tenant string) (NewToken, error)
	RevokeToken(ctx context.Context, tenant string) error
	CreateOperatorToken(ctx context.Context, name string) (NewOperatorToken, error)
	OperatorTokens(ctx context.Context) ([]account.OperatorToken, error)
	RevokeOperatorToken(ctx context.Context, id string) error
	Status(ctx context.Context) (Status, error)
}

// A User is one tenant with all that belongs to it.
type User struct {
	Tenant       string             `json:"tenant"`
	Sandbox      *jail.Sandbox      `json:"sandbox"`           // nil: missing, see Problem
	Token        *account.TokenInfo `json:"token"`             // the newest; nil: none was minted
	ActiveJobs   int                `json:"active_jobs"`       // running commands
	RetainedJobs int                `json:"retained_jobs"`     // jobs whose output can be polled
	Warning      string             `json:"warning,omitempty"` // what its network lets it do that an operator should know
	Problem      string             `json:"problem,omitempty"` // what is wrong with it, and how to mend it
}

// Created is the answer to a creation.
type Created struct {
	User  User   `json:"user"`
	Token string `json:"token"` // the secret; it is shown this once
}

// A NewToken is the answer to a reset.
type NewToken struct {
	Token string            `json:"token"` // the secret; it is shown this once
	Info  account.TokenInfo `json:"info"`
}

// A NewOperatorToken is the answer to the creation of an operator's token.
type NewOperatorToken struct {
	Token string                `json:"token"` // the secret; it is shown this once
	Info  account.OperatorToken `json:"info"`
}

// Status is the state of the whole suite.
type Status struct {
	Version      string    `json:"version"`
	Isolation    string    `json:"isolation"`
	Daemons      []Daemon  `json:"daemons"`
	Tenants      int       `json:"tenants"`
	ActiveJobs   int       `json:"active_jobs"`
	RetainedJobs int       `json:"retained_jobs"`
	Lost         *job.Lost `json:"lost,omitempty"` // not nil: clean-up was not proved, and nothing starts
	Draining     bool      `json:"draining"`       // reaperd is stopping
	// Usage is what the commands of each tenant use now, by rctl(8) resource (FreeBSD); UsageError says why it is not known.
	Usage      map[string]map[string]int64 `json:"usage,omitempty"`
	UsageError string                      `json:"usage_error,omitempty"`
}

// The states of a daemon.
const (
	Up   = "up"
	Down = "down"
)

// A Daemon is one program of the suite.
type Daemon struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`          // Up or Down
	Pid     int       `json:"pid,omitempty"`  // 0: down
	Since   time.Time `json:"since,omitzero"` // when it began to listen
	UptimeS int64     `json:"uptime_s,omitempty"`
	Error   string    `json:"error,omitempty"` // why it counts as down
	Hint    string    `json:"hint,omitempty"`
}

// Health is the answer of a suite that works.
type Health struct {
	Status string `json:"status"` // "ok"
}
