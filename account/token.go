package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// A token is "pgt_" for a tenant or "pgo_" for an operator, an id, "_" and a secret. The id is public: it finds the row and
// names the token in lists and logs. The fixed first letters let secret scanners find a token that was leaked.
const (
	tokenMark    = "pgt_"
	operatorMark = "pgo_" // as long as tokenMark
	idBytes      = 8
	idChars      = 2 * idBytes // hexadecimal: no underscore, no case
	secretBytes  = 32
	secretChars  = 43 // base64url without padding
	tokenChars   = len(tokenMark) + idChars + 1 + secretChars
)

// newToken returns a fresh tenant's token and its id.
func newToken() (token, id string) { return newMarked(tokenMark) }

// newMarked returns a fresh token and its id. crypto/rand.Read never fails: it ends the process instead.
func newMarked(mark string) (token, id string) {
	var raw [idBytes + secretBytes]byte
	_, _ = rand.Read(raw[:])
	id = hex.EncodeToString(raw[:idBytes])
	return mark + id + "_" + base64.RawURLEncoding.EncodeToString(raw[idBytes:]), id
}

// parseToken returns the id of a tenant's well-formed token.
func parseToken(token string) (id string, ok bool) { return parseMarked(tokenMark, token) }

// parseMarked returns the id of a well-formed token. Only the spelling that newMarked writes is well-formed: a second
// spelling of the same bits would be a second token to whoever compares them as text.
func parseMarked(mark, token string) (id string, ok bool) {
	if len(token) != tokenChars || !strings.HasPrefix(token, mark) {
		return "", false
	}
	id, secret := token[len(tokenMark):len(tokenMark)+idChars], token[tokenChars-secretChars:]
	if token[len(tokenMark)+idChars] != '_' {
		return "", false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	// DecodeString skips line breaks, which the length check cannot see.
	if strings.ContainsAny(secret, "\r\n") {
		return "", false
	}
	var buf [secretBytes]byte
	n, err := base64.RawURLEncoding.Strict().Decode(buf[:], []byte(secret))
	return id, err == nil && n == secretBytes
}

// hashToken is what the file keeps of a token.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
