package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"playground/fault"
)

// A writer owns the connection that writes. One goroutine at a time uses it.
type writer struct {
	conn   *sql.Conn
	signer signer
	audit  io.Writer
	now    func() time.Time
	known  head // a head whose signature was checked

	insert, byID, exists, clock, setHead *sql.Stmt
}

func newWriter(ctx context.Context, db *sql.DB, s signer, audit io.Writer, now func() time.Time) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn, signer: s, audit: audit, now: now}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&w.insert, "INSERT INTO records (" + columns + ", sig, chain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{&w.byID, "SELECT " + columns + " FROM records WHERE id = ?"},
		{&w.exists, "SELECT EXISTS (SELECT 1 FROM records WHERE id = ?)"},
		{&w.clock, "SELECT coalesce(max(clock), -1) FROM records WHERE thread = ? AND actor = ?"},
		{&w.setHead, "INSERT INTO head (one, sequence, chain, sig) VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET sequence = excluded.sequence, chain = excluded.chain, sig = excluded.sig"},
	} {
		if *p.stmt, err = conn.PrepareContext(ctx, p.text); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *writer) close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{w.insert, w.byID, w.exists, w.clock, w.setHead} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// apply writes a batch in one transaction. Every request has its result or its error after it; the records that are new are
// returned. A caller's context has no part in it: a batch belongs to several.
func (w *writer) apply(batch []*request) (added []Record) {
	tx := &transaction{writer: w, ctx: context.Background()}
	err := tx.run(batch)
	if err == nil {
		return tx.added
	}
	w.conn.ExecContext(tx.ctx, "ROLLBACK") // SQLite may have done it already
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
	}
	return nil
}

// A transaction is one batch on its way into the log.
type transaction struct {
	*writer
	ctx   context.Context
	head  head
	added []Record
	links []link // of added
}

func cannotWrite(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Hide(fault.Unavailable, err, "cannot write to the record log").WithHint("see the daemon's log; is the disk full?")
}

// run fails only as a whole; what is wrong with one request becomes that request's error.
func (tx *transaction) run(batch []*request) error {
	if err := tx.begin(); err != nil {
		return cannotWrite(err)
	}
	for _, r := range batch {
		if err := tx.add(r); err != nil {
			return cannotWrite(err)
		}
	}
	if len(tx.added) == 0 {
		if _, err := tx.conn.ExecContext(tx.ctx, "ROLLBACK"); err != nil {
			return cannotWrite(err)
		}
		return nil
	}
	if tx.audit != nil {
		if err := writeAudit(tx.audit, tx.added, tx.links); err != nil {
			return fault.Hide(fault.Unavailable, err, "cannot write to the audit file of the record log").WithHint("see the daemon's log; is the disk full?")
		}
	}
	sig := tx.signer.signHead(tx.head)
	if _, err := tx.setHead.ExecContext(tx.ctx, tx.head.sequence, tx.head.chain[:], sig); err != nil {
		return cannotWrite(err)
	}
	if _, err := tx.conn.ExecContext(tx.ctx, "COMMIT"); err != nil {
		return cannotWrite(err)
	}
	tx.known = tx.head
	return nil
}

// begin reads the head under the write lock: another process may have appended. A head that this process did not write must carry
// the engine's signature, or the next one would vouch for it.
func (tx *transaction) begin() error {
	if _, err := tx.conn.ExecContext(tx.ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	h, sig, err := readHead(tx.ctx, tx.conn)
	if errors.Is(err, sql.ErrNoRows) {
		h = head{chain: genesis()}
	} else if err != nil {
		return err
	}
	if h != tx.known && h.sequence > 0 && tx.signer.on() && !tx.signer.verify(h.message(), sig) {
		return fault.Hide(fault.Internal, ErrDamaged, "the record log is damaged: its head is not signed by the engine's key").WithHint("nothing is appended until the log is restored")
	}
	tx.head = h
	return nil
}

// add writes one request. Its own error undoes its records alone.
func (tx *transaction) add(r *request) error {
	before, added := tx.head, len(tx.added)
	many := len(r.records) > 1
	if many {
		if _, err := tx.conn.ExecContext(tx.ctx, "SAVEPOINT request"); err != nil {
			return err
		}
	}
	for i := range r.records {
		stored, err := tx.addRecord(r.records[i])
		if _, refused := errors.AsType[*fault.Error](err); refused {
			r.err = err
			break
		} else if err != nil {
			return err
		}
		r.records[i] = stored
	}
	if r.err != nil {
		tx.head, tx.added, tx.links = before, tx.added[:added], tx.links[:added]
	}
	if !many {
		return nil
	}
	if r.err != nil {
		if _, err := tx.conn.ExecContext(tx.ctx, "ROLLBACK TO request"); err != nil {
			return err
		}
	}
	_, err := tx.conn.ExecContext(tx.ctx, "RELEASE request")
	return err
}

// addRecord checks what only the log can tell and inserts one record. A *fault.Error is the caller's.
func (tx *transaction) addRecord(r Record) (Record, error) {
	var last int64
	if err := tx.clock.QueryRowContext(tx.ctx, r.Thread, r.Actor).Scan(&last); err != nil {
		return Record{}, err
	}
	given := r.Clock >= 0
	if !given {
		r.Clock = last + 1
	}
	canonical := r.canonical()
	r.ID = idOf(canonical)
	switch stored, err := scanRecord(tx.byID.QueryRowContext(tx.ctx, r.ID)); {
	case err == nil:
		return stored, nil
	case !errors.Is(err, sql.ErrNoRows):
		return Record{}, err
	}
	if r.Clock > MaxClock || last == MaxClock {
		return Record{}, fault.New(fault.Limit, "the clock of %s on thread %s is used up", r.Actor, r.Thread)
	}
	if r.Clock <= last {
		return Record{}, fault.New(fault.Exists, "clock %d of %s on thread %s is used or passed; the next free clock is %d", r.Clock, r.Actor, r.Thread, last+1).
			WithHint("send the record again with clock %d", last+1)
	}
	if err := tx.checkLinks(r); err != nil {
		return Record{}, err
	}
	r.Sequence, r.CreatedAt = tx.head.sequence+1, tx.now().Unix()
	sig := tx.signer.sign(r.Actor, canonical)
	next := head{r.Sequence, tx.head.chain.next(r, sig)}
	if _, err := tx.insert.ExecContext(tx.ctx, r.Sequence, r.ID, r.Thread, r.Actor, string(r.Act), string(r.Body), r.Clock, r.DataType,
		strings.Join(r.Parents, ","), r.JudgedBy, r.CreatedAt, sig, next.chain[:]); err != nil {
		return Record{}, fmt.Errorf("cannot insert record: %w", err)
	}
	tx.head = next
	tx.added, tx.links = append(tx.added, r), append(tx.links, next.chain)
	return r, nil
}

func (tx *transaction) checkLinks(r Record) error {
	known := func(name, id string) error {
		var found bool
		err := tx.exists.QueryRowContext(tx.ctx, id).Scan(&found)
		if err == nil && !found {
			return fault.New(fault.Invalid, "%s %s is not in the log", name, id).WithHint("append it first")
		}
		return err
	}
	for _, parent := range r.Parents {
		if err := known("parent", parent); err != nil {
			return err
		}
	}
	if r.JudgedBy != nil {
		return known("judged_by", *r.JudgedBy)
	}
	return nil
}
