package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"playground/fault"
)

// An OperatorToken is what may be told about a token that speaks for the operator. It never holds the secret.
type OperatorToken struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`   // what it is for, in the operator's words
	Prefix   string     `json:"prefix"` // "pgo_<id>": how the token begins
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"` // to the minute; nil: never
	Revoked  bool       `json:"revoked"`
}

// nameRunes bounds the name of an operator's token.
const nameRunes = 64

// MintOperator returns a new token of the operator. The token is not kept: this is the only time it is seen.
func (s *Store) MintOperator(ctx context.Context, name string) (string, OperatorToken, error) {
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	if n := utf8.RuneCountInString(name); n < 1 || n > nameRunes || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return "", OperatorToken{}, fault.New(fault.Invalid, "an operator token's name must have 1 to %d printable characters", nameRunes).
			WithHint("name what the token is for, such as \"backup script\"")
	}
	token, id := newMarked(operatorMark)
	hash, created := hashToken(token), s.now()
	_, err := s.write.ExecContext(ctx, "INSERT INTO operator_tokens (id, name, hash, created) VALUES (?, ?, ?, ?)",
		id, name, hash[:], created.UnixNano())
	if err != nil {
		return "", OperatorToken{}, fmt.Errorf("cannot mint operator token: %w", err)
	}
	return token, OperatorToken{ID: id, Name: name, Prefix: operatorMark + id, Created: fromUnix(created.UnixNano())}, nil
}

// OperatorTokens returns all tokens of the operator, the revoked ones too, oldest first.
func (s *Store) OperatorTokens(ctx context.Context) ([]OperatorToken, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id, name, created, last_used, revoked IS NOT NULL FROM operator_tokens ORDER BY created, id")
	if err != nil {
		return nil, fmt.Errorf("cannot list operator tokens: %w", err)
	}
	defer rows.Close()
	all := []OperatorToken{}
	for rows.Next() {
		var t OperatorToken
		var created int64
		var used sql.NullInt64
		if err := rows.Scan(&t.ID, &t.Name, &created, &used, &t.Revoked); err != nil {
			return nil, fmt.Errorf("cannot list operator tokens: %w", err)
		}
		t.Prefix, t.Created = operatorMark+t.ID, fromUnix(created)
		if used.Valid {
			at := fromUnix(used.Int64)
			t.LastUsed = &at
		}
		all = append(all, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("cannot list operator tokens: %w", err)
	}
	return all, nil
}

// RevokeOperator revokes one token of the operator, named by its id or its prefix, at once; fault.NotFound when there is
// none. It may be repeated. As with Revoke, the token is refused even if that cannot be written.
func (s *Store) RevokeOperator(ctx context.Context, id string) error {
	id = strings.TrimPrefix(id, operatorMark)
	var found string
	err := s.read.QueryRowContext(ctx, "SELECT id FROM operator_tokens WHERE id = ?", id).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		// A whole token pasted by mistake must not come back in an error's text.
		return fault.New(fault.NotFound, "no such operator token").WithHint("list their ids: playground operator token list")
	}
	if err != nil {
		return fmt.Errorf("cannot look up operator token: %w", err)
	}
	s.mu.Lock()
	s.barred[id] = struct{}{}
	s.mu.Unlock()
	defer s.known.forget()
	_, err = s.write.ExecContext(ctx, "UPDATE operator_tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", s.now().UnixNano(), id)
	if err != nil {
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %w", ErrNotKept, err), "the operator token %s is refused from now on", id).
			WithHint("free some space on the disk of the state folder, then run the same command again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.barred, id)
	return nil
}

// AuthenticateOperator returns the id of a valid operator's token. Every refusal is the same fault.Denied error, whatever
// was wrong, a tenant's token included; any other error is a database that cannot be read.
func (s *Store) AuthenticateOperator(ctx context.Context, token string) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	id, formed := parseMarked(operatorMark, token)
	if !formed {
		return "", notOperator()
	}
	_, valid, err := s.lookUp(ctx, s.finds, operatorMark, id, token)
	if err != nil {
		return "", err
	}
	if !valid {
		return "", notOperator()
	}
	return id, nil
}

func notOperator() error {
	return fault.New(fault.Denied, "the operator token is not valid").
		WithHint("mint one on the host: playground operator token create NAME")
}
