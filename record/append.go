package record

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync/atomic"

	"playground/fault"
)

// maxBatch bounds the requests of one transaction, maxDrafts the records of one request.
const (
	maxBatch  = 256
	maxDrafts = 256
)

// A request is what one caller wants appended, all or none.
type request struct {
	records []Record // prepared; a Clock of -1 is to be chosen. The writer replaces them by what is stored.
	err     error
	taken   atomic.Bool // by the writer, or by the caller who gave up
	done    chan struct{}
}

// Append writes the drafts in one durable transaction, all or none, and returns them as they are stored. A record that the log
// has already is returned as it is there. The kinds of its errors: Invalid and TooLarge for what breaks a rule, Exists for a clock
// that is used, Unavailable when the disk or the audit file refuses, and whatever Options.Check returns. A context that ends while
// the append is queued takes it back; once it is being written, its result is waited for, so that nobody has to guess.
func (l *Log) Append(ctx context.Context, drafts ...Draft) ([]Record, error) {
	if len(drafts) > maxDrafts {
		return nil, fault.New(fault.TooLarge, "%d records in one append are too many", len(drafts)).WithHint("append at most %d at once", maxDrafts)
	}
	records := make([]Record, 0, len(drafts))
	for _, draft := range drafts {
		r, err := draft.record()
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return l.append(ctx, records)
}

// Put appends a client's complete envelope, whose clock is given. An id that is given must be the right one; Sequence and CreatedAt
// are ignored. The errors are those of Append.
func (l *Log) Put(ctx context.Context, r Record) (Record, error) {
	if r.Clock < 0 {
		return Record{}, fault.New(fault.Invalid, "clock %d is out of range", r.Clock).WithHint("it is an integer from 0 to 2^53-1")
	}
	given := r.ID
	r.ID, r.Sequence, r.CreatedAt = "", 0, 0
	r.Parents = slices.Clone(r.Parents)
	if err := r.prepare(); err != nil {
		return Record{}, err
	}
	id := idOf(r.canonical())
	if given != "" && given != id {
		return Record{}, fault.New(fault.Invalid, "record id %.80q is not the hash of this record", given).WithHint("leave the id out, or send the record it belongs to; this one is %s", id)
	}
	if stored, err := l.Get(ctx, id); !errors.Is(err, fault.NotFound) {
		return stored, err // there already, whatever the rules of today say; or the log cannot be read
	}
	records, err := l.append(ctx, []Record{r})
	if err != nil {
		return Record{}, err
	}
	return records[0], nil
}

func (l *Log) append(ctx context.Context, records []Record) ([]Record, error) {
	if l.damage != nil {
		return nil, l.damage
	}
	if l.check != nil {
		for _, r := range records {
			if err := l.check(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	if len(records) == 0 {
		return records, nil
	}
	r := &request{records: records, done: make(chan struct{})}
	if err := l.enqueue(ctx, r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return nil, ctx.Err()
		}
		<-r.done
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.records, nil
}

// enqueue hands r to the writer, which runs only while there is something to write.
func (l *Log) enqueue(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed()
	}
	l.queue = append(l.queue, r)
	if !l.running {
		l.running = true
		l.work.Go(l.drain)
	}
	return nil
}

// drain writes batches until the queue is empty. What is queued while a batch is being synced makes up the next one, so that the
// callers share its cost.
func (l *Log) drain() {
	for {
		l.mu.Lock()
		n := min(len(l.queue), maxBatch)
		batch := slices.Clone(l.queue[:n])
		if l.queue = slices.Delete(l.queue, 0, n); n == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		batch = slices.DeleteFunc(batch, func(r *request) bool { return !r.taken.CompareAndSwap(false, true) })
		if len(batch) == 0 {
			continue
		}
		// Before the callers hear of it: whoever reads the configuration after an append finds what was appended.
		if added := l.writer.apply(batch); len(added) > 0 {
			l.config.forget(added)
			l.hub.publish(added)
		}
		for _, r := range batch {
			close(r.done)
		}
	}
}

// Get returns one record, or fault.NotFound.
func (l *Log) Get(ctx context.Context, id string) (Record, error) {
	if err := ValidID(id); err != nil {
		return Record{}, err
	}
	r, err := scanRecord(l.read.QueryRowContext(ctx, "SELECT "+columns+" FROM records WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, fault.New(fault.NotFound, "no record %s", id)
	}
	return r, readError(ctx, err)
}
