package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite", in pure Go

	"playground/fault"
	"playground/tenancy"
)

// migrations bring a database from version i to i+1. Never change one that was released: add another.
func migrations() []string {
	return []string{`
		CREATE TABLE tenants (
			name       TEXT NOT NULL PRIMARY KEY,
			sandbox_id TEXT NOT NULL,
			created    INTEGER NOT NULL -- Unix nanoseconds, as all times here
		) STRICT, WITHOUT ROWID;
		CREATE TABLE tokens (
			id        TEXT NOT NULL PRIMARY KEY,
			tenant    TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
			hash      BLOB NOT NULL CHECK (length(hash) = 32),
			created   INTEGER NOT NULL,
			last_used INTEGER,
			revoked   INTEGER
		) STRICT, WITHOUT ROWID;
		CREATE INDEX tokens_of_tenant ON tokens (tenant, created);`, `
		CREATE TABLE operator_tokens (
			id        TEXT NOT NULL PRIMARY KEY,
			name      TEXT NOT NULL,
			hash      BLOB NOT NULL CHECK (length(hash) = 32),
			created   INTEGER NOT NULL,
			last_used INTEGER,
			revoked   INTEGER
		) STRICT, WITHOUT ROWID;`}
}

// A Store is the open database. It is safe for concurrent use.
type Store struct {
	write *sql.DB // one connection: SQLite has one writer, and waiting in Go is fair and ends with the context
	read  *sql.DB
	find  *sql.Stmt // of Authenticate
	finds *sql.Stmt // of AuthenticateOperator
	now   func() time.Time
	known known

	flushes sync.WaitGroup // the goroutine that writes pending, if there is one
	mu      sync.Mutex     // mu guards the rest
	noted   map[string]int64
	pending map[string]int64
	barred  map[string]struct{} // tokens whose revocation is not in the file yet
	running bool
	closed  bool
}

// Open opens the database at path, which only the owner may read, makes it when it is missing and brings an older one up
// to date. A database of a newer program is refused, untouched.
func Open(path string) (*Store, error) {
	if err := secureFile(path); err != nil {
		return nil, err
	}
	write, err := sql.Open("sqlite", dsn(path, "rw")+"&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("cannot open account database %q: %w", path, err)
	}
	write.SetMaxOpenConns(1)
	if err := migrate(write, path); err != nil {
		write.Close()
		return nil, err
	}
	read, err := sql.Open("sqlite", dsn(path, "ro"))
	if err != nil {
		write.Close()
		return nil, fmt.Errorf("cannot open account database %q: %w", path, err)
	}
	// Reads are short and in memory: a few connections keep the processors busy, and each costs a page cache.
	read.SetMaxOpenConns(4)
	read.SetMaxIdleConns(4)
	find, err := read.Prepare("SELECT tenant, hash, revoked IS NOT NULL FROM tokens WHERE id = ?")
	if err != nil {
		read.Close()
		write.Close()
		return nil, fmt.Errorf("cannot read account database %q: %w", path, err)
	}
	finds, err := read.Prepare("SELECT '', hash, revoked IS NOT NULL FROM operator_tokens WHERE id = ?")
	if err != nil {
		find.Close()
		read.Close()
		write.Close()
		return nil, fmt.Errorf("cannot read account database %q: %w", path, err)
	}
	return &Store{write: write, read: read, find: find, finds: finds, now: time.Now, known: known{rows: make(map[string]row)},
		noted: make(map[string]int64), pending: make(map[string]int64), barred: make(map[string]struct{})}, nil
}

// dsn names the file and the pragmas of every connection. Synchronous FULL: a revocation must survive a power failure.
func dsn(path, mode string) string {
	query := url.Values{
		"mode":    {mode},
		"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "synchronous(FULL)", "cache_size(-512)"},
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

// secureFile makes sure that path is a plain file that nobody else can read. SQLite gives its -wal and -shm files the
// same mode.
func secureFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "account database %q is not a plain file", path).WithHint("move it away")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot look at account database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open account database: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("cannot protect account database: %w", err)
	}
	return nil
}

