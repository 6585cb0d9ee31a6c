package record

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

func TestThreadLifecycle(t *testing.T) {
	l := newLog(t, Options{})
	body := func(name string, value any) map[string]any { return map[string]any{name: value} }
	thread := NewThread("life")
	step := func(act Act, body map[string]any, want State) string {
		t.Helper()
		r := mustAppend(t, l, Draft{Thread: thread, Actor: alice, Act: act, Body: body})[0]
		if got, err := l.Thread(t.Context(), thread); err != nil || got.State != want {
			t.Errorf("after %s %v the thread is %q (%v), want %q", act, body, got.State, err, want)
		}
		return r.ID
	}
	step(ActKnow, body("verdict", "reject"), StateUnopened)
	goal := step(ActIntend, body("goal", "x"), StateOpen)
	step(ActKnow, body("fulfills", strings.Repeat("0", 64)), StateOpen)
	step(ActDo, body("fulfills", goal), StateOpen)
	step(ActKnow, body("fulfills", map[string]any{"x": goal}), StateOpen)
	step(ActDo, body("cancels", 5), StateOpen)
	step(ActKnow, body("fulfills", goal), StateClosed)
	step(ActDo, body("cancels", goal), StateClosed)
	goal = step(ActIntend, body("goal", "y"), StateOpen)
	step(ActDo, body("cancels", goal), StateCancelled)
	step(ActIntend, body("goal", "z"), StateOpen)
	step(ActKnow, body("verdict", "reject"), StateCancelled)
	opened := step(ActIntend, body("goal", "z"), StateOpen)
	step(ActDo, body("cancels", thread), StateCancelled)

	mustAppend(t, l, Draft{Thread: thread, Actor: "did:sync:user:Zoe", Act: ActDo, Body: body("x", 1)})
	want := Thread{ID: thread, Records: 15, FirstSequence: 1, LastSequence: 15, LastClock: 13, Opened: opened, State: StateCancelled, Participants: []string{"did:sync:user:Zoe", alice}}
	got, err := l.Thread(t.Context(), thread)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = l.Thread(t.Context(), NewThread("none"))
	wantFault(t, err, fault.NotFound, "no thread")
	_, err = l.Thread(t.Context(), "x")
	wantFault(t, err, fault.Invalid, "thread")
}

func TestThreads(t *testing.T) {
	l := newLog(t, Options{})
	if threads, err := l.Threads(t.Context(), 0, 0); err != nil || len(threads) != 0 {
		t.Errorf("%v, %v", threads, err)
	}
	for _, name := range []string{"c", "a", "c", "b"} {
		mustAppend(t, l, note(NewThread(name), alice, name))
	}
	threads, err := l.Threads(t.Context(), 0, 2)
	if err != nil || len(threads) != 2 || threads[0].ID != NewThread("c") || threads[0].Records != 2 || threads[1].ID != NewThread("a") {
		t.Errorf("%+v, %v", threads, err)
	}
	threads, err = l.Threads(t.Context(), threads[1].FirstSequence, 2)
	if err != nil || len(threads) != 1 || threads[0].ID != NewThread("b") {
		t.Errorf("%+v, %v", threads, err)
	}
}

func TestConfig(t *testing.T) {
	l := newLog(t, Options{})
	topic := func(topic any, name string) Draft {
		return Draft{Thread: ConfigThread, Actor: EngineDID, Act: ActLearn, Body: map[string]any{"topic": topic, "name": name}}
	}
	count := func(topic string, want int) {
		t.Helper()
		if records, err := l.Config(t.Context(), topic); err != nil || len(records) != want {
			t.Errorf("%s has %d records (%v), want %d", topic, len(records), err, want)
		}
	}
	count("hook", 0)
	for i := range 5 {
		mustAppend(t, l, topic("hook", "a"), topic("permission_rule", "b"))
		count("hook", i+1) // an append that was acknowledged is there
		count("hook", i+1)
	}
	mustAppend(t, l, topic(1, "x"), note(ConfigThread, alice, "x"), note(NewThread("a"), alice, "x"))
	d := topic("hook", "not learnt")
	d.Act = ActKnow
	mustAppend(t, l, d)
	count("hook", 5)
	count("1", 0)
	records, _ := l.Config(t.Context(), "permission_rule")
	records[0] = Record{} // the caller's slice is its own
	if again, _ := l.Config(t.Context(), "permission_rule"); again[0].ID == "" || again[0].Sequence >= again[1].Sequence {
		t.Errorf("%+v", again)
	}
}

func TestList(t *testing.T) {
	l := queryLog(t)
	for name, c := range map[string]struct {
		q    ListQuery
		want []int64
	}{
		"all":    {ListQuery{}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"thread": {ListQuery{Thread: NewThread("odd"), After: 3}, []int64{5, 7, 9}},
		"actor":  {ListQuery{Actor: alice, Limit: 2}, []int64{2, 4}},
		"kinds":  {ListQuery{Kinds: []string{"core.work.turn.v1", "core.work.note.v1"}}, []int64{1, 2}},
		"both":   {ListQuery{Thread: NewThread("odd"), Kinds: []string{"core.work.turn.v1", "core.work.note.v1"}}, []int64{1}},
	} {
		records, err := l.List(t.Context(), c.q)
		if diff := cmp.Diff(c.want, sequences(records)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
