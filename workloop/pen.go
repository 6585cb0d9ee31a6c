package workloop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"playground/fault"
	"playground/record"
)

// penTries is how often a clock that somebody else took meanwhile is chosen anew.
const penTries = 4

// A pen writes the kernel's records on one run's thread. It chooses their clocks and so knows their ids before they are written,
// which lets a call and the verdict that names it go into one transaction.
type pen struct {
	log    *record.Log
	thread string
	mu     sync.Mutex // guards next, and orders the records
	next   int64      // clock of the next record; -1 is not known
}

// A line is one record to be written; before are the ids of those written with it, in order.
type line struct {
	act  record.Act
	body func(before []string) (body any, parents []string)
}

// write writes the lines as one transaction and returns their ids. It does not end with ctx: half a judgment must not be left.
func (p *pen) write(ctx context.Context, lines ...line) ([]string, error) {
	ctx = context.WithoutCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for range penTries {
		if p.next < 0 {
			if err = p.findLocked(ctx); err != nil {
				return nil, err
			}
		}
		var ids []string
		if ids, err = p.tryLocked(ctx, lines); err == nil {
			return ids, nil
		}
		if p.next = -1; !errors.Is(err, fault.Exists) {
			return nil, err
		}
	}
	return nil, err
}

// findLocked reads the kernel's last clock on the thread.
func (p *pen) findLocked(ctx context.Context) error {
	records, err := p.log.List(ctx, record.ListQuery{Thread: p.thread, Actor: record.EngineDID})
	if err != nil {
		return err
	}
	p.next = 0
	for _, r := range records {
		p.next = max(p.next, r.Clock+1)
	}
	return nil
}

func (p *pen) tryLocked(ctx context.Context, lines []line) ([]string, error) {
	drafts := make([]record.Draft, len(lines))
	ids := make([]string, 0, len(lines))
	for i, l := range lines {
		body, parents := l.body(ids)
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		clock := p.next + int64(i)
		drafts[i] = record.Draft{Parents: parents, Thread: p.thread, Actor: record.EngineDID, Act: l.act, Body: json.RawMessage(raw), Clock: &clock}
		id, err := idOf(drafts[i], raw)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	records, err := p.log.Append(ctx, drafts...)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		if r.ID != ids[i] {
			return nil, fault.New(fault.Internal, "a record was stored under another id than its content has")
		}
	}
	p.next += int64(len(lines))
	return ids, nil
}

// idOf returns the id that a draft's record will have.
func idOf(d record.Draft, body json.RawMessage) (string, error) {
	parents := slices.Compact(slices.Sorted(slices.Values(d.Parents)))
	if parents == nil {
		parents = []string{}
	}
	canonical, err := record.Record{Parents: parents, Thread: d.Thread, Actor: d.Actor, Act: d.Act, Body: body, Clock: *d.Clock, DataType: record.Scalar}.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
