// Package account keeps the tenants and their bearer tokens, in one SQLite file that only the transport daemon opens.
//
// A token is shown once, when it is minted; the file holds its SHA-256 alone. That is enough without salt or stretching,
// because the secret is 256 random bits and no guess of it can be prepared. Every authentication reads the file, so a
// revoked token fails at its next use. What a caller with a bad token learns is one text, whatever was wrong with it.
package account

import (
	"time"

	"playground/fault"
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

// maxName keeps "<prefix>-<tenant>" and the names derived from it within what a jail, a host name and a user name take.
const maxName = 32

// ValidName returns a fault.Invalid error unless name is a tenant's: [a-z0-9][a-z0-9-]{0,30}[a-z0-9], not all digits,
// because jail(8) reads a number as a jail's id.
func ValidName(name string) error {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "%.40q is not a tenant name: %s", name, why).
			WithHint("use 2 to %d lower-case letters, digits and hyphens, beginning and ending with a letter or digit, not digits alone", maxName)
	}
	if len(name) < 2 || len(name) > maxName {
		return bad("wrong length")
	}
	digits := 0
	for i := range len(name) {
		switch c := name[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z':
		case c == '-' && i > 0 && i < len(name)-1:
		case c == '-':
			return bad("a hyphen at an end")
		default:
			return bad("wrong character")
		}
	}
	if digits == len(name) {
		return bad("only digits")
	}
	return nil
}
