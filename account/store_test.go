package account

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var created = time.Unix(1700000000, 123456789).UTC()

// open opens a fresh store until the test ends. Its folder has every character that a DSN could trip over.
func open(t testing.TB) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a b?c#d%41&e")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return reopen(t, filepath.Join(dir, "account.db"))
}

func reopen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustCreate(t testing.TB, s *Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := s.Create(context.Background(), Tenant{Name: name, SandboxID: "id-" + name, Created: created}); err != nil {
			t.Fatal(err)
		}
	}
}

func mustMint(t testing.TB, s *Store, name string) string {
	t.Helper()
	token, _, err := s.Mint(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTenants(t *testing.T) {
	s, ctx := open(t), context.Background()
	if list, err := s.List(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("empty list: %v, %v", list, err)
	}
	mustCreate(t, s, "bob", "ann")
	want := Tenant{Name: "ann", SandboxID: "id-ann", Created: created}
	got, err := s.Get(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	list, err := s.List(ctx)
	if err != nil || len(list) != 2 || list[0] != want || list[1].Name != "bob" {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := s.Create(ctx, Tenant{Name: "ann", SandboxID: "other"}); !errors.Is(err, fault.Exists) || !strings.Contains(fault.HintOf(err), "another name") {
		t.Errorf("second create: %v", err)
	}
	if err := s.Create(ctx, Tenant{Name: "Bad"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("bad name: %v", err)
	}
	if err := s.Delete(ctx, "ann"); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, "ann"); !errors.Is(err, fault.NotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := s.Get(ctx, "ann"); !errors.Is(err, fault.NotFound) {
		t.Errorf("get of a deleted tenant: %v", err)
	}
	mustCreate(t, s, "ann")
}

// TestFile holds the file and its companions to the owner, also when it was loose before.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "account.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, path)
	mustCreate(t, s, "ann")
	token := mustMint(t, s, "ann")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	secret := []byte(token[tokenChars-secretChars:])
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", e.Name(), info.Mode(), err)
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, secret) {
			t.Errorf("%s holds the secret", e.Name())
		}
	}
}

func TestOpenRefusals(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	db, err := sql.Open("sqlite", newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE future (x); PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	rubbish := filepath.Join(dir, "rubbish.db")
	if err := os.WriteFile(rubbish, bytes.Repeat([]byte("rubbish "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(filepath.Join(dir, "elsewhere.db"), link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{newer: fault.Unsupported, rubbish: nil, link: fault.Invalid, dir: fault.Invalid,
		filepath.Join(dir, "none", "a.db"): fs.ErrNotExist} {
		s, err := Open(path)
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", path)
			continue
		}
		if want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %v", path, err, want)
		}
		if path == newer && (!strings.Contains(err.Error(), "version 99") || fault.HintOf(err) == "") {
			t.Errorf("newer: %v, hint %q", err, fault.HintOf(err))
		}
	}
}

func TestReopenKeepsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.db")
	s := reopen(t, path)
	mustCreate(t, s, "ann")
	token := mustMint(t, s, "ann")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	if p, err := s.Authenticate(context.Background(), token); err != nil || p.Tenant != "ann" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestAuthenticate(t *testing.T) {
	s, ctx := open(t), context.Background()
	mustCreate(t, s, "ann", "bob")
	ann, bob, old := mustMint(t, s, "ann"), mustMint(t, s, "bob"), mustMint(t, s, "bob")
	p, err := s.Authenticate(ctx, ann)
	if err != nil || p.Tenant != "ann" || tokenMark+p.TokenID+"_" != ann[:len(tokenMark)+idChars+1] {
		t.Errorf("got %+v, %v", p, err)
	}
	flip := func(s string, i int) string {
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		return s[:i] + string(c) + s[i+1:]
	}
	unknown, _ := newToken()
	refused := map[string]string{
		"empty": "", "rubbish": "pgt_", "unknown id": unknown, "wrong secret": flip(ann, 30), "cut": ann[:len(ann)-1], "long": ann + "A",
		"other's secret": ann[:tokenChars-secretChars] + bob[tokenChars-secretChars:], "space": " " + ann, "upper case": strings.ToUpper(ann),
	}
	if err := s.Delete(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	refused["deleted tenant"] = old
	reset, _, err := s.Reset(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	refused["reset"] = ann
	if _, err := s.Authenticate(ctx, reset); err != nil {
		t.Error(err)
	}
	if err := s.Revoke(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	refused["revoked"] = reset
	for name, token := range refused {
		p, err := s.Authenticate(ctx, token)
		if !errors.Is(err, fault.Denied) || err.Error() != "the token is not valid" || p != (Principal{}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Authenticate(gone, reset); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestTokensOfUnknownTenant(t *testing.T) {
	s, ctx := open(t), context.Background()
	_, _, mintErr := s.Mint(ctx, "ann")
	_, _, resetErr := s.Reset(ctx, "ann")
	_, infoErr := s.Info(ctx, "ann")
	for i, err := range []error{mintErr, resetErr, infoErr, s.Revoke(ctx, "ann")} {
		if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), `no tenant "ann"`) {
			t.Errorf("%d: error %v, want not found", i, err)
		}
	}
	mustCreate(t, s, "ann")
	if _, err := s.Info(ctx, "ann"); !errors.Is(err, fault.NotFound) || !strings.Contains(fault.HintOf(err), "token reset ann") {
		t.Errorf("no token: %v, hint %q", err, fault.HintOf(err))
	}
	if err := s.Revoke(ctx, "ann"); err != nil {
		t.Errorf("revoke without a token: %v", err)
	}
}

// TestLastUsed runs on a clock of its own: a use within a minute of a written one is not written.
func TestLastUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.db")
	now := created
	start := func() *Store {
		s := reopen(t, path)
		s.now = func() time.Time { return now }
		return s
	}
	s, ctx := start(), context.Background()
	mustCreate(t, s, "ann")
	token, minted, err := s.Mint(ctx, "ann")
	if err != nil || minted.LastUsed != nil || !minted.Created.Equal(now) {
		t.Fatalf("got %+v, %v", minted, err)
	}
	use := func(after time.Duration) *time.Time {
		t.Helper()
		now = created.Add(after)
		if _, err := s.Authenticate(ctx, token); err != nil {
			t.Fatal(err)
		}
		s.flushes.Wait()
		info, err := s.Info(ctx, "ann")
		if err != nil {
			t.Fatal(err)
		}
		return info.LastUsed
	}
	for _, tt := range []struct{ at, want time.Duration }{{0, 0}, {59 * time.Second, 0}, {time.Minute, time.Minute}, {119 * time.Second, time.Minute}} {
		if got := use(tt.at); got == nil || !got.Equal(created.Add(tt.want)) {
			t.Errorf("used at +%v: last used %v, want +%v", tt.at, got, tt.want)
		}
	}
	now = created.Add(time.Hour)
	if _, err := s.Authenticate(ctx, token); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start()
	if info, err := s.Info(ctx, "ann"); err != nil || info.LastUsed == nil || !info.LastUsed.Equal(now) {
		t.Errorf("Close did not write the last use: %+v, %v", info, err)
	}
}

func TestInfoShowsTheLiveToken(t *testing.T) {
	s, ctx := open(t), context.Background()
	mustCreate(t, s, "ann")
	mustMint(t, s, "ann")
	token, info, err := s.Reset(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Info(ctx, "ann")
	if err != nil || !strings.HasPrefix(token, got.Prefix+"_") || got.Revoked {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff(info, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := s.Revoke(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Info(ctx, "ann"); err != nil || !got.Revoked {
		t.Errorf("after revoke: %+v, %v", got, err)
	}
}

// TestConcurrency mixes everything on one file: no call may fail as locked, and no revoked token may pass.
func TestConcurrency(t *testing.T) {
	s, ctx := open(t), context.Background()
	var wg sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("tenant-%d", i)
		wg.Go(func() {
			mustCreate(t, s, name)
			for range 10 {
				token, _, err := s.Reset(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				var readers sync.WaitGroup
				for range 4 {
					readers.Go(func() {
						if p, err := s.Authenticate(ctx, token); err != nil || p.Tenant != name {
							t.Errorf("got %+v, %v", p, err)
						}
						if _, err := s.List(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				readers.Wait()
				if err := s.Revoke(ctx, name); err != nil {
					t.Error(err)
				}
				if _, err := s.Authenticate(ctx, token); !errors.Is(err, fault.Denied) {
					t.Errorf("revoked token: %v", err)
				}
			}
			if err := s.Delete(ctx, name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func FuzzParseToken(f *testing.F) {
	token, _ := newToken()
	for _, seed := range []string{"", token, token[:len(token)-1], token + "=", strings.Replace(token, "_", "-", 1), "pgt__", tokenMark + strings.Repeat("0", 16) + "_" + strings.Repeat("A", 43),
		tokenMark + strings.Repeat("0", 16) + "_" + strings.Repeat("A", 42) + "B", tokenMark + strings.Repeat("0", 16) + "_" + strings.Repeat("A", 42) + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseToken(s)
		if !ok {
			return
		}
		// The only well-formed text for these bits is this one.
		raw, err := base64.RawURLEncoding.DecodeString(s[tokenChars-secretChars:])
		if want := tokenMark + id + "_" + base64.RawURLEncoding.EncodeToString(raw); err != nil || s != want {
			t.Errorf("%q was taken; it should be %q (%v)", s, want, err)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	s := open(b)
	mustCreate(b, s, "ann")
	token := mustMint(b, s, "ann")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}
