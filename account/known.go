package account

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// knownFor is how long a look-up counts. The Store's own changes end it at once; this bounds what another program that writes into
// the file, or an exchanged file, has to wait.
const knownFor = time.Second

// A row is what the file says of one token.
type row struct {
	tenant  string // empty: it is an operator's
	hash    [sha256.Size]byte
	revoked bool
	read    time.Time
}

// known are the valid tokens of the last moment, by their public prefix. Every request comes with a token, and asking SQLite costs
// more than all other checks together.
type known struct {
	mu      sync.Mutex // guards what follows
	changes uint64     // how often tokens may have changed
	rows    map[string]row
}

// valid reports whether this very token was valid a moment ago. A wrong secret is not found here, so that it costs what an unknown
// token costs.
func (k *known) valid(prefix string, hash [sha256.Size]byte, now time.Time) (row, bool) {
	k.mu.Lock()
	r, ok := k.rows[prefix]
	k.mu.Unlock()
	age := now.Sub(r.read)
	return r, ok && age >= 0 && age < knownFor && subtle.ConstantTimeCompare(r.hash[:], hash[:]) == 1
}

// version is what keep wants of a look-up that begins now.
func (k *known) version() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changes
}

// keep remembers a valid token, unless tokens changed since its look-up began: then it may have read what is no longer true.
func (k *known) keep(prefix string, r row, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changes == version {
		k.rows[prefix] = r
	}
}

// forget is for after each change of tokens, whether it succeeded or not, and before anybody is told of it.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	clear(k.rows)
}

// lookUp returns what is known of a token of the right form; false if it is not valid. The error is of a database that cannot be read.
func (s *Store) lookUp(ctx context.Context, find *sql.Stmt, mark, id, token string) (row, bool, error) {
	hash, now := hashToken(token), s.now()
	if r, ok := s.known.valid(mark+id, hash, now); ok {
		return r, s.used(id), nil
	}
	version := s.known.version()
	r, found, err := s.ask(ctx, find, id)
	if err != nil {
		return row{}, false, err
	}
	// An unknown id costs what a wrong secret does.
	same := subtle.ConstantTimeCompare(r.hash[:], hash[:])
	if !found || same != 1 || r.revoked || !s.used(id) {
		return row{}, false, nil
	}
	r.read = now
	s.known.keep(mark+id, r, version)
	return r, true, nil
}

// ask asks the file.
func (s *Store) ask(ctx context.Context, find *sql.Stmt, id string) (r row, found bool, err error) {
	// A look-up of microseconds is not worth the goroutine that the driver starts to watch a context.
	rows, err := find.QueryContext(context.WithoutCancel(ctx), id)
	if err != nil {
		return r, false, fmt.Errorf("cannot look up token: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return r, false, fmt.Errorf("cannot look up token: %w", err)
		}
		return r, false, nil
	}
	var kept sql.RawBytes // valid until the next step only
	if err := rows.Scan(&r.tenant, &kept, &r.revoked); err != nil {
		return r, false, fmt.Errorf("cannot look up token: %w", err)
	}
	copy(r.hash[:], kept)
	return r, true, nil
}
