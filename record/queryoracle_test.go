package record

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawScalar draws from few values, so that they meet.
func drawScalar(t *rapid.T) any {
	return rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false),
		rapid.Map(rapid.SampledFrom([]float64{-1, 0, 1, 1.5, 2, 9007199254740991, 1e21, 5e-324}), func(f float64) any { return f }),
		rapid.Map(rapid.SampledFrom([]string{"", "0", "1", "true", "null", "a", "A", "ä", "a\x00b", "[1]", "%", "€", "😀", "ﬀ"}), func(s string) any { return s }),
	).Draw(t, "scalar")
}

// drawCondition draws a filter over body.v and the function that it should be.
func drawCondition(t *rapid.T, depth int) (any, func(v any, there bool) bool) {
	kinds := 6
	if depth > 0 {
		kinds = 9
	}
	of := func(op string, value any) map[string]any { return map[string]any{"body.v": map[string]any{op: value}} }
	switch rapid.IntRange(1, kinds).Draw(t, "condition") {
	case 1, 2:
		want := drawScalar(t)
		return map[string]any{"body.v": want}, func(v any, there bool) bool { return v == want }
	case 3:
		want := drawScalar(t)
		return of("$ne", want), func(v any, there bool) bool { return v != want }
	case 4:
		want := rapid.Bool().Draw(t, "exists")
		return of("$exists", want), func(v any, there bool) bool { return there == want }
	case 5:
		want := []any{drawScalar(t), drawScalar(t)}
		op := rapid.SampledFrom([]string{"$in", "$nin"}).Draw(t, "op")
		return of(op, want), func(v any, there bool) bool { return slices.Contains(want, v) == (op == "$in") }
	case 6:
		return drawComparison(t, of)
	case 7:
		inner, holds := drawCondition(t, depth-1)
		return map[string]any{"$not": inner}, func(v any, there bool) bool { return !holds(v, there) }
	}
	a, holdsA := drawCondition(t, depth-1)
	b, holdsB := drawCondition(t, depth-1)
	op := rapid.SampledFrom([]string{"$and", "$or"}).Draw(t, "op")
	return map[string]any{op: []any{a, b}}, func(v any, there bool) bool {
		if op == "$and" {
			return holdsA(v, there) && holdsB(v, there)
		}
		return holdsA(v, there) || holdsB(v, there)
	}
}

func drawComparison(t *rapid.T, of func(op string, value any) map[string]any) (any, func(v any, there bool) bool) {
	op := rapid.SampledFrom([]string{"$gt", "$gte", "$lt", "$lte"}).Draw(t, "op")
	decide := func(order int) bool {
		return map[string]bool{"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[op]
	}
	switch want := drawScalar(t).(type) {
	case string:
		return of(op, want), func(v any, there bool) bool { s, ok := v.(string); return ok && decide(cmp.Compare(s, want)) }
	case float64:
		return of(op, want), func(v any, there bool) bool { f, ok := v.(float64); return ok && decide(cmp.Compare(f, want)) }
	}
	return map[string]any{}, func(any, bool) bool { return true }
}

// A filter selects what a plain reading of it would: values of different types never match, null is what is null or missing.
func TestQueryAgainstOracle(t *testing.T) {
	type value struct {
		v     any
		there bool
	}
	l := newLog(t, Options{})
	values := []value{{nil, false}}
	for _, v := range []any{nil, true, false, -1.0, 0.0, 1.0, 1.5, 2.0, 9007199254740991.0, 1e21, 5e-324, "", "0", "1", "true", "null", "a", "A", "ä", "a\x00b", "[1]", "%", "€", "😀", "ﬀ"} {
		values = append(values, value{v, true})
	}
	drafts := []Draft{}
	for _, v := range values {
		body := map[string]any{}
		if v.there {
			body["v"] = v.v
		}
		drafts = append(drafts, Draft{Thread: NewThread("a"), Actor: alice, Act: ActDo, Body: body})
	}
	mustAppend(t, l, drafts...)
	rapid.Check(t, func(t *rapid.T) {
		filter, holds := drawCondition(t, 3)
		raw, err := json.Marshal(filter)
		if err != nil {
			t.Fatal(err)
		}
		page, err := l.Query(context.Background(), Query{Filter: raw, Limit: MaxLimit})
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		want := []int64{}
		for i, v := range values {
			if holds(v.v, v.there) {
				want = append(want, int64(i+1))
			}
		}
		if !slices.Equal(sequences(page.Data), want) {
			t.Fatalf("%s selects %v, want %v", raw, sequences(page.Data), want)
		}
	})
}
