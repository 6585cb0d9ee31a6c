package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

// queryLog holds ten records, numbered from 1, with a body that shows every type.
func queryLog(t testing.TB) *Log {
	t.Helper()
	l := newLog(t, Options{Engine: "did:sync:system:other"})
	for i := range 10 {
		thread, actor := NewThread("even"), alice
		if i%2 == 0 {
			thread, actor = NewThread("odd"), "did:sync:user:bob"
		}
		body := map[string]any{"n": i + 1, "text": fmt.Sprintf("Item_%d", i+1), "flag": i < 3, "deep": map[string]any{"a-b": map[string]any{"c": i % 3}}, "list": []int{i}}
		switch i {
		case 0:
			body["kind"], body["namespace"] = "core.work.note.v1", "default"
		case 1:
			body["kind"], body["n"] = "core.work.turn.v1", "2"
		case 2:
			body["maybe"] = nil
		case 3:
			body["maybe"], body["text"] = 1.5, `50% [of] *all* \o/ ?`
		}
		mustAppend(t, l, Draft{Thread: thread, Actor: actor, Act: []Act{ActDo, ActKnow}[i/5], Body: body})
	}
	return l
}

func sequences(records []Record) []int64 {
	all := []int64{}
	for _, r := range records {
		all = append(all, r.Sequence)
	}
	return all
}

