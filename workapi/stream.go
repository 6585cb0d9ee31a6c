package workapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// workPrefix begins the kinds of the work loop.
const workPrefix = "core.work."

// eventType is the type of the event of a record: its kind's last word for the work loop's own, else "record".
func eventType(r record.Record) string {
	switch kind := record.Kind(r); kind {
	case workloop.KindOutcome:
		return "outcome"
	case workloop.KindRequest:
		return "ask"
	case loop.KindGuardrail, loop.KindCoercion:
		return "error"
	case workloop.KindLoop:
		return "start"
	case workloop.KindCancel:
		return "stop"
	default:
		if word, work := strings.CutPrefix(kind, workPrefix); work {
			word, _, _ = strings.Cut(word, ".")
			return word // turn, tool_call, tool_verdict, tool_result, observation, note, message
		}
		return "record"
	}
}

// after returns from where a stream begins: what the client has seen, the beginning for a replay, or now.
func after(r *http.Request, now int64) (int64, error) {
	replay, err := boolean(r.URL.Query(), "replay")
	if err != nil {
		return 0, err
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || n < 0 {
			return 0, badQuery("Last-Event-ID must be the id of an event, not %.40q", id)
		}
		return n, nil
	}
	if r.URL.Query().Has("after") {
		return number(r.URL.Query(), "after", 0, 0, record.MaxClock)
	}
	if replay {
		return 0, nil
	}
	return now, nil
}

// streamRun sends a run's events and ends after its outcome. Whoever comes late without a replay gets the outcome alone.
func (a *API) streamRun(w http.ResponseWriter, r *http.Request) error {
	// The place is taken before the state is read, so that an outcome in between is not missed.
	thread, err := a.options.Log.Thread(r.Context(), r.PathValue("thread"))
	if err != nil {
		return notThere(err, "run", r.PathValue("thread"))
	}
	row, err := a.row(r)
	if err != nil {
		return err
	}
	if _, err := a.speaker(r, row.Principal); err != nil {
		return err
	}
	from, err := after(r, thread.LastSequence)
	if err != nil {
		return err
	}
	if row.State != workloop.Running && row.State != workloop.WaitingOnYou {
		last, err := a.options.Log.List(r.Context(), record.ListQuery{Thread: thread.ID, Kinds: []string{workloop.KindOutcome}})
		if err != nil {
			return err
		}
		if n := len(last); n > 0 {
			if r.Header.Get("Last-Event-ID") != "" && from >= last[n-1].Sequence {
				w.WriteHeader(http.StatusNoContent) // tells an EventSource, which has all of it, not to come again
				return nil
			}
			from = min(from, last[n-1].Sequence-1)
		}
	}
	return a.stream(w, r, record.WatchQuery{Thread: thread.ID, After: from}, nil, isEnd)
}

// isEnd reports whether a record is the last of a run: an outcome that is no pause.
func isEnd(r record.Record) bool {
	if record.Kind(r) != workloop.KindOutcome || r.Actor != record.EngineDID {
		return false
	}
	var body struct {
		Outcome string `json:"outcome"`
	}
	return r.Decode(&body) == nil && body.Outcome != loop.AwaitingActor
}

func (a *API) watchThread(w http.ResponseWriter, r *http.Request) error {
	thread, err := a.thread(r)
	if err != nil {
		return err
	}
	from, err := after(r, thread.LastSequence)
	if err != nil {
		return err
	}
	return a.stream(w, r, record.WatchQuery{Thread: thread.ID, After: from}, nil, nil)
}

// streamEvents sends what is written on all threads, or on one, of all types or of some.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request) error {
	last, err := a.options.Log.Query(r.Context(), record.Query{Limit: 1})
	if err != nil {
		return err
	}
	from, err := after(r, last.MatchedTotal) // sequences have no gaps
	if err != nil {
		return err
	}
	var types []string
	for _, value := range r.URL.Query()["type"] {
		types = append(types, strings.Split(value, ",")...)
	}
	keep := func(one record.Record) bool {
		return len(types) == 0 || slices.Contains(types, eventType(one)) || slices.Contains(types, record.Kind(one))
	}
	return a.stream(w, r, record.WatchQuery{Thread: r.URL.Query().Get("thread"), After: from}, keep, nil)
}

// writeLimit is how long a client may take to read one event; after that it is cut off, and can go on with Last-Event-ID.
const writeLimit = 30 * time.Second

// stream sends the records of a watch as server-sent events until the client leaves, the API closes, or last says so. The
// watch reads from the disk at the client's pace, so that a slow client holds nothing back.
func (a *API) stream(w http.ResponseWriter, r *http.Request, q record.WatchQuery, keep, last func(record.Record) bool) error {
	if !a.begin() {
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "the server is shutting down")
	}
	defer a.open.Done()
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		return refuse(http.StatusServiceUnavailable, codeStreamLimit, "%d streams are open, and there are no more", maxStreams)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()

	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	w.WriteHeader(http.StatusOK)
	out := &sender{w: w, control: http.NewResponseController(w)}
	if out.send(": open\n\n") != nil {
		return nil // the client has left
	}
	records, failed := make(chan record.Record), make(chan error, 1)
	go func() {
		defer close(records)
		failed <- a.pump(ctx, q, records)
	}()
	defer func() { // the pump ends with ctx; it is not left behind
		cancel()
		for range records {
		}
		if err := <-failed; err != nil && r.Context().Err() == nil && a.ctx.Err() == nil && a.options.OnError != nil {
			a.options.OnError(r, err)
		}
	}()
	out.follow(ctx, records, a.options.PingEvery, keep, last)
	return nil
}

// pump moves the watch's records into a channel, which lets stream send comments meanwhile.
func (a *API) pump(ctx context.Context, q record.WatchQuery, records chan<- record.Record) error {
	for one, err := range a.options.Log.Watch(ctx, q) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case records <- one:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// A sender writes to one client.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// follow sends records as events, and comments while there are none, until the end of either side.
func (s *sender) follow(ctx context.Context, records <-chan record.Record, every time.Duration, keep, last func(record.Record) bool) {
	ping := time.NewTicker(every)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
			if s.send(": keep-alive\n\n") != nil {
				return
			}
		case one, open := <-records:
			if !open {
				return
			}
			if keep != nil && !keep(one) {
				continue
			}
			data, err := encode(one)
			if err != nil || s.send(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", one.Sequence, eventType(one), strings.TrimRight(string(data), "\n"))) != nil {
				return
			}
			if last != nil && last(one) {
				return
			}
			ping.Reset(every)
		}
	}
}

// send writes text at once, or fails when the client does not take it in time.
func (s *sender) send(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeLimit)) // best effort: a test's recorder has none
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
