package record

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"playground/fault"
)

// A Query is what POST /v1/records/query takes.
type Query struct {
	Filter  json.RawMessage `json:"filter,omitempty"` // an object of fields, operators and values; empty or null: everything
	Thread  string          `json:"thread,omitempty"` // only this thread
	Sort    Sort            `json:"sort,omitempty"`   // empty: by sequence, ascending
	Limit   int             `json:"limit,omitempty"`  // 0: DefaultLimit; more than MaxLimit counts as MaxLimit
	Offset  int             `json:"offset,omitempty"`
	Explain bool            `json:"explain,omitempty"` // adds the plan to the page
}

// Limits of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

const (
	maxOffset    = 1_000_000
	maxPageBytes = 16 << 20 // of bodies; a page that would be larger is capped
	queryTime    = 10 * time.Second
)

// A Sort is an ordered list of keys. In JSON it is the object {"field": 1 or -1, ...}, whose order counts.
type Sort []SortKey

// A SortKey is one field and its direction.
type SortKey struct {
	Field      string
	Descending bool
}

// A Page is the answer to a Query.
type Page struct {
	Data         []Record `json:"data"`
	Capped       bool     `json:"capped"`        // more records match than Data and those skipped by Offset
	MatchedTotal int64    `json:"matched_total"` // how many records match, whatever the limit and offset
	Plan         *Plan    `json:"plan,omitempty"`
}

// A Plan says how a query was carried out.
type Plan struct {
	SQL   string   `json:"sql"`   // the values are not in it
	Steps []string `json:"steps"` // of SQLite's EXPLAIN QUERY PLAN
}

// MarshalJSON writes the page as it is served: its fields and "object":"list".
func (p Page) MarshalJSON() ([]byte, error) {
	type plain Page
	if p.Data == nil {
		p.Data = []Record{}
	}
	return json.Marshal(struct {
		Object string `json:"object"`
		plain
	}{"list", plain(p)})
}

// MarshalJSON writes the object that UnmarshalJSON reads.
func (s Sort) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, key := range s {
		if i > 0 {
			out = append(out, ',')
		}
		direction := ":1"
		if key.Descending {
			direction = ":-1"
		}
		out = append(appendText(out, key.Field), direction...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads {"field": 1 or -1, ...} in its order.
func (s *Sort) UnmarshalJSON(in []byte) error {
	wrong := fault.New(fault.Invalid, "sort is not an object of fields and directions").WithHint(`write it like {"sequence":-1}: 1 is ascending, -1 descending`)
	*s = nil
	if string(in) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(in))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return wrong
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return wrong
		}
		direction, err := decoder.Token()
		name, isText := field.(string)
		n, isNumber := direction.(float64)
		if err != nil || !isText || !isNumber || n != 1 && n != -1 {
			return wrong
		}
		*s = append(*s, SortKey{name, n < 0})
	}
	return nil
}

// Query returns a page of the records that match. Its filter has the operators $eq $ne $gt $gte $lt $lte $in $nin $like $ilike
// $exists $and $or $not over the fields id, thread, actor, act, clock, data_type, namespace, created_at, sequence and body.<path>;
// values of different types never match. What it cannot understand is fault.Invalid, what takes too long fault.Limit.
func (l *Log) Query(ctx context.Context, q Query) (Page, error) {
	s, err := compile(q)
	if err != nil {
		return Page{}, err
	}
	timed, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	page, err := l.page(timed, q, s)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		return Page{}, fault.New(fault.Limit, "the query took longer than %s", queryTime).WithHint("name a thread, an actor or a body.kind, which are indexed")
	}
	return page, err
}

