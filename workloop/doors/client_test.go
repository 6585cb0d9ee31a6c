package doors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/inference"
	"playground/record"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

func TestClient(t *testing.T) {
	spent := 0.5
	k := &kernel{
		verdict: loop.Verdict{Decision: loop.Allow, Layer: loop.LayerAllow, Call: id, Verdict: id, Messages: []string{"m"}},
		result:  loop.Result{Status: "ok", Content: "c", Data: json.RawMessage(`{"a":1}`), Park: true},
		page:    record.Page{Data: []record.Record{{ID: id, Parents: []string{}, Thread: own, Actor: "did:x", Act: record.ActKnow, Body: json.RawMessage(`{"a":1}`), DataType: record.Scalar}}, MatchedTotal: 1},
		complete: func(context.Context) (loop.Completion, error) {
			return loop.Completion{SpentUSD: &spent, Messages: []string{"m"}, Response: inference.Response{Model: "m", StopReason: "end_turn", OutputTokens: 3, Content: []inference.Block{{Type: "text", Text: "t"}}}}, nil
		},
	}
	s := serve(t, k)
	client := doors.NewClient(s.conn, bearer)
	ctx := t.Context()
	verdict, err := client.Propose(ctx, loop.Proposal{CallID: "c", Tool: "t", Args: json.RawMessage(`{"b":[1]}`), Truncated: true})
	if diff := cmp.Diff(k.verdict, verdict); diff != "" || err != nil {
		t.Errorf("propose: %v %s", err, diff)
	}
	result, err := client.Call(ctx, id)
	if diff := cmp.Diff(k.result, result); diff != "" || err != nil {
		t.Errorf("call: %v %s", err, diff)
	}
	written, err := client.Append(ctx, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "n"}})
	if written != id || err != nil {
		t.Errorf("append: %q %v", written, err)
	}
	page, err := client.Query(ctx, record.Query{Thread: own, Filter: json.RawMessage(`{"clock":1}`), Sort: record.Sort{{Field: "clock", Descending: true}, {Field: "actor"}}, Limit: 7})
	if diff := cmp.Diff(k.page, page); diff != "" || err != nil {
		t.Errorf("query: %v %s", err, diff)
	}
	completion, err := client.Complete(ctx, inference.Request{Messages: []inference.Message{{Role: "user", Content: []inference.Block{{Type: "text", Text: "hi"}}}}, MaxTokens: 9})
	want, _ := k.complete(ctx)
	if diff := cmp.Diff(want, completion); diff != "" || err != nil {
		t.Errorf("complete: %v %s", err, diff)
	}
	reached := []any{
		loop.Proposal{CallID: "c", Tool: "t", Args: json.RawMessage(`{"b":[1]}`), Truncated: true}, id,
		loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: loop.NoteBody{Text: "n"}},
		record.Query{Thread: own, Filter: json.RawMessage(`{"clock":1}`), Sort: record.Sort{{Field: "clock", Descending: true}, {Field: "actor"}}, Limit: 7},
		inference.Request{Messages: []inference.Message{{Role: "user", Content: []inference.Block{{Type: "text", Text: "hi"}}}}, MaxTokens: 9},
	}
	if diff := cmp.Diff(reached, k.reached); diff != "" {
		t.Errorf("reached (-want +got):\n%s", diff)
	}
}

// Errors arrive as what they were, and the connection goes on after them.
func TestClientErrors(t *testing.T) {
	k := &kernel{}
	client := doors.NewClient(serve(t, k).conn, bearer)
	for _, tt := range []struct {
		err  error
		want loop.Refusal
	}{
		{loop.ErrStopped, *loop.ErrStopped},
		{fmt.Errorf("x: %w", loop.ErrBudget("tokens")), *loop.ErrBudget("tokens")},
		{&inference.BudgetError{Kind: "usd"}, *loop.ErrBudget("usd")},
		{&loop.Refusal{Code: "ADMISSION_CEILING", Status: 503, Message: "full", Extra: map[string]any{"admission_capacity": 3.0}}, loop.Refusal{Code: "ADMISSION_CEILING", Status: 503, Message: "full", Extra: map[string]any{"admission_capacity": 3.0}}},
		{fault.New(fault.Invalid, "bad"), loop.Refusal{Code: loop.CodeInvalidBody, Status: 422, Message: "bad"}},
		{fault.New(fault.NotFound, "no"), loop.Refusal{Code: loop.CodeNotFound, Status: 404, Message: "no"}},
		{errors.New("open /var/db/secret: no such file"), loop.Refusal{Code: loop.CodeInternal, Status: 500, Message: "the kernel cannot do this"}},
		{&loop.Refusal{Code: "ODD", Message: "no status", Extra: map[string]any{"f": func() {}}}, loop.Refusal{Code: loop.CodeInternal, Status: 500, Message: "the refusal cannot be encoded"}},
	} {
		k.err = tt.err
		_, err := client.Call(t.Context(), id)
		got, ok := errors.AsType[*loop.Refusal](err)
		if !ok {
			t.Fatalf("%v: %v", tt.err, err)
		}
		if diff := cmp.Diff(tt.want, *got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.err, diff)
		}
	}
	if _, err := client.Append(t.Context(), loop.Entry{Kind: loop.KindNote, Body: loop.NoteBody{Text: strings.Repeat("x", 2<<20)}}); !errors.Is(err, &loop.Refusal{Code: loop.CodeTooLarge}) {
		t.Errorf("too large: %v", err)
	}
	if _, err := client.Append(t.Context(), loop.Entry{Kind: loop.KindNote, Body: func() {}}); err == nil {
		t.Error("what cannot be encoded is sent")
	}
	k.err = nil
	if _, err := client.Call(t.Context(), id); err != nil {
		t.Errorf("after the errors: %v", err)
	}
}

