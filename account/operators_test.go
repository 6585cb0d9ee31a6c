package account

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
)

func TestOperatorTokens(t *testing.T) {
	s, ctx := open(t), t.Context()
	mustCreate(t, s, "ann")
	tenants := mustMint(t, s, "ann")
	token, info, err := s.MintOperator(ctx, "backup script")
	if err != nil || !strings.HasPrefix(token, info.Prefix+"_") || info.Prefix != "pgo_"+info.ID || info.Name != "backup script" {
		t.Fatalf("minted %+v, %v", info, err)
	}
	other, _, err := s.MintOperator(ctx, "second")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := s.AuthenticateOperator(ctx, token); err != nil || id != info.ID {
		t.Errorf("authenticated %q, %v", id, err)
	}
	for name, bad := range map[string]string{
		"empty": "", "tenant's": tenants, "tenant's, remarked": "pgo_" + strings.TrimPrefix(tenants, "pgt_"),
		"another secret": token[:len(token)-43] + other[len(other)-43:], "short": token[:len(token)-1], "prefix only": info.Prefix,
		"unknown id": "pgo_" + strings.Repeat("0", 16) + token[len(info.Prefix):], "upper case": strings.ToUpper(token),
	} {
		if _, err := s.AuthenticateOperator(ctx, bad); !errors.Is(err, fault.Denied) || err.Error() != "the operator token is not valid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, fault.Denied) {
		t.Errorf("an operator's token speaks for a tenant: %v", err)
	}
	s.flushes.Wait()
	all, err := s.OperatorTokens(ctx)
	if err != nil || len(all) != 2 || all[0].ID != info.ID || all[0].LastUsed == nil || all[1].LastUsed != nil || all[0].Revoked {
		t.Errorf("listed %+v, %v", all, err)
	}
	if err := s.RevokeOperator(ctx, info.Prefix); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AuthenticateOperator(ctx, token); !errors.Is(err, fault.Denied) {
		t.Errorf("a revoked token: %v", err)
	}
	if _, err := s.AuthenticateOperator(ctx, other); err != nil {
		t.Errorf("the other token: %v", err)
	}
	if err := s.RevokeOperator(ctx, info.ID); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := s.RevokeOperator(ctx, token); !errors.Is(err, fault.NotFound) || strings.Contains(err.Error(), token[len(token)-8:]) {
		t.Errorf("by its secret: %v", err)
	}
	for _, name := range []string{"", "a\nb", strings.Repeat("é", 65), "\xff", "\x1b[31m"} {
		if _, _, err := s.MintOperator(ctx, name); !errors.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.AuthenticateOperator(gone, other); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// A full disk must not keep a revoked token alive.
func TestOperatorRevocationThatCannotBeWritten(t *testing.T) {
	s, ctx := open(t), t.Context()
	token, info, err := s.MintOperator(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.Exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeOperator(ctx, info.ID); !errors.Is(err, ErrNotKept) {
		t.Errorf("revoke: %v", err)
	}
	if _, err := s.AuthenticateOperator(ctx, token); !errors.Is(err, fault.Denied) {
		t.Errorf("the token still works: %v", err)
	}
}

// A database from before operators had tokens is brought up to date with what it holds.
func TestOperatorMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.db")
	s := reopen(t, path)
	mustCreate(t, s, "ann")
	token := mustMint(t, s, "ann")
	if _, err := s.write.Exec("DROP TABLE operator_tokens; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	if _, _, err := s.MintOperator(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if who, err := s.Authenticate(t.Context(), token); err != nil || who.Tenant != "ann" {
		t.Errorf("%+v, %v", who, err)
	}
}