func (l *Log) page(ctx context.Context, q Query, s statement) (Page, error) {
	limit := q.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	limit = min(limit, MaxLimit)
	page, err := l.rows(ctx, s, limit, q.Offset)
	if err != nil {
		return Page{}, err
	}
	page.MatchedTotal = int64(q.Offset + len(page.Data))
	if page.Capped || len(page.Data) == 0 && q.Offset > 0 {
		err := l.slow.QueryRowContext(ctx, "SELECT count(*) FROM records WHERE "+s.where, s.whereArgs...).Scan(&page.MatchedTotal)
		if err != nil {
			return Page{}, readError(ctx, err)
		}
	}
	if q.Explain {
		if page.Plan, err = l.explain(ctx, s); err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

// rows reads one row more than it returns, to know whether there is one.
func (l *Log) rows(ctx context.Context, s statement, limit, offset int) (page Page, err error) {
	rows, err := l.slow.QueryContext(ctx, s.text(), s.args(limit+1, offset)...)
	if err != nil {
		return Page{}, readError(ctx, err)
	}
	defer rows.Close()
	page.Data = []Record{}
	for size := 0; rows.Next(); {
		r, err := scanRecord(rows)
		if err != nil {
			return Page{}, readError(ctx, err)
		}
		if size += len(r.Body); len(page.Data) == limit || size > maxPageBytes {
			page.Capped = true
			break
		}
		page.Data = append(page.Data, r)
	}
	return page, readError(ctx, rows.Err())
}

func (l *Log) explain(ctx context.Context, s statement) (*Plan, error) {
	rows, err := l.slow.QueryContext(ctx, "EXPLAIN QUERY PLAN "+s.text(), s.args(1, 0)...)
	if err != nil {
		return nil, readError(ctx, err)
	}
	defer rows.Close()
	plan := &Plan{SQL: s.text(), Steps: []string{}}
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			return nil, readError(ctx, err)
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan, readError(ctx, rows.Err())
}

// A statement is a compiled query: constant SQL, with every name and value that came from outside among the arguments.
type statement struct {
	where     string
	whereArgs []any
	order     string
	orderArgs []any
}

func (s statement) text() string {
	return "SELECT " + columns + " FROM records WHERE " + s.where + " ORDER BY " + s.order + " LIMIT ? OFFSET ?"
}

func (s statement) args(limit, offset int) []any {
	all := append(append([]any{}, s.whereArgs...), s.orderArgs...)
	return append(all, limit, offset)
}

// compile turns a query into SQL.
func compile(q Query) (statement, error) {
	if q.Limit < 0 || q.Offset < 0 || q.Offset > maxOffset {
		return statement{}, fault.New(fault.Invalid, "limit %d or offset %d is out of range", q.Limit, q.Offset).WithHint("neither is negative; an offset is at most %d", maxOffset)
	}
	var c compiler
	where := ""
	if q.Thread != "" {
		if err := ValidThread(q.Thread); err != nil {
			return statement{}, err
		}
		where = "thread = " + c.arg(q.Thread) + " AND "
	}
	filter, err := c.filter(q.Filter)
	if err != nil {
		return statement{}, err
	}
	s := statement{where: where + "(" + filter + ")", whereArgs: c.args}
	s.order, s.orderArgs, err = compileSort(q.Sort)
	return s, err
}

func compileSort(keys Sort) (string, []any, error) {
	if len(keys) > maxSortKeys {
		return "", nil, fault.New(fault.Invalid, "%d sort fields are too many", len(keys)).WithHint("sort by at most %d", maxSortKeys)
	}
	var c compiler
	var terms []string
	for _, key := range keys {
		f, err := parseField(key.Field)
		if err != nil {
			return "", nil, err
		}
		term := f.column
		if term == "" {
			term = "json_extract(body, " + c.arg(f.path) + ")"
		}
		if key.Descending {
			term += " DESC"
		}
		terms = append(terms, term)
	}
	return strings.Join(append(terms, "sequence"), ", "), c.args, nil
}

// filter decodes and compiles a filter.
func (c *compiler) filter(raw json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return "1", nil
	}
	if len(raw) > maxFilter {
		return "", fault.New(fault.Invalid, "the filter is larger than %d bytes", maxFilter)
	}
	canonical, err := Canonicalize(raw)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "cannot read filter")
	}
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "cannot read filter")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return "", invalidFilter("the filter is not an object")
	}
	return c.all(object, 1)
}