// A request that is given up takes the connection with it: its answer must not be taken for the next one's.
func TestClientInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		k := &kernel{complete: func(ctx context.Context) (loop.Completion, error) {
			<-ctx.Done() // the daemon notices that nobody waits any more
			close(gone)
			return loop.Completion{}, ctx.Err()
		}}
		client := doors.NewClient(serve(t, k).conn, bearer)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // models are slow: no deadline of the server's may hit before
		defer cancel()
		_, err := client.Complete(ctx, inference.Request{Messages: []inference.Message{{Role: "user"}}, MaxTokens: 1})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		if _, err := client.Call(t.Context(), id); err == nil {
			t.Error("the connection is used again")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		<-gone
		if len(k.reached) != 1 {
			t.Errorf("reached %d times", len(k.reached))
		}
	})
}

// A daemon that answers without an end, or not in HTTP, is not waited for.
func TestClientBounds(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nX: ", "x",
	} {
		worker, daemon := net.Pipe()
		go func() {
			defer daemon.Close()
			request := make([]byte, 4096)
			_, _ = daemon.Read(request)
			_, _ = io.WriteString(daemon, answer)
			for filler := []byte("8000\r\n" + strings.Repeat("z", 0x8000) + "\r\n"); ; {
				if _, err := daemon.Write(filler); err != nil {
					return
				}
			}
		}()
		client := doors.NewClient(worker, bearer)
		if _, err := client.Call(t.Context(), id); err == nil {
			t.Errorf("%q is taken", answer)
		}
		_ = client.Close()
	}
}

// A worker that trickles a request is cut off; one that is silent between requests is not.
func TestSlowWorker(t *testing.T) {
	for _, tt := range []struct {
		name, head, drop string
	}{
		{"header", "POST /v1/records HTTP/1.1\r\nHost: d\r\n", "X: y\r\n"},
		{"body", "POST /v1/records HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + bearer + "\r\nContent-Length: 1000\r\n\r\n", "x"},
		{"body of no door", "POST /x HTTP/1.1\r\nHost: d\r\nContent-Length: 1000\r\n\r\n", "x"},
		{"body without a bearer", "POST /v1/records HTTP/1.1\r\nHost: d\r\nContent-Length: 1000\r\n\r\n", "x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &kernel{}
			s := serve(t, k)
			time.Sleep(time.Hour)
			if status, _ := s.post(t, doors.DoorCall, `{"call":"`+id+`"}`); status != 200 {
				t.Errorf("after an hour: %d", status)
			}
			time.Sleep(time.Hour)
			begin := time.Now()
			var trickle sync.WaitGroup
			trickle.Go(func() {
				_, err := io.WriteString(s.conn, tt.head)
				for err == nil {
					time.Sleep(time.Second)
					_, err = io.WriteString(s.conn, tt.drop)
				}
			})
			_, _ = io.Copy(io.Discard, s.in)
			trickle.Wait()
			if took := time.Since(begin); took > time.Minute || len(k.reached) != 1 {
				t.Errorf("%s: cut off after %s, reached %d", tt.name, took, len(k.reached))
			}
		})
	}
}

// A worker that does not read its answers is cut off.
func TestDeafWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker, daemon := net.Pipe()
		done := make(chan error)
		go func() {
			done <- doors.Serve(t.Context(), daemon, doors.NewHandler(func(string) (loop.Kernel, doors.Bounds, bool) { return nil, doors.Bounds{}, false }))
		}()
		begin := time.Now()
		_, _ = io.WriteString(worker, "POST /x HTTP/1.1\r\nHost: d\r\n\r\n")
		if err := <-done; err != nil || time.Since(begin) > time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		_ = worker.Close()
	})
}

