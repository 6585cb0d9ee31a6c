package workloop

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"
)

const (
	credentialPrefix   = "pgw_"
	credentialSlack    = time.Minute // a run's last record comes after its wall clock
	credentialOperator = 24 * time.Hour
)

// A credential is what one run's worker shows at its doors. Only the SHA-256 of the secret is kept.
type credential struct {
	hash    [sha256.Size]byte
	expires time.Time
}

// mint makes a credential and returns the secret, which goes to the worker's standard input and nowhere else.
func mint(now time.Time, wallClock time.Duration) (secret string, c *credential) {
	var random [32]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	secret = credentialPrefix + hex.EncodeToString(random[:])
	life := credentialOperator
	if wallClock > 0 {
		life = wallClock + credentialSlack
	}
	return secret, &credential{hash: sha256.Sum256([]byte(secret)), expires: now.Add(life)}
}

// matches reports in constant time whether bearer is the secret and still holds. A nil credential, one that was revoked, matches
// nothing.
func (c *credential) matches(bearer string, now time.Time) bool {
	if c == nil {
		return false
	}
	hash := sha256.Sum256([]byte(bearer))
	return subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 && now.Before(c.expires)
}
