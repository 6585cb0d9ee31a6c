package record

import (
	"context"
	"slices"
	"strings"

	"playground/fault"
)

// A Thread is what the log says of one thread.
type Thread struct {
	ID            string   `json:"id"`
	Records       int64    `json:"records"`
	FirstSequence int64    `json:"first_sequence"`
	LastSequence  int64    `json:"last_sequence"`
	LastClock     int64    `json:"last_clock"` // the highest of all authors
	Opened        string   `json:"opened"`     // id of the INTEND that opened it last, "" if none did
	State         State    `json:"state"`
	Participants  []string `json:"participants"` // DIDs of the authors, sorted
}

// A State of a thread is a fold over its records, never stored.
type State string

// The states of a thread.
const (
	StateUnopened  State = "unopened" // no INTEND: a register or a log
	StateOpen      State = "open"
	StateClosed    State = "closed"    // a KNOW fulfils the INTEND
	StateCancelled State = "cancelled" // a DO cancels it, or a KNOW rejects it
)

// Threads returns threads by ascending FirstSequence, those after the one given, at most limit (0: DefaultLimit; at most MaxLimit).
func (l *Log) Threads(ctx context.Context, after int64, limit int) ([]Thread, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return l.threads(ctx, "1", "HAVING min(sequence) > ? ORDER BY min(sequence) LIMIT ?", after, min(limit, MaxLimit))
}

// Thread returns one thread, or fault.NotFound when nothing was ever recorded on it.
func (l *Log) Thread(ctx context.Context, id string) (Thread, error) {
	if err := ValidThread(id); err != nil {
		return Thread{}, err
	}
	threads, err := l.threads(ctx, "thread = ?", "", id)
	if err != nil {
		return Thread{}, err
	}
	if len(threads) == 0 {
		return Thread{}, fault.New(fault.NotFound, "no thread %s", id)
	}
	return threads[0], nil
}

func (l *Log) threads(ctx context.Context, where, tail string, args ...any) ([]Thread, error) {
	rows, err := l.read.QueryContext(ctx, `SELECT thread, count(*), min(sequence), max(sequence), max(clock), group_concat(DISTINCT actor)
		FROM records WHERE `+where+` GROUP BY thread `+tail, args...)
	if err != nil {
		return nil, readError(ctx, err)
	}
	defer rows.Close()
	threads := []Thread{}
	for rows.Next() {
		t := Thread{State: StateUnopened}
		var actors string // a DID has no comma
		if err := rows.Scan(&t.ID, &t.Records, &t.FirstSequence, &t.LastSequence, &t.LastClock, &actors); err != nil {
			return nil, readError(ctx, err)
		}
		t.Participants = slices.Sorted(slices.Values(strings.Split(actors, ",")))
		threads = append(threads, t)
	}
	if err := rows.Err(); err != nil {
		return nil, readError(ctx, err)
	}
	return threads, l.foldStates(ctx, threads)
}

// foldStates fills in what the records that open and close say, in their order.
func (l *Log) foldStates(ctx context.Context, threads []Thread) error {
	if len(threads) == 0 {
		return nil
	}
	byID := make(map[string]*lifecycle, len(threads))
	args := make([]any, len(threads))
	for i := range threads {
		byID[threads[i].ID] = &lifecycle{thread: &threads[i], intends: map[string]bool{}}
		args[i] = threads[i].ID
	}
	rows, err := l.read.QueryContext(ctx, `SELECT thread, id, act,
			coalesce(json_extract(body, '$.fulfills'), ''), coalesce(json_extract(body, '$.cancels'), ''), coalesce(json_extract(body, '$.verdict'), '')
		FROM records WHERE thread IN (`+marks(len(args))+`) AND act IN ('INTEND', 'DO', 'KNOW') ORDER BY sequence`, args...)
	if err != nil {
		return readError(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var thread, id, fulfills, cancels, verdict string
		var act Act
		if err := rows.Scan(&thread, &id, &act, &fulfills, &cancels, &verdict); err != nil {
			return readError(ctx, err)
		}
		byID[thread].step(id, act, fulfills, cancels, verdict)
	}
	return readError(ctx, rows.Err())
}

// A lifecycle folds one thread: the first end counts until another INTEND opens the thread again.
type lifecycle struct {
	thread  *Thread
	intends map[string]bool
}

func (f *lifecycle) step(id string, act Act, fulfills, cancels, verdict string) {
	switch {
	case act == ActIntend:
		f.intends[id] = true
		f.thread.Opened, f.thread.State = id, StateOpen
	case f.thread.State != StateOpen:
	case act == ActKnow && f.intends[fulfills]:
		f.thread.State = StateClosed
	case act == ActKnow && verdict == "reject", act == ActDo && (f.intends[cancels] || cancels == f.thread.ID):
		f.thread.State = StateCancelled
	}
}
