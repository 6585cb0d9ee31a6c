package record

import (
	"context"
	"iter"
	"sync"
)

// A WatchQuery selects the records that Watch yields.
type WatchQuery struct {
	Thread string   // "": all
	Kinds  []string // empty: all
	After  int64    // only records of a higher sequence
}

// How many records a watch holds at once, and how many bytes of bodies.
const (
	watchPage  = 128
	watchBytes = 1 << 20
)

// Watch yields the records that q selects, those that are there and then those that are appended, by ascending sequence, without a
// gap and each once. It ends with ctx, and after yielding an error: when the log is closed or cannot be read. A slow reader costs
// nothing and loses nothing: it reads from the log.
func (l *Log) Watch(ctx context.Context, q WatchQuery) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		subscription := l.hub.subscribe(q.Thread)
		defer l.hub.unsubscribe(subscription)
		list := ListQuery{Thread: q.Thread, Kinds: q.Kinds, After: q.After, Limit: watchPage}
		for {
			records, err := l.list(ctx, list, watchBytes)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range records {
				if ctx.Err() != nil || !yield(r, nil) {
					return
				}
				list.After = r.Sequence
			}
			if len(records) > 0 {
				continue
			}
			select {
			case <-subscription.news:
			case <-ctx.Done():
				return
			case <-l.done:
				yield(Record{}, errClosed())
				return
			}
		}
	}
}

// A hub tells watches that there is news, not what it is.
type hub struct {
	mu   sync.Mutex // mu guards the rest
	subs map[*subscription]struct{}
}

type subscription struct {
	thread string
	news   chan struct{} // holds one
}

func (h *hub) subscribe(thread string) *subscription {
	s := &subscription{thread: thread, news: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

func (h *hub) publish(added []Record) {
	threads := make(map[string]bool, len(added))
	for _, r := range added {
		threads[r.Thread] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.thread == "" || threads[s.thread] {
			select {
			case s.news <- struct{}{}:
			default: // it has not looked since the last news
			}
		}
	}
}
