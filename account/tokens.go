package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"playground/fault"
)

// usedEvery is how exact TokenInfo.LastUsed is: a busy token must not make a write of each of its requests.
const usedEvery = time.Minute

// Mint returns a new token of a tenant, beside those it has. The token is not kept: this is the only time it is seen.
func (s *Store) Mint(ctx context.Context, tenant string) (string, TokenInfo, error) {
	token, info, err := s.mint(ctx, s.write, tenant)
	if err != nil {
		return "", TokenInfo{}, fmt.Errorf("cannot mint token: %w", err)
	}
	return token, info, nil
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Store) mint(ctx context.Context, db execer, tenant string) (string, TokenInfo, error) {
	token, id := newToken()
	hash, created := hashToken(token), s.now()
	res, err := db.ExecContext(ctx, "INSERT INTO tokens (id, tenant, hash, created) SELECT ?, name, ?, ? FROM tenants WHERE name = ?",
		id, hash[:], created.UnixNano(), tenant)
	if err := oneRow(res, err, noTenant(tenant)); err != nil {
		return "", TokenInfo{}, err
	}
	return token, TokenInfo{Prefix: tokenMark + id, Created: fromUnix(created.UnixNano())}, nil
}

// Reset revokes all tokens of a tenant and mints one, both or neither.
func (s *Store) Reset(ctx context.Context, tenant string) (string, TokenInfo, error) {
	cannot := func(err error) (string, TokenInfo, error) {
		return "", TokenInfo{}, fmt.Errorf("cannot reset token: %w", err)
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return cannot(err)
	}
	defer s.known.forget()
	defer tx.Rollback()
	if err := s.revoke(ctx, tx, tenant); err != nil {
		return cannot(err)
	}
	token, info, err := s.mint(ctx, tx, tenant)
	if err != nil {
		return cannot(err)
	}
	if err := tx.Commit(); err != nil {
		return cannot(err)
	}
	return token, info, nil
}

// ErrNotKept is part of Revoke's error when the tokens are refused from now on, but only until this process ends.
var ErrNotKept = errors.New("this could not be written down and lasts until playgroundd restarts")

// Revoke revokes all tokens of a tenant, at once. It may be repeated. The tokens are refused even if that cannot be
// written (see ErrNotKept): a tenant that fills the disk must not be able to keep its token by that.
func (s *Store) Revoke(ctx context.Context, tenant string) error {
	if _, err := s.Get(ctx, tenant); err != nil {
		return err
	}
	ids, err := s.valid(ctx, tenant)
	if err != nil {
		return fmt.Errorf("cannot revoke tokens of tenant %q: %w", tenant, err)
	}
	s.mu.Lock()
	for _, id := range ids {
		s.barred[id] = struct{}{}
	}
	s.mu.Unlock()
	defer s.known.forget()
	if err := s.revoke(ctx, s.write, tenant); err != nil {
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %w", ErrNotKept, err), "the tokens of tenant %q are refused from now on", tenant).
			WithHint("free some space on the disk of the state folder, then run the same command again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.barred, id)
	}
	return nil
}

// valid returns the ids of a tenant's tokens that are not revoked.
func (s *Store) valid(ctx context.Context, tenant string) (ids []string, err error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id FROM tokens WHERE tenant = ? AND revoked IS NULL", tenant)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (s *Store) revoke(ctx context.Context, db execer, tenant string) error {
	_, err := db.ExecContext(ctx, "UPDATE tokens SET revoked = ? WHERE tenant = ? AND revoked IS NULL", s.now().UnixNano(), tenant)
	return err
}

// Info describes the tenant's newest token; fault.NotFound when it never had one.
func (s *Store) Info(ctx context.Context, tenant string) (TokenInfo, error) {
	var id string
	var created int64
	var used, revoked sql.NullInt64
	err := s.read.QueryRowContext(ctx, `SELECT id, created, last_used, revoked FROM tokens WHERE tenant = ?
		ORDER BY revoked IS NOT NULL, created DESC, id LIMIT 1`, tenant).Scan(&id, &created, &used, &revoked)
	if errors.Is(err, sql.ErrNoRows) {
		if _, err := s.Get(ctx, tenant); err != nil {
			return TokenInfo{}, err
		}
		return TokenInfo{}, fault.New(fault.NotFound, "tenant %q has no token", tenant).
			WithHint("mint one: playground user token reset %s", tenant)
	}
	if err != nil {
		return TokenInfo{}, fmt.Errorf("cannot read token of tenant %q: %w", tenant, err)
	}
	info := TokenInfo{Prefix: tokenMark + id, Created: fromUnix(created), Revoked: revoked.Valid}
	if used.Valid {
		at := fromUnix(used.Int64)
		info.LastUsed = &at
	}
	return info, nil
}

// Authenticate returns whom a token speaks for. Every refusal is the same fault.Denied error; any other error is a
// database that cannot be read.
func (s *Store) Authenticate(ctx context.Context, token string) (Principal, error) {
	if err := ctx.Err(); err != nil {
		return Principal{}, err
	}
	id, formed := parseToken(token)
	if !formed {
		return Principal{}, denied()
	}
	r, valid, err := s.lookUp(ctx, s.find, tokenMark, id, token)
	if err != nil {
		return Principal{}, err
	}
	if !valid {
		return Principal{}, denied()
	}
	return Principal{Tenant: r.tenant, TokenID: id}, nil
}

func denied() error {
	return fault.New(fault.Denied, "the token is not valid").
		WithHint("ask the operator for a new one: playground user token reset NAME")
}

// used notes a token's use, unless it is barred. At most once a minute it also has it written, by a goroutine of its own, so that no request
// waits for the disk.
func (s *Store) used(id string) bool {
	now := s.now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, barred := s.barred[id]; barred {
		return false
	}
	if last, ok := s.noted[id]; ok && now-last < int64(usedEvery) || s.closed {
		return true
	}
	s.noted[id], s.pending[id] = now, now
	if !s.running {
		s.running = true
		s.flushes.Go(s.flush)
	}
	return true
}

// flush writes the pending uses until there are none. A write that fails is dropped: last_used is for people, and the
// next minute brings another.
func (s *Store) flush() {
	for {
		s.mu.Lock()
		pending := s.pending
		s.pending = make(map[string]int64)
		s.running = len(pending) > 0
		s.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		_ = s.writeUsed(pending)
	}
}

func (s *Store) writeUsed(uses map[string]int64) error {
	tx, err := s.write.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for id, at := range uses {
		for _, update := range []string{"UPDATE tokens SET last_used = ? WHERE id = ?", "UPDATE operator_tokens SET last_used = ? WHERE id = ?"} {
			if _, err := tx.Exec(update, at, id); err != nil { // an id is in one of them
				return err
			}
		}
	}
	return tx.Commit()
}