func TestQueryFilters(t *testing.T) {
	l := queryLog(t)
	for filter, want := range map[string][]int64{
		`{}`:                            {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		`null`:                          {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		``:                              {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		`{"actor":"did:sync:user:bob"}`: {1, 3, 5, 7, 9},
		`{"act":"DO","actor":"did:sync:user:alice"}`:               {2, 4},
		`{"act":{"$ne":"DO"}}`:                                     {6, 7, 8, 9, 10},
		`{"thread":"` + NewThread("even") + `"}`:                   {2, 4, 6, 8, 10},
		`{"sequence":{"$gt":3,"$lte":5}}`:                          {4, 5},
		`{"sequence":{"$gte":2.5,"$lt":4}}`:                        {3},
		`{"clock":{"$in":[0,4]}}`:                                  {1, 2, 9, 10},
		`{"clock":{"$nin":[0,4,3]}}`:                               {3, 4, 5, 6},
		`{"namespace":"default"}`:                                  {1},
		`{"namespace":{"$exists":true}}`:                           {1},
		`{"namespace":null,"sequence":{"$lt":3}}`:                  {2},
		`{"data_type":"VOID"}`:                                     {},
		`{"created_at":{"$lt":5}}`:                                 {},
		`{"body.n":3}`:                                             {3},
		`{"body.n":2}`:                                             {}, // it is the text "2"
		`{"body.n":"2"}`:                                           {2},
		`{"body.n":{"$gte":9}}`:                                    {9, 10},
		`{"body.n":{"$ne":3},"sequence":{"$lt":5}}`:                {1, 2, 4},
		`{"body.n":{"$in":[1,"2",99]}}`:                            {1, 2},
		`{"body.n":{"$in":[]}}`:                                    {},
		`{"body.n":{"$nin":[]},"sequence":1}`:                      {1},
		`{"body.flag":true}`:                                       {1, 2, 3},
		`{"body.flag":1}`:                                          {},
		`{"body.flag":{"$ne":true},"sequence":{"$lt":6}}`:          {4, 5},
		`{"body.maybe":null,"sequence":{"$lt":5}}`:                 {1, 2, 3},
		`{"body.maybe":{"$exists":true}}`:                          {3, 4},
		`{"body.maybe":{"$exists":false},"sequence":{"$lt":5}}`:    {1, 2},
		`{"body.maybe":{"$gt":1}}`:                                 {4},
		`{"body.deep.a-b.c":2}`:                                    {3, 6, 9},
		`{"body.deep.a-b.x":2}`:                                    {},
		`{"body.list":"[1]"}`:                                      {},
		`{"body.list":{"$exists":true},"sequence":1}`:              {1},
		`{"body.kind":"core.work.note.v1"}`:                        {1},
		`{"body.kind":{"$in":["core.work.note.v1","x"]}}`:          {1},
		`{"body.kind":{"$like":"core.work.%"}}`:                    {1, 2},
		`{"body.kind":5}`:                                          {},
		`{"body.kind":{"$exists":false},"sequence":{"$lt":4}}`:     {3},
		`{"body.text":{"$like":"Item\\_1%"}}`:                      {1, 10},
		`{"body.text":{"$like":"item%"}}`:                          {},
		`{"body.text":{"$ilike":"ITEM__"}}`:                        {1, 2, 3, 5, 6, 7, 8, 9},
		`{"body.text":{"$like":"50\\% [of] *all* \\\\o/ ?"}}`:      {4},
		`{"body.text":{"$like":"50_ [%] *a%"}}`:                    {4},
		`{"body.text":{"$ilike":"50\\% [OF] *ALL* \\\\O/ ?"}}`:     {4},
		`{"body.text":{"$like":"[a-z]%"}}`:                         {},
		`{"body.n":{"$like":"%"}}`:                                 {2},
		`{"$or":[{"body.n":1},{"act":"KNOW","clock":4}]}`:          {1, 9, 10},
		`{"$and":[{"sequence":{"$gt":2}},{"sequence":{"$lt":5}}]}`: {3, 4},
		`{"$not":{"sequence":{"$gt":2}}}`:                          {1, 2},
		`{"sequence":{"$not":{"$gt":2}}}`:                          {1, 2},
		`{"body.maybe":{"$not":{"$gt":1}},"sequence":{"$lt":5}}`:   {1, 2, 3},
		`{"$not":{"$or":[{"sequence":{"$gt":3}},{"sequence":1}]}}`: {2, 3},
		`{"$or":[{}]}`:                                             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	} {
		page, err := l.Query(t.Context(), Query{Filter: json.RawMessage(filter)})
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if diff := cmp.Diff(want, sequences(page.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", filter, diff)
		}
	}
}

// Attacks and mistakes: every one is refused by name before anything becomes SQL.
func TestQueryRefuses(t *testing.T) {
	l := queryLog(t)
	many := strings.Repeat(`{"act":"DO"},`, maxConditions)
	for filter, want := range map[string]string{
		`{"x":1}`:                      "unknown field path: x",
		`{"parents":1}`:                "unknown field path: parents",
		`{"sig":{"$exists":true}}`:     "unknown field path: sig",
		`{"chain":1}`:                  "unknown field path: chain",
		`{"Body.n":1}`:                 "unknown field path: Body.n",
		`{"body":1}`:                   "unknown field path: body",
		`{"body.":1}`:                  "unknown field path: body.",
		`{"body..a":1}`:                "unknown field path: body..a",
		`{"body.a\"b":1}`:              "unknown field path: body.a\"b",
		`{"body.a') OR 1=1 --":1}`:     "unknown field path: body.a') OR 1=1 --",
		`{"body.$":1}`:                 "unknown field path: body.$",
		`{"body.a[0]":1}`:              "unknown field path: body.a[0]",
		`{"body.a b":1}`:               "unknown field path",
		`{"body.a\n":1}`:               "unknown field path",
		`{"body.ä":1}`:                 "unknown field path",
		`{"id; DROP TABLE records":1}`: "unknown field path: id; DROP TABLE records",
		`{"sequence\u0000":1}`:         "unknown field path",
		`{"` + "body" + strings.Repeat(".a", 17) + `":1}`: "unknown field path",
		`{"body.` + strings.Repeat("a", 600) + `":1}`:     "unknown field path",
		`{"$where":"1"}`:             "unknown operator",
		`{"act":{"$regex":"x"}}`:     "unknown operator",
		`{"act":{"eq":"x"}}`:         "unknown operator",
		`{"act":{}}`:                 "empty object",
		`{"act":1}`:                  "wants a text",
		`{"act":true}`:               "wants a text",
		`{"act":["DO"]}`:             "wants a text",
		`{"clock":"1"}`:              "wants a number",
		`{"clock":{"$like":"1"}}`:    "wants a text",
		`{"clock":{"$gt":null}}`:     "wants a number",
		`{"body.n":[1]}`:             "wants a text or a number",
		`{"body.n":{"$gt":true}}`:    "wants a text or a number",
		`{"body.n":{"$exists":1}}`:   "wants true or false",
		`{"body.n":{"$in":1}}`:       "wants an array",
		`{"body.n":{"$in":[[1]]}}`:   "wants a text or a number",
		`{"body.n":{"$not":1}}`:      "wants an object",
		`{"body.n":{"$like":1}}`:     "wants a text",
		`{"body.n":{"$like":"a\\"}}`: "ends in",
		`{"body.n":{"$like":"` + strings.Repeat("%a", 17) + `"}}`:   "too complex",
		`{"body.n":{"$ilike":"` + strings.Repeat("a", 1025) + `"}}`: "too complex",
		`{"$and":{}}`:               "wants an array",
		`{"$or":[]}`:                "at least one",
		`{"$or":[1]}`:               "array of filters",
		`{"$not":[]}`:               "wants a filter",
		`[]`:                        "not an object",
		`{"act":"DO","act":"KNOW"}`: "twice",
		`{`:                         "cannot read filter",
		`{"$or":[` + many + `{}]}`:  "too complex",
		strings.Repeat(`{"$not":`, 20) + "{}" + strings.Repeat("}", 20):                       "nests deeper",
		`{"act":` + strings.Repeat(`{"$not":`, 20) + `{"$eq":"DO"}` + strings.Repeat("}", 21): "nests deeper",
		`{"act":{"$in":[` + strings.Repeat(`"x",`, maxValues) + `"x"]}}`:                      "at most",
		strings.Repeat(" ", maxFilter) + `{}`:                                                 "larger",
	} {
		_, err := l.Query(t.Context(), Query{Filter: json.RawMessage(filter)})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", filter, err, want)
		}
	}
	for name, q := range map[string]Query{
		"limit":       {Limit: -1},
		"offset":      {Offset: -1},
		"far offset":  {Offset: maxOffset + 1},
		"thread":      {Thread: "x' OR 1"},
		"sort field":  {Sort: Sort{{Field: "sequence; DROP TABLE records"}}},
		"sort fields": {Sort: slices.Repeat(Sort{{Field: "act"}}, 9)},
	} {
		if _, err := l.Query(t.Context(), q); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQueryPages(t *testing.T) {
	l := queryLog(t)
	for name, c := range map[string]struct {
		q      string
		want   []int64
		total  int64
		capped bool
	}{
		"limit":       {`{"limit":3}`, []int64{1, 2, 3}, 10, true},
		"offset":      {`{"limit":3,"offset":8}`, []int64{9, 10}, 10, false},
		"exactly":     {`{"limit":10}`, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, false},
		"past":        {`{"offset":20,"filter":{"act":"DO"}}`, []int64{}, 5, false},
		"descending":  {`{"sort":{"sequence":-1},"limit":2}`, []int64{10, 9}, 10, true},
		"two keys":    {`{"sort":{"actor":1,"clock":-1},"limit":6}`, []int64{10, 8, 6, 4, 2, 9}, 10, true},
		"body key":    {`{"sort":{"body.deep.a-b.c":-1,"sequence":-1},"limit":4}`, []int64{9, 6, 3, 8}, 10, true},
		"thread":      {`{"thread":"` + NewThread("odd") + `","filter":{"body.n":{"$gt":5}}}`, []int64{7, 9}, 2, false},
		"thread only": {`{"thread":"` + NewThread("odd") + `","filter":{"$or":[{"act":"DO"},{"act":"KNOW"}]}}`, []int64{1, 3, 5, 7, 9}, 5, false},
		"large limit": {`{"limit":5000}`, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, false},
	} {
		var q Query
		if err := json.Unmarshal([]byte(c.q), &q); err != nil {
			t.Fatal(err)
		}
		page, err := l.Query(t.Context(), q)
		if err != nil || !slices.Equal(sequences(page.Data), c.want) || page.MatchedTotal != c.total || page.Capped != c.capped {
			t.Errorf("%s: %v total %d capped %v (%v), want %v %d %v", name, sequences(page.Data), page.MatchedTotal, page.Capped, err, c.want, c.total, c.capped)
		}
	}
	page, err := l.Query(t.Context(), Query{Filter: json.RawMessage(`{"body.kind":"core.work.note.v1","body.n":"secret"}`), Explain: true})
	if err != nil || page.Plan == nil || strings.Contains(page.Plan.SQL, "secret") || !strings.Contains(strings.Join(page.Plan.Steps, "\n"), "records_of_kind") {
		t.Errorf("plan %+v, %v", page.Plan, err)
	}
	if out, err := json.Marshal(Page{}); err != nil || string(out) != `{"object":"list","data":[],"capped":false,"matched_total":0}` {
		t.Errorf("an empty page is %s, %v", out, err)
	}
}

func TestQueryPageBytes(t *testing.T) {
	l := newLog(t, Options{})
	text := strings.Repeat("x", MaxBody-1000)
	var drafts []Draft
	for range 20 {
		drafts = append(drafts, note(NewThread("a"), alice, text))
	}
	mustAppend(t, l, drafts...)
	page, err := l.Query(t.Context(), Query{})
	if err != nil || len(page.Data) != 16 || !page.Capped || page.MatchedTotal != 20 {
		t.Errorf("%d records, capped %v, total %d, %v", len(page.Data), page.Capped, page.MatchedTotal, err)
	}
}

func TestSortJSON(t *testing.T) {
	var s Sort
	if err := json.Unmarshal([]byte(`{"z":-1,"a":1}`), &s); err != nil || !slices.Equal(s, Sort{{"z", true}, {"a", false}}) {
		t.Errorf("%v, %v", s, err)
	}
	if out, err := json.Marshal(s); err != nil || string(out) != `{"z":-1,"a":1}` {
		t.Errorf("%s, %v", out, err)
	}
	for _, in := range []string{`[]`, `{"a":2}`, `{"a":"1"}`, `{"a":{}}`, `"a"`, `{"a":true}`} {
		if err := json.Unmarshal([]byte(in), &s); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if err := json.Unmarshal([]byte(`null`), &s); err != nil || s != nil {
		t.Errorf("null: %v, %v", s, err)
	}
}

// Whatever the filter, it is carried out or refused as invalid: nothing it holds reaches the SQL text.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{`{"body.n":{"$gte":9}}`, `{"$or":[{"body.n":1},{"act":{"$like":"K%"}}]}`, `{"body.a') OR 1=1 --":1}`, `{"$not":{"sequence":{"$nin":[2,null]}}}`, `{"body.text":{"$ilike":"\\%_"}}`, `{"clock":1e300}`} {
		f.Add([]byte(seed), "body.n")
	}
	l := queryLog(f)
	f.Fuzz(func(t *testing.T, filter []byte, sort string) {
		page, err := l.Query(t.Context(), Query{Filter: filter, Sort: Sort{{Field: sort}}, Explain: true})
		if err != nil && !errors.Is(err, fault.Invalid) {
			t.Fatalf("%q: %v: %v", filter, err, errors.Unwrap(err))
		}
		if page.Plan != nil && page.Plan.SQL != "" && strings.ContainsAny(page.Plan.SQL, ";\x00\"$") {
			t.Fatalf("%q became %s", filter, page.Plan.SQL)
		}
	})
}
