package account

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"playground/fault"
)

// A tenant can fill the disk that the database is on. Its token must end at once all the same.
func TestRevokeOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if err := s.Create(ctx, Tenant{Name: "alice", SandboxID: "x", Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	old, _, err := s.Mint(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(ctx, old); err != nil {
		t.Fatal(err)
	}
	s.flushes.Wait()
	if _, err := s.write.Exec("PRAGMA query_only = 1"); err != nil { // stands for the full disk: every write fails
		t.Fatal(err)
	}
	err = s.Revoke(ctx, "alice")
	if !errors.Is(err, ErrNotKept) || !errors.Is(err, fault.Unavailable) {
		t.Errorf("Revoke: %v", err)
	}
	if _, err := s.Authenticate(ctx, old); !errors.Is(err, fault.Denied) {
		t.Errorf("the token still works: %v", err)
	}
	if _, err := s.write.Exec("PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(ctx, "alice"); err != nil {
		t.Error(err)
	}
	if len(s.barred) != 0 {
		t.Errorf("%d tokens are still barred in memory", len(s.barred))
	}
	fresh, _, err := s.Mint(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]error{old: fault.Denied, fresh: nil} {
		if _, err := s.Authenticate(ctx, token); !errors.Is(err, want) {
			t.Errorf("Authenticate: %v, want %v", err, want)
		}
	}
}
