package workapi

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"playground/record"
)

// badQuery is the refusal of a parameter of a URL.
func badQuery(format string, args ...any) error {
	return refuse(http.StatusBadRequest, codeInvalidQuery, format, args...)
}

// number reads a parameter that is a whole number; a missing one is def.
func number(values url.Values, key string, def, low, high int64) (int64, error) {
	text := values.Get(key)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, badQuery("%s must be a number from %d to %d, not %.40q", key, low, high, text)
	}
	return n, nil
}

// boolean reads a parameter that is true or false.
func boolean(values url.Values, key string) (bool, error) {
	text := values.Get(key)
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, badQuery("%s must be true or false, not %.40q", key, text)
	}
	return b, nil
}

// moment reads a parameter that is a time: RFC 3339 or Unix seconds.
func moment(values url.Values, key string) (time.Time, error) {
	text := values.Get(key)
	if text == "" {
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return time.Unix(seconds, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badQuery("%s must be a time such as 2026-01-02T15:04:05Z, not %.40q", key, text)
	}
	return t, nil
}

// page reads after and limit. A missing limit is def.
func page(values url.Values, def int64) (after int64, limit int, err error) {
	if after, err = number(values, "after", 0, 0, record.MaxClock); err != nil {
		return 0, 0, err
	}
	n, err := number(values, "limit", def, 1, record.MaxLimit)
	return after, int(n), err
}

// paged makes a page of what was found, which may be one more than was asked for.
func paged[T any](found []T, limit int, place func(T) int64) List[T] {
	list := List[T]{Object: "list", Data: found}
	if list.Data == nil {
		list.Data = []T{} // "[]", not "null"
	}
	if limit > 0 && len(found) > limit {
		list.Data, list.HasMore = found[:limit], true
	}
	if n := len(list.Data); list.HasMore && n > 0 {
		list.NextAfter = place(list.Data[n-1])
	}
	return list
}

// whole is a list that is never paged.
func whole[T any](found []T) List[T] { return paged(found, 0, nil) }

func sequence(r record.Record) int64 { return r.Sequence }
