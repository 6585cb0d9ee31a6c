package workapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/record"
	"playground/workapi"
	"playground/workloop"
)

// collect reads a stream to its end.
func collect(t *testing.T, events func(func(workapi.StreamEvent, error) bool), limit int) (types []string) {
	t.Helper()
	for event, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if event.ID != event.Record.Sequence {
			t.Errorf("event %d carries record %d", event.ID, event.Record.Sequence)
		}
		if types = append(types, event.Type); len(types) == limit {
			break
		}
	}
	return types
}

func TestRunEvents(t *testing.T) {
	w := newWorld(t)
	ctx, id := t.Context(), thread("run")
	w.engine.rows[id] = workloop.Row{Thread: id, State: workloop.Running, Principal: bob}
	written := w.append(work(id, "core.work.loop.v1", nil), work(id, "core.work.turn.v1", nil), work(id, "core.work.tool_call.v1", nil),
		work(id, "core.work.tool_verdict.v1", nil), work(id, "core.work.tool_result.v1", nil), work(id, "core.work.note.v1", nil),
		work(id, "core.work.guardrail.v1", nil), work(id, "core.work.decision_request.v1", nil),
		work(id, "core.work.loop_outcome.v1", map[string]any{"outcome": "awaiting_actor"}))
	w.append(work(thread("other"), "core.work.note.v1", nil))
	// The end comes while the stream waits.
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = w.log.Append(context.Background(), work(id, "core.work.message.v1", nil), work(id, "core.work.loop_outcome.v1", map[string]any{"outcome": "completed"}),
			work(id, "core.work.note.v1", nil))
	}()
	want := "start turn tool_call tool_verdict tool_result note error ask outcome message outcome"
	if got := strings.Join(collect(t, w.client.RunEvents(ctx, id, true, 0), 0), " "); got != want {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(collect(t, w.client.RunEvents(ctx, id, false, written[6].Sequence), 0), " "); got != "ask outcome message outcome" {
		t.Errorf("resumed: %s", got)
	}
	// Whoever comes after the end is told of it at once.
	w.engine.rows[id] = workloop.Row{Thread: id, State: workloop.Done, Principal: bob}
	if got := strings.Join(collect(t, w.client.RunEvents(ctx, id, false, 0), 0), " "); got != "outcome" {
		t.Errorf("late: %s", got)
	}
	all := w.append(work(thread("last"), "core.work.note.v1", nil))
	if got := collect(t, w.client.RunEvents(ctx, id, false, all[0].Sequence), 0); len(got) != 0 {
		t.Errorf("who has all of it gets %v", got)
	}
	for _, err := range w.client.As("did:sync:user:carol").RunEvents(ctx, id, true, 0) {
		if !is(err, fault.Denied, "RUN_ACTOR_NOT_COVERED") {
			t.Errorf("another's run: %v", err)
		}
	}
	w.refused(400, "INVALID_QUERY", "GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID", "x")
	w.refused(400, "INVALID_QUERY", "GET", "/v1/runs/"+id+"/events?replay=perhaps", "")
}

// Only the kernel's word ends a stream: a forged outcome cannot be written through the API, and is not believed either.
func TestForgedOutcomeDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	id := thread("run")
	w.engine.rows[id] = workloop.Row{Thread: id, State: workloop.Running, Principal: bob}
	forged := work(id, "core.work.loop_outcome.v1", map[string]any{"outcome": "completed"})
	forged.Actor = bob
	w.append(forged, work(id, "core.work.loop_outcome.v1", map[string]any{"outcome": "failed"}))
	if got := collect(t, w.client.RunEvents(t.Context(), id, true, 0), 0); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	ctx, id := t.Context(), thread("watched")
	w.append(work(id, "core.work.note.v1", nil))
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = w.log.Append(context.Background(), record.Draft{Thread: id, Actor: bob, Act: record.ActKnow, Body: map[string]any{"kind": "app.thing.v1"}},
			work(thread("else"), "core.work.turn.v1", nil))
	}()
	if got := collect(t, w.client.WatchThread(ctx, id, true, 0), 2); strings.Join(got, " ") != "note record" {
		t.Errorf("thread: %v", got)
	}
	if got := collect(t, w.client.Events(ctx, "", []string{"turn", "app.thing.v1"}, 1), 2); strings.Join(got, " ") != "record turn" {
		t.Errorf("all: %v", got)
	}
	if got := collect(t, w.client.Events(ctx, id, nil, 1), 1); strings.Join(got, " ") != "record" {
		t.Errorf("one thread: %v", got)
	}
}

// A silent stream says that it lives; one whose API closes ends.
func TestHeartbeat(t *testing.T) {
	w := newWorld(t)
	id := thread("quiet")
	w.append(work(id, "core.work.note.v1", nil))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://local/v1/threads/"+id+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type %s", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	for beats := 0; beats < 3 && lines.Scan(); {
		if lines.Text() == ": keep-alive" {
			beats++
		}
	}
	w.api.Close()
	for lines.Scan() {
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
	w.refused(503, "UNAVAILABLE", "GET", "/v1/threads/"+id+"/watch", "")
}

// A client that does not read must hold nobody back: neither the log nor another stream.
func TestSlowReader(t *testing.T) {
	w := newWorld(t)
	id := thread("busy")
	w.append(work(id, "core.work.note.v1", nil))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://local/v1/threads/"+id+"/watch?replay=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := w.http.Do(r) // and nothing is read
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	text := strings.Repeat("x", 64<<10)
	for i := range 64 {
		w.append(work(id, "core.work.note.v1", map[string]any{"text": fmt.Sprint(i, text)}))
	}
	if got := collect(t, w.client.WatchThread(t.Context(), id, true, 0), 65); len(got) != 65 {
		t.Errorf("%d events", len(got))
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{"", ": x\n\n", "id: 1\nevent: turn\ndata: {}\n\n", "data: {\ndata: }\n\n", "id: x\r\ndata:{}\r\n\r\n", "data: nope\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reader := bufio.NewReader(strings.NewReader(text))
		for range len(text) + 1 {
			if _, err := workapi.ReadEvent(reader); err != nil {
				return
			}
		}
		t.Error("more events than bytes")
	})
}