// The end of the context ends the requests in progress and the connection.
func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	worker, daemon := net.Pipe()
	k := &kernel{complete: func(inner context.Context) (loop.Completion, error) {
		cancel()
		<-inner.Done()
		return loop.Completion{}, inner.Err()
	}}
	done := make(chan error)
	go func() {
		done <- doors.Serve(ctx, daemon, doors.NewHandler(func(string) (loop.Kernel, doors.Bounds, bool) { return k, doors.Bounds{}, true }))
	}()
	_, err := doors.NewClient(worker, bearer).Complete(t.Context(), inference.Request{Messages: []inference.Message{{Role: "user"}}, MaxTokens: 1})
	if served := <-done; err == nil || !errors.Is(served, context.Canceled) {
		t.Errorf("client: %v, serve: %v", err, served)
	}
}

// The loop does not know which side of the doors it is on.
func TestLoopThroughDoors(t *testing.T) {
	replies := []loop.Completion{
		{Response: inference.Response{Model: "m", StopReason: "tool_use", Content: []inference.Block{{Type: "tool_use", ID: "c", Name: "record_note", Input: json.RawMessage(`{"text":"transport-check"}`)}}}},
		{Response: inference.Response{Model: "m", StopReason: "end_turn", Content: []inference.Block{{Type: "text", Text: "Recorded."}}}},
	}
	run := func(through func(loop.Kernel) loop.Kernel) (loop.Claim, []any) {
		turn := -1
		k := &kernel{verdict: loop.Verdict{Decision: loop.Allow, Call: id}}
		k.complete = func(context.Context) (loop.Completion, error) { turn++; return replies[turn], nil }
		claim := loop.Run(t.Context(), loop.Spec{Thread: own, Actor: "did:sync:user:ada", Goal: "g", Tools: loop.LocalTools(), MaxTurns: 3}, through(k))
		return claim, k.reached
	}
	inside, wantReached := run(func(k loop.Kernel) loop.Kernel { return k })
	outside, reached := run(func(k loop.Kernel) loop.Kernel { return doors.NewClient(serve(t, k).conn, bearer) })
	if diff := cmp.Diff(inside, outside); diff != "" || inside.Outcome != loop.Completed {
		t.Errorf("claim (-inside +outside):\n%s", diff)
	}
	// Canonical JSON orders the keys of what passed the doors; how long a call took differs too.
	for _, list := range [][]any{wantReached, reached} {
		for i, v := range list {
			if r, ok := v.(inference.Request); ok {
				r.Tools = nil
				list[i] = r
			}
			if e, ok := v.(loop.Entry); ok {
				if body, ok := e.Body.(loop.ToolResultBody); ok {
					body.DurationMS = 0
					list[i] = loop.Entry{Kind: e.Kind, Act: e.Act, Body: body}
				}
			}
		}
	}
	if diff := cmp.Diff(wantReached, reached); diff != "" {
		t.Errorf("reached (-inside +outside):\n%s", diff)
	}
}

// No bytes open a door that is not theirs, or bring the handler down.
func FuzzDoors(f *testing.F) {
	f.Add("/v1/records", `{"body":{"kind":"core.work.note.v1","text":"n"}}`)
	f.Add("/v1/records", `{"kind":"core.work.observation.v1","body":{"rule":"r","text":"t","loop_thread":"`+own+`"}}`)
	f.Add("/v1/records/query", `{"thread":"`+own+`","filter":{"$or":[]}}`)
	f.Add("/v1/work/tool-verdict", `{"tool":"t","args":{"a":[1e9]}}`)
	f.Add("/v1/broker/messages", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":1}`)
	f.Add("/v1/records?", "")
	f.Fuzz(func(t *testing.T, door, body string) {
		if strings.ContainsAny(door, " \r\n") || door == "" {
			return
		}
		k := &kernel{}
		status, _ := serve(t, k).raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", door, bearer, len(body), body))
		if (status == 200) != (len(k.reached) == 1) {
			t.Errorf("%d, reached %v", status, k.reached)
		}
		for _, v := range k.reached {
			switch v := v.(type) {
			case loop.Entry:
				encoded, err := json.Marshal(v.Body)
				if err != nil || !strings.HasPrefix(v.Kind, "core.work.") || strings.Contains(string(encoded), `"cancels"`) {
					t.Errorf("entry %+v: %v", v, err)
				}
			case record.Query:
				if v.Thread != own && v.Thread != given {
					t.Errorf("query %+v", v)
				}
			}
		}
	})
}
