package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite", in pure Go

	"playground/fault"
)

// migrations bring a database from version i to i+1. Never change one that was released: add another.
//
// The triggers hold against mistakes and against SQL that somehow gets in, not against whoever may write the file: that is what
// the chain and the head are for. The insert trigger keeps INSERT OR REPLACE, which fires no delete trigger, from replacing a row.
func migrations() []string {
	return []string{`
		CREATE TABLE records (
			sequence   INTEGER PRIMARY KEY,
			id         TEXT NOT NULL UNIQUE CHECK (length(id) = 64),
			thread     TEXT NOT NULL,
			actor      TEXT NOT NULL,
			act        TEXT NOT NULL,
			body       TEXT NOT NULL,
			clock      INTEGER NOT NULL CHECK (clock >= 0),
			data_type  TEXT NOT NULL,
			parents    TEXT NOT NULL, -- joined by commas
			judged_by  TEXT,
			created_at INTEGER NOT NULL, -- Unix seconds
			sig        BLOB, -- Ed25519 by the engine's key
			chain      BLOB NOT NULL CHECK (length(chain) = 32),
			kind       TEXT GENERATED ALWAYS AS (json_extract(body, '$.kind')) VIRTUAL,
			namespace  TEXT GENERATED ALWAYS AS (json_extract(body, '$.namespace')) VIRTUAL
		) STRICT;
		CREATE UNIQUE INDEX records_of_author ON records (thread, actor, clock);
		CREATE INDEX records_of_thread ON records (thread, sequence, clock);
		CREATE INDEX records_of_actor ON records (actor, sequence);
		CREATE INDEX records_of_kind ON records (kind, sequence);
		CREATE TABLE head (
			one      INTEGER PRIMARY KEY CHECK (one = 1),
			sequence INTEGER NOT NULL,
			chain    BLOB NOT NULL,
			sig      BLOB
		) STRICT;
		CREATE TRIGGER records_stay BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'a record is never changed'); END;
		CREATE TRIGGER records_remain BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'a record is never deleted'); END;
		CREATE TRIGGER records_follow BEFORE INSERT ON records
			WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM records)
				OR EXISTS (SELECT 1 FROM records WHERE id = NEW.id)
				OR NEW.clock <= (SELECT max(clock) FROM records WHERE thread = NEW.thread AND actor = NEW.actor)
			BEGIN SELECT RAISE(ABORT, 'a record is only ever added at the end'); END;
		CREATE TRIGGER head_remains BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'the head is never deleted'); END;`}
}

// dsn names the file and the pragmas of every connection. Synchronous FULL: what is acknowledged survives a power failure.
func dsn(path, mode string) string {
	query := url.Values{
		"mode":       {mode},
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_pragma":    {"busy_timeout(5000)", "synchronous(FULL)", "trusted_schema(0)", "cache_size(-4096)"},
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

// secureFile makes sure that path is a plain file that nobody else can read. SQLite gives its -wal and -shm files the
// same mode. The folder is synced, so that a new log outlives a power failure as its records do.
func secureFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "record log %q is not a plain file", path).WithHint("move it away")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot look at record log: %w", err)
	}
	isNew := err != nil
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open record log: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("cannot protect record log: %w", err)
	}
	if isNew {
		return syncFolder(filepath.Dir(path))
	}
	return nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot open folder: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("cannot sync folder: %w", err)
	}
	return nil
}

// migrate brings the database to the newest version in one transaction.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	cannot := func(err error) error { return fmt.Errorf("cannot prepare record log %q: %w", path, err) }
	// WAL lets readers go on while one writes; it is kept in the file and cannot be set inside a transaction.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return cannot(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return cannot(err)
	}
	defer tx.Rollback()
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return cannot(err)
	}
	steps := migrations()
	if version > len(steps) || version < 0 {
		return fault.New(fault.Unsupported, "record log %q has version %d; this program knows versions up to %d", path, version, len(steps)).
			WithHint("a newer playground wrote it: install that version again, or restore the log from before the upgrade")
	}
	for _, step := range steps[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return cannot(err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return cannot(err)
	}
	if err := tx.Commit(); err != nil {
		return cannot(err)
	}
	return nil
}
