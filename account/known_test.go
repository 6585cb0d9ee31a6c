package account

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestChangesAtOnce: however often a token was found a moment ago, no change of this store waits.
func TestChangesAtOnce(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name   string
		change func(*Store) error
	}{
		{"revoke", func(s *Store) error { return s.Revoke(ctx, "ann") }},
		{"reset", func(s *Store) error { _, _, err := s.Reset(ctx, "ann"); return err }},
		{"delete", func(s *Store) error { return s.Delete(ctx, "ann") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			for range 20 {
				mustCreate(t, s, "ann")
				token := mustMint(t, s, "ann")
				var changed atomic.Bool
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						for late := false; !late; {
							late = changed.Load()
							if _, err := s.Authenticate(ctx, token); err == nil && late {
								t.Error("a token is valid after its end")
							}
						}
					})
				}
				if err := tt.change(s); err != nil {
					t.Error(err)
				}
				changed.Store(true)
				all.Wait()
				if tt.name != "delete" {
					if err := s.Delete(ctx, "ann"); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestOperatorRevokedAtOnce(t *testing.T) {
	s, ctx := open(t), context.Background()
	token, info, err := s.MintOperator(ctx, "script")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if id, err := s.AuthenticateOperator(ctx, token); err != nil || id != info.ID {
			t.Fatal(id, err)
		}
	}
	if err := s.RevokeOperator(ctx, info.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AuthenticateOperator(ctx, token); err == nil {
		t.Error("a revoked operator token is valid")
	}
}

// TestSlowLookUp: a look-up that began before a change is not kept after it.
func TestSlowLookUp(t *testing.T) {
	k := known{rows: map[string]row{}}
	hash, now := hashToken("x"), time.Now()
	before := k.version()
	k.forget()
	k.keep("pgt_1", row{tenant: "ann", hash: hash, read: now}, before)
	if _, ok := k.valid("pgt_1", hash, now); ok {
		t.Error("it is kept")
	}
	k.keep("pgt_1", row{tenant: "ann", hash: hash, read: now}, k.version())
	for _, tt := range []struct {
		prefix, token string
		at            time.Time
		want          bool
	}{
		{"pgt_1", "x", now, true},
		{"pgt_1", "x", now.Add(knownFor - 1), true},
		{"pgt_1", "x", now.Add(knownFor), false},
		{"pgt_1", "x", now.Add(-1), false}, // the clock was set back
		{"pgt_1", "y", now, false},
		{"pgo_1", "x", now, false},
	} {
		if _, got := k.valid(tt.prefix, hashToken(tt.token), tt.at); got != tt.want {
			t.Errorf("%s %s after %v: %v", tt.prefix, tt.token, tt.at.Sub(now), got)
		}
	}
}

// TestOtherWriter: what another program changes in the file counts after knownFor.
func TestOtherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.db")
	s, other, ctx := reopen(t, path), reopen(t, path), context.Background()
	mustCreate(t, s, "ann")
	token := mustMint(t, s, "ann")
	now := time.Now()
	s.now = func() time.Time { return now }
	if _, err := s.Authenticate(ctx, token); err != nil {
		t.Fatal(err)
	}
	if err := other.Revoke(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(knownFor)
	if _, err := s.Authenticate(ctx, token); err == nil {
		t.Error("the token is still valid")
	}
}