// migrate brings the database to the newest version in one transaction.
func migrate(db *sql.DB, path string) error {
	cannot := func(err error) error { return fmt.Errorf("cannot prepare account database %q: %w", path, err) }
	// WAL lets readers go on while one writes; it is kept in the file and cannot be set inside a transaction.
	if _, err := db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return cannot(err)
	}
	tx, err := db.Begin()
	if err != nil {
		return cannot(err)
	}
	defer tx.Rollback()
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return cannot(err)
	}
	steps := migrations()
	if version > len(steps) || version < 0 {
		return fault.New(fault.Unsupported, "account database %q has version %d; this program knows versions up to %d", path, version, len(steps)).
			WithHint("a newer playground wrote it: install that version again, or restore the database from before the upgrade")
	}
	for _, step := range steps[version:] {
		if _, err := tx.Exec(step); err != nil {
			return cannot(err)
		}
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return cannot(err)
	}
	if err := tx.Commit(); err != nil {
		return cannot(err)
	}
	return nil
}

// Close writes what is not written yet and closes the database. No other method may be running or follow.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flushes.Wait()
	return errors.Join(s.find.Close(), s.finds.Close(), s.read.Close(), s.write.Close())
}

// Create records a tenant; fault.Exists when the name is taken.
func (s *Store) Create(ctx context.Context, t Tenant) error {
	if err := tenancy.ValidName(t.Name); err != nil {
		return err
	}
	res, err := s.write.ExecContext(ctx, "INSERT INTO tenants (name, sandbox_id, created) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
		t.Name, t.SandboxID, t.Created.UnixNano())
	if err := oneRow(res, err, fault.New(fault.Exists, "tenant %q exists already", t.Name).
		WithHint("choose another name, or destroy it first: playground user destroy %s", t.Name)); err != nil {
		return fmt.Errorf("cannot create tenant: %w", err)
	}
	return nil
}

// Get returns one tenant, or fault.NotFound.
func (s *Store) Get(ctx context.Context, name string) (Tenant, error) {
	t := Tenant{Name: name}
	var created int64
	err := s.read.QueryRowContext(ctx, "SELECT sandbox_id, created FROM tenants WHERE name = ?", name).Scan(&t.SandboxID, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return Tenant{}, noTenant(name)
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("cannot read tenant %q: %w", name, err)
	}
	t.Created = fromUnix(created)
	return t, nil
}

// List returns all tenants by name.
func (s *Store) List(ctx context.Context) ([]Tenant, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT name, sandbox_id, created FROM tenants ORDER BY name")
	if err != nil {
		return nil, fmt.Errorf("cannot list tenants: %w", err)
	}
	defer rows.Close()
	all := []Tenant{}
	for rows.Next() {
		var t Tenant
		var created int64
		if err := rows.Scan(&t.Name, &t.SandboxID, &created); err != nil {
			return nil, fmt.Errorf("cannot list tenants: %w", err)
		}
		t.Created = fromUnix(created)
		all = append(all, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("cannot list tenants: %w", err)
	}
	return all, nil
}

// Delete forgets a tenant and all its tokens; fault.NotFound when there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	defer s.known.forget()
	res, err := s.write.ExecContext(ctx, "DELETE FROM tenants WHERE name = ?", name)
	return oneRow(res, err, noTenant(name))
}

// oneRow returns err, or none when a statement changed no row.
func oneRow(res sql.Result, err error, none error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = none
	}
	return err
}

func noTenant(name string) error {
	return fault.New(fault.NotFound, "no tenant %.40q", name).WithHint("list the tenants: playground user list")
}

func fromUnix(ns int64) time.Time { return time.Unix(0, ns).UTC() }
