package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"playground/fault"
)

// Watches that begin at any moment, slow ones too, see every record once and in order while others append.
func TestWatchNoGapNoDuplicate(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLog(t, Options{})
	defer l.Close()
	const writers, each = 4, 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing, watching sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := l.Append(ctx, note(NewThread(fmt.Sprint(w)), alice, fmt.Sprint(i))); err != nil {
					t.Error(err)
					return
				}
				if i%10 == 0 {
					watching.Go(func() { watchAll(ctx, t, l, w, each) })
				}
			}
		})
	}
	watching.Go(func() { watchAll(ctx, t, l, -1, writers*each) })
	writing.Wait()
	watching.Wait()
}

// watchAll wants the given number of records, of one writer's thread or of all.
func watchAll(ctx context.Context, t *testing.T, l *Log, writer, want int) {
	q := WatchQuery{Kinds: []string{"core.work.note.v1"}}
	if writer >= 0 {
		q.Thread = NewThread(fmt.Sprint(writer))
	}
	seen, last := 0, int64(0)
	for r, err := range l.Watch(ctx, q) {
		if err != nil {
			t.Errorf("Watch: %v", err)
			return
		}
		if r.Sequence <= last || q.Thread != "" && (r.Thread != q.Thread || r.Clock != int64(seen)) {
			t.Errorf("watch of %d: sequence %d after %d, clock %d as number %d", writer, r.Sequence, last, r.Clock, seen)
			return
		}
		last = r.Sequence
		if seen++; seen == want {
			return
		}
	}
	t.Errorf("watch of %d ended after %d records", writer, seen)
}

func TestWatchEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLog(t, Options{})
	mustAppend(t, l, note(NewThread("a"), alice, "1"), note(NewThread("a"), alice, "2"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	for _, err := range l.Watch(ctx, WatchQuery{After: 1}) {
		count++
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
	if count != 1 {
		t.Errorf("%d records after the context ended", count)
	}
	closed := make(chan error)
	go func() {
		var last error
		for _, err := range l.Watch(t.Context(), WatchQuery{After: 1}) {
			if last = err; err == nil {
				go l.Close()
			}
		}
		closed <- last
	}()
	if err := <-closed; !errors.Is(err, fault.Unavailable) {
		t.Errorf("a watch of a closed log ends with %v", err)
	}
	if len(l.hub.subs) != 0 {
		t.Errorf("%d watches are left", len(l.hub.subs))
	}
	if _, err := l.Append(t.Context(), note(NewThread("a"), alice, "3")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("an append to a closed log: %v", err)
	}
}
