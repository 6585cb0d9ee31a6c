package workapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"playground/fault"
	"playground/record"
)

func (a *API) listThreads(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := page(r.URL.Query(), record.DefaultLimit)
	if err != nil {
		return err
	}
	limit = min(limit, record.MaxLimit-1) // the log returns no more, and one more says that there is more
	found, err := a.options.Log.Threads(r.Context(), after, limit+1)
	if err != nil {
		return asQuery(err)
	}
	threads := make([]ThreadInfo, len(found))
	for i, thread := range found {
		threads[i] = ThreadInfo{"thread", thread}
	}
	reply(w, http.StatusOK, paged(threads, limit, func(t ThreadInfo) int64 { return t.FirstSequence }))
	return nil
}

// thread returns the thread that a path names.
func (a *API) thread(r *http.Request) (record.Thread, error) {
	id := r.PathValue("id")
	found, err := a.options.Log.Thread(r.Context(), id)
	if err != nil {
		return record.Thread{}, notThere(err, "thread", id)
	}
	return found, nil
}

func (a *API) getThread(w http.ResponseWriter, r *http.Request) error {
	found, err := a.thread(r)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, ThreadInfo{"thread", found})
	return nil
}

// threadRecords lists a thread by sequence: all of it, unless a limit is asked for.
func (a *API) threadRecords(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := page(r.URL.Query(), 0)
	if err != nil {
		return err
	}
	q := record.ListQuery{Thread: r.PathValue("id"), After: after}
	if limit > 0 {
		q.Limit = limit + 1
	}
	found, err := a.options.Log.List(r.Context(), q)
	if err != nil {
		return notThere(err, "thread", q.Thread)
	}
	if len(found) == 0 { // nothing after that, or no such thread
		if _, err := a.thread(r); err != nil {
			return err
		}
	}
	reply(w, http.StatusOK, paged(found, limit, sequence))
	return nil
}

func (a *API) threadState(w http.ResponseWriter, r *http.Request) error {
	thread, err := a.thread(r)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, ThreadState{Object: "thread_state", Thread: thread.ID, State: thread.State, Opened: thread.Opened,
		Records: thread.Records, LastClock: thread.LastClock, LastSequence: thread.LastSequence})
	return nil
}

func (a *API) threadParticipants(w http.ResponseWriter, r *http.Request) error {
	thread, err := a.thread(r)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, whole(thread.Participants))
	return nil
}

// threadChildren lists the threads that name this one as what they came from.
func (a *API) threadChildren(w http.ResponseWriter, r *http.Request) error {
	thread, err := a.thread(r)
	if err != nil {
		return err
	}
	filter, err := json.Marshal(map[string]any{"$or": []any{
		map[string]any{"body.source_thread": thread.ID}, map[string]any{"body.parent_thread": thread.ID}}})
	if err != nil {
		return err
	}
	found, err := a.options.Log.Query(r.Context(), record.Query{Filter: filter, Limit: record.MaxLimit})
	if err != nil {
		return err
	}
	children := map[string]bool{}
	for _, one := range found.Data {
		if one.Thread != thread.ID {
			children[one.Thread] = true
		}
	}
	return a.replyThreads(w, r, children)
}

// threadParents lists the threads that this one came from: those its records name, and those their parents lie on.
func (a *API) threadParents(w http.ResponseWriter, r *http.Request) error {
	thread, err := a.thread(r)
	if err != nil {
		return err
	}
	all, err := a.options.Log.List(r.Context(), record.ListQuery{Thread: thread.ID})
	if err != nil {
		return err
	}
	parents, own := map[string]bool{}, map[string]bool{}
	for _, one := range all {
		own[one.ID] = true
		var body struct {
			Source string `json:"source_thread"`
			Parent string `json:"parent_thread"`
		}
		if one.Decode(&body) == nil { // a body may hold something else under these names
			parents[body.Source], parents[body.Parent] = true, true
		}
		for _, id := range one.Parents {
			if own[id] {
				continue
			}
			parent, err := a.options.Log.Get(r.Context(), id)
			if err != nil {
				return err
			}
			parents[parent.Thread] = true
		}
	}
	delete(parents, "")
	delete(parents, thread.ID)
	return a.replyThreads(w, r, parents)
}

// replyThreads lists threads by id; one that is named but not there is left out.
func (a *API) replyThreads(w http.ResponseWriter, r *http.Request, ids map[string]bool) error {
	var threads []ThreadInfo
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		thread, err := a.options.Log.Thread(r.Context(), id)
		if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) {
			continue
		}
		if err != nil {
			return err
		}
		threads = append(threads, ThreadInfo{"thread", thread})
	}
	reply(w, http.StatusOK, whole(threads))
	return nil
}
