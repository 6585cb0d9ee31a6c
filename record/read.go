package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"playground/fault"
)

// columns are those of a Record, in the order of scanRecord.
const columns = "sequence, id, thread, actor, act, body, clock, data_type, parents, judged_by, created_at"

// A scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// scanRecord reads columns, and into extra what the query has after them.
func scanRecord(row scanner, extra ...any) (Record, error) {
	var r Record
	var body []byte
	var parents string
	var judged sql.NullString
	err := row.Scan(append([]any{&r.Sequence, &r.ID, &r.Thread, &r.Actor, &r.Act, &body, &r.Clock, &r.DataType, &parents, &judged, &r.CreatedAt}, extra...)...)
	if err != nil {
		return Record{}, err
	}
	r.Body, r.Parents = json.RawMessage(body), []string{}
	if parents != "" {
		r.Parents = strings.Split(parents, ",")
	}
	if judged.Valid {
		r.JudgedBy = &judged.String
	}
	return r, nil
}

// readError gives an error of a read its text; the end of the context is passed on as it is.
func readError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fault.Hide(fault.Unavailable, err, "cannot read the record log").WithHint("see the daemon's log")
}

// A ListQuery selects records by plain fields; what is empty does not restrict.
type ListQuery struct {
	Thread string
	Actor  string
	Kinds  []string // any of them
	After  int64    // only records of a higher sequence
	Limit  int      // 0: all, whatever that takes
}

// List returns the records that q selects, by ascending sequence.
func (l *Log) List(ctx context.Context, q ListQuery) ([]Record, error) {
	return l.list(ctx, q, math.MaxInt)
}

func (l *Log) list(ctx context.Context, q ListQuery, maxBytes int) ([]Record, error) {
	if len(q.Kinds) > maxValues {
		return nil, fault.New(fault.Invalid, "%d kinds are too many", len(q.Kinds))
	}
	text, args := "SELECT "+columns+" FROM records WHERE sequence > ?", []any{q.After}
	if q.Thread != "" {
		text, args = text+" AND thread = ?", append(args, q.Thread)
	}
	if q.Actor != "" {
		text, args = text+" AND actor = ?", append(args, q.Actor)
	}
	if len(q.Kinds) > 0 {
		kind := "kind"
		if q.Thread != "" {
			kind = "+kind" // a thread is shorter than what all threads have of a kind
		}
		text += fmt.Sprintf(" AND %s IN (%s)", kind, marks(len(q.Kinds)))
		for _, k := range q.Kinds {
			args = append(args, k)
		}
	}
	text += " ORDER BY sequence"
	if q.Limit > 0 {
		text, args = text+" LIMIT ?", append(args, q.Limit)
	}
	return l.records(ctx, text, args, maxBytes)
}

// records returns the rows of a query, and no more of them than hold maxBytes in their bodies, but one.
func (l *Log) records(ctx context.Context, text string, args []any, maxBytes int) ([]Record, error) {
	rows, err := l.read.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, readError(ctx, err)
	}
	defer rows.Close()
	records := []Record{}
	for size := 0; size < maxBytes && rows.Next(); {
		r, err := scanRecord(rows)
		if err != nil {
			return nil, readError(ctx, err)
		}
		size += len(r.Body)
		records = append(records, r)
	}
	return records, readError(ctx, rows.Err())
}

// marks returns n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
