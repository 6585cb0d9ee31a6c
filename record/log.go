package record

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"playground/fault"
)

// Options of a log.
type Options struct {
	// Key signs the records of Engine and the head of the log. Without it nothing is signed, and whoever can write the database
	// can cut its tail off unseen.
	Key    ed25519.PrivateKey
	Engine string // DID whose records are signed; "": EngineDID
	// Audit, if not nil, gets one JSON line a record before the append is acknowledged; it is synced if it has Sync() error.
	// OpenAudit makes one that only grows, which Verify reads back.
	Audit io.Writer
	Now   func() time.Time // nil: time.Now
	// Check, if not nil, adds rules: its error refuses the append. It is called before the record is queued, concurrently, and may
	// read the log; ID, Sequence and CreatedAt are not set yet, and Clock is -1 where the log is to choose it.
	Check func(context.Context, Record) error
}

// A Log is an open log. It is safe for concurrent use, and so is the file: other processes may read it and append to it, though
// Watch sees what they append only when this process appends next.
type Log struct {
	path   string
	write  *sql.DB // one connection, the writer's
	read   *sql.DB
	slow   *sql.DB // for what outsiders can make slow, so that it does not hold up the rest
	writer *writer
	check  func(context.Context, Record) error
	signer signer
	audit  io.Writer
	hub    hub
	config configCache
	damage error // found at Open; refuses appends

	work    sync.WaitGroup // the goroutine that empties queue, if there is one
	mu      sync.Mutex     // mu guards the rest
	queue   []*request
	running bool
	closed  bool
	done    chan struct{} // closed by Close
}

// How many reads go on at once: each has a page cache of 4 MiB at most.
const (
	readers     = 4
	slowReaders = 4
)

// Open opens the log at path, which only the owner may read, and makes it when it is missing. A log whose end is not what its head
// or its audit file says opens for reading and for Verify; it refuses appends, which would cover the damage up.
func Open(path string, o Options) (*Log, error) {
	if o.Key != nil && len(o.Key) != ed25519.PrivateKeySize {
		return nil, fault.New(fault.Invalid, "the engine's key has %d bytes, want %d", len(o.Key), ed25519.PrivateKeySize)
	}
	if o.Engine == "" {
		o.Engine = EngineDID
	}
	if err := ValidActor(o.Engine); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := secureFile(path); err != nil {
		return nil, err
	}
	l := &Log{path: path, check: o.Check, signer: signer{o.Key, o.Engine}, audit: o.Audit, done: make(chan struct{})}
	if err := l.open(o.Now); err != nil {
		l.closeFiles()
		return nil, err
	}
	return l, nil
}

func (l *Log) open(now func() time.Time) error {
	ctx := context.Background()
	var err error
	if l.write, err = sql.Open("sqlite", dsn(l.path, "rw")+"&_txlock=immediate"); err != nil {
		return fmt.Errorf("cannot open record log %q: %w", l.path, err)
	}
	l.write.SetMaxOpenConns(1)
	if err := migrate(ctx, l.write, l.path); err != nil {
		return err
	}
	if l.writer, err = newWriter(ctx, l.write, l.signer, l.audit, now); err != nil {
		return fmt.Errorf("cannot prepare record log %q: %w", l.path, err)
	}
	for _, pool := range []struct {
		db   **sql.DB
		size int
	}{{&l.read, readers}, {&l.slow, slowReaders}} {
		if *pool.db, err = sql.Open("sqlite", dsn(l.path, "ro")+"&_query_only=1"); err != nil {
			return fmt.Errorf("cannot open record log %q: %w", l.path, err)
		}
		(*pool.db).SetMaxOpenConns(pool.size)
		(*pool.db).SetMaxIdleConns(pool.size)
	}
	bad, err := l.lookAtEnd(ctx)
	if err != nil {
		return fmt.Errorf("cannot read record log %q: %w", l.path, err)
	}
	if bad != nil {
		l.damage = fault.Hide(fault.Internal, ErrDamaged, "the record log is damaged at sequence %d: %s", bad.Sequence, bad.Reason).
			WithHint("nothing is appended until the log is whole: is the engine's key the one it was written with? else look at the audit files and at a backup")
	}
	return nil
}

// lookAtEnd compares the last row with the head, and the head with the end of the audit file.
func (l *Log) lookAtEnd(ctx context.Context) (*Bad, error) {
	committed := int64(0)
	if file, ok := l.audit.(*Audit); ok { // before the log: another process may be appending
		var bad *Bad
		var err error
		if committed, bad, err = file.committed(); bad != nil || err != nil {
			return bad, err
		}
	}
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	h, sig, err := readHead(ctx, tx)
	if errors.Is(err, sql.ErrNoRows) {
		h = head{chain: genesis()}
	} else if err != nil {
		return nil, err
	}
	last := head{chain: genesis()}
	var chain []byte
	err = tx.QueryRowContext(ctx, "SELECT sequence, chain FROM records ORDER BY sequence DESC LIMIT 1").Scan(&last.sequence, &chain)
	if err == nil {
		copy(last.chain[:], chain)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if bad := l.judgeHead(h, sig, last); bad != nil {
		return bad, nil
	}
	if committed > h.sequence {
		return &Bad{Sequence: h.sequence + 1, Reason: fmt.Sprintf("the audit files say that %d records were committed and the log has %d: it is an older copy", committed, h.sequence)}, nil
	}
	return nil, nil
}

// judgeHead compares the head that is stored with the end that the rows have.
func (l *Log) judgeHead(stored head, sig []byte, rows head) *Bad {
	switch {
	case stored.sequence > rows.sequence:
		return &Bad{Sequence: rows.sequence + 1, Reason: fmt.Sprintf("the head names %d records and the log ends at %d: its tail is missing", stored.sequence, rows.sequence)}
	case stored.sequence < rows.sequence:
		return &Bad{Sequence: stored.sequence + 1, Reason: fmt.Sprintf("the head names %d records and the log goes on: this row was added behind its back", stored.sequence)}
	case stored.chain != rows.chain:
		return &Bad{Sequence: rows.sequence, Reason: "the head does not match the last record's link"}
	case l.signer.on() && rows.sequence > 0 && !l.signer.verify(stored.message(), sig):
		return &Bad{Sequence: rows.sequence, Reason: "the head is not signed by the engine's key"}
	}
	return nil
}

// A querier is a *sql.DB, a *sql.Tx or a *sql.Conn.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readHead(ctx context.Context, from querier) (h head, sig []byte, err error) {
	var chain []byte
	err = from.QueryRowContext(ctx, "SELECT sequence, chain, sig FROM head").Scan(&h.sequence, &chain, &sig)
	copy(h.chain[:], chain)
	return h, bytes.Clone(sig), err
}

// Damage returns what Open found wrong with the end of the log, an ErrDamaged, or nil. Verify says more.
func (l *Log) Damage() error { return l.damage }

// Close lets the appends that are queued finish, ends the watches and closes the log. It does not close the audit file. It may be
// called again; what is called after it fails.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	l.mu.Unlock()
	l.work.Wait()
	return l.closeFiles()
}

func (l *Log) closeFiles() error {
	var errs []error
	if l.writer != nil {
		errs = append(errs, l.writer.close())
	}
	for _, db := range []*sql.DB{l.read, l.slow, l.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func errClosed() error { return fault.New(fault.Unavailable, "the record log is closed") }
