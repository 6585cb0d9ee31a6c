package tenancy

import (
	"bytes"
	"strings"

	"playground/fault"
)

// How long a worker's token is, in bytes.
const (
	minToken = 32
	MaxToken = 1024
)

// ValidToken refuses what is no bearer token (RFC 6750 section 2.1) of a native worker, which both who stages it for the worker and
// who sends it to the worker must read in the same way. The error never holds the token.
func ValidToken(token []byte) error {
	if n := len(token); n < minToken || n > MaxToken {
		return badToken("a token has %d to %d characters, this one %d", minToken, MaxToken, n)
	}
	body := bytes.TrimRight(token, "=")
	if len(body) == 0 || bytes.ContainsFunc(body, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r))
	}) {
		return badToken("a token is letters, digits and -._~+/, then perhaps =")
	}
	return nil
}

func badToken(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...).WithHint("make one with: openssl rand -hex 32")
}
