// Package account keeps the tenants and their bearer tokens, in one SQLite file that only the transport daemon opens.
//
// A token is shown once, when it is minted; the file holds its SHA-256 alone. That is enough without salt or stretching,
// because the secret is 256 random bits and no guess of it can be prepared. Every authentication reads the file, so a
// revoked token fails at its next use. What a caller with a bad token learns is one text, whatever was wrong with it.
package account

import (
	"time"
)

// A Tenant is an account: somebody with a sandbox of their own.
type Tenant struct {
	Name      string    `json:"name"`
	SandboxID string    `json:"sandbox_id"` // jail.Sandbox.ID: tells a tenant from an earlier one of the same name
	Created   time.Time `json:"created"`
}

// A TokenInfo is what may be told about a token. It never holds the secret.
type TokenInfo struct {
	Prefix   string     `json:"prefix"` // "pgt_<id>": how the token begins
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"` // to the minute; nil: never
	Revoked  bool       `json:"revoked"`
}

// A Principal is who a valid token speaks for.
type Principal struct {
	Tenant  string `json:"tenant"`
	TokenID string `json:"token_id"`
}
