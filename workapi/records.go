package workapi

import (
	"errors"
	"net/http"
	"slices"

	"playground/fault"
	"playground/record"
)

// writeRecord appends a record. With a clock it is a complete envelope, and writing it again changes nothing.
func (a *API) writeRecord(w http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	if err != nil {
		return err
	}
	var in NewRecord
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Actor == "" {
		in.Actor = who.did
	}
	for _, field := range []struct {
		name    string
		missing bool
	}{{"act", in.Act == ""}, {"thread", in.Thread == ""}, {"body", len(in.Body) == 0}} {
		if field.missing {
			return missing(field.name)
		}
	}
	if in.DataType == "" {
		in.DataType = record.Scalar
	}
	slices.Sort(in.Parents)
	draft := record.Record{Parents: slices.Compact(in.Parents), Thread: in.Thread, Actor: in.Actor, Act: in.Act, Body: in.Body, Clock: -1, DataType: in.DataType,
		JudgedBy: in.JudgedBy}
	if err := a.mayWrite(who, draft); err != nil {
		return err
	}
	if err := a.mayWriteOn(r.Context(), who, draft.Thread); err != nil {
		return err
	}
	if in.Clock != nil && in.Actor == record.EngineDID {
		// One that is too high would keep the kernel, and thus the end of a tenant, from ever writing configuration again.
		return hinted(refuse(http.StatusUnprocessableEntity, codeInvalidBody, "the clock of %s is not a client's to choose", record.EngineDID), "leave the clock out")
	}
	written, err := a.append(r, draft, in.Clock)
	if errors.Is(err, fault.Exists) {
		return hinted(refuse(http.StatusConflict, codeClockConflict, "%s", err.Error()), "leave the clock out to take the next one")
	}
	if err != nil {
		return err
	}
	reply(w, http.StatusCreated, written)
	return nil
}

func (a *API) append(r *http.Request, draft record.Record, clock *int64) (record.Record, error) {
	if clock != nil {
		draft.Clock = *clock
		return a.options.Log.Put(r.Context(), draft)
	}
	all, err := a.options.Log.Append(r.Context(), record.Draft{Parents: draft.Parents, Thread: draft.Thread, Actor: draft.Actor, Act: draft.Act,
		Body: draft.Body, DataType: draft.DataType, JudgedBy: draft.JudgedBy})
	if err != nil {
		return record.Record{}, err
	}
	return all[0], nil
}

func (a *API) getRecord(w http.ResponseWriter, r *http.Request) error {
	found, err := a.options.Log.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return notThere(err, "record", r.PathValue("id"))
	}
	reply(w, http.StatusOK, found)
	return nil
}

// notThere makes an id that cannot be one an unknown one.
func notThere(err error, what, id string) error {
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) {
		refused := refuse(http.StatusNotFound, codeNotFound, "no %s %.100q", what, id)
		if what == "thread" {
			hinted(refused, "list what there is: playground thread list")
		}
		return refused
	}
	return err
}

// scanPage is how many records one step of a filtered list reads.
const scanPage = 1000

// listRecords lists records by sequence. Something must bound the list.
func (a *API) listRecords(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	after, limit, err := page(values, record.DefaultLimit)
	if err != nil {
		return err
	}
	keep, bounded, err := window(r)
	if err != nil {
		return err
	}
	q := record.ListQuery{Thread: values.Get("thread"), Actor: values.Get("actor"), After: after}
	if kind := values.Get("kind"); kind != "" {
		q.Kinds = []string{kind}
	}
	if q.Thread == "" && q.Actor == "" && !bounded {
		return badQuery("name a thread, an actor, since, clock_min or clock_max")
	}
	q.Limit = limit + 1
	if bounded {
		q.Limit = scanPage
	}
	var found []record.Record
	for len(found) <= limit {
		some, err := a.options.Log.List(r.Context(), q)
		if err != nil {
			return asQuery(err)
		}
		for _, one := range some {
			if keep(one) {
				found = append(found, one)
			}
		}
		if !bounded || len(some) < q.Limit {
			break
		}
		q.After = some[len(some)-1].Sequence
	}
	reply(w, http.StatusOK, paged(found[:min(len(found), limit+1)], limit, sequence))
	return nil
}

// window reads the bounds of time and clock.
func window(r *http.Request) (keep func(record.Record) bool, bounded bool, err error) {
	values := r.URL.Query()
	since, err := moment(values, "since")
	if err != nil {
		return nil, false, err
	}
	low, err := number(values, "clock_min", 0, 0, record.MaxClock)
	if err != nil {
		return nil, false, err
	}
	high, err := number(values, "clock_max", record.MaxClock, 0, record.MaxClock)
	if err != nil {
		return nil, false, err
	}
	from := int64(0)
	if !since.IsZero() {
		from = since.Unix()
	}
	keep = func(one record.Record) bool { return one.CreatedAt >= from && one.Clock >= low && one.Clock <= high }
	return keep, from > 0 || values.Has("clock_min") || values.Has("clock_max"), nil
}

// asQuery makes the log's word for a bad request the API's.
func asQuery(err error) error {
	if errors.Is(err, fault.Invalid) {
		r := refuse(http.StatusBadRequest, codeInvalidQuery, "%s", err.Error())
		if hint := fault.HintOf(err); hint != "" {
			hinted(r, "%s", hint)
		}
		return r
	}
	return err
}

func (a *API) queryRecords(w http.ResponseWriter, r *http.Request) error {
	var q record.Query
	if err := decode(r, &q); err != nil {
		return err
	}
	found, err := a.options.Log.Query(r.Context(), q)
	if err != nil {
		return asQuery(err)
	}
	reply(w, http.StatusOK, found)
	return nil
}
