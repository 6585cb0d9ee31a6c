package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"playground/fault"
)

// A gate is an audit writer that a test can hold up and break.
type gate struct {
	mu     sync.Mutex
	lines  bytes.Buffer
	syncs  int
	writes int
	fail   error
	wait   chan struct{} // if not nil, a write waits for it
	held   chan struct{} // told when one does
}

func (g *gate) Write(p []byte) (int, error) {
	if g.wait != nil {
		g.held <- struct{}{}
		<-g.wait
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return 0, g.fail
	}
	g.writes++
	return g.lines.Write(p)
}

func (g *gate) Sync() error {
	g.syncs++
	return nil
}

// What is queued while one transaction is on its way shares the next one, and a caller who gives up in the queue leaves nothing.
func TestGroupCommit(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := &gate{wait: make(chan struct{}), held: make(chan struct{}, 100)}
	l := newLog(t, Options{Audit: g})
	defer l.Close()
	var callers sync.WaitGroup
	appendOne := func(ctx context.Context, name string, want error) {
		callers.Go(func() {
			if _, err := l.Append(ctx, note(NewThread(name), alice, name)); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		})
	}
	appendOne(t.Context(), "first", nil)
	<-g.held
	ctx, cancel := context.WithCancel(t.Context())
	appendOne(ctx, "gone", context.Canceled)
	for i := range 20 {
		appendOne(t.Context(), fmt.Sprint(i), nil)
	}
	for queued := 0; queued < 21; {
		l.mu.Lock()
		queued = len(l.queue)
		l.mu.Unlock()
	}
	cancel()
	for gone := false; !gone; { // until the caller has taken its request back
		l.mu.Lock()
		gone = slices.ContainsFunc(l.queue, func(r *request) bool { return r.taken.Load() })
		l.mu.Unlock()
	}
	close(g.wait)
	callers.Wait()
	if g.writes != 2 || g.syncs != 2 || bytes.Count(g.lines.Bytes(), []byte("\n")) != 21 {
		t.Errorf("%d writes, %d syncs:\n%s", g.writes, g.syncs, g.lines.String())
	}
	if report := mustVerify(t, l); report.Records != 21 {
		t.Errorf("%d records", report.Records)
	}
}

// One bad request in a batch is refused alone.
func TestBatchIsolation(t *testing.T) {
	g := &gate{wait: make(chan struct{}), held: make(chan struct{}, 100)}
	l := newLog(t, Options{Audit: g})
	var callers sync.WaitGroup
	callers.Go(func() { l.Append(t.Context(), note(NewThread("first"), alice, "x")) })
	<-g.held
	used := int64(0)
	for i := range 10 {
		callers.Go(func() {
			thread := NewThread(fmt.Sprint(i))
			good, bad := note(thread, alice, "a"), note(thread, alice, "b")
			bad.Clock = &used
			if _, err := l.Append(t.Context(), good, bad); !errors.Is(err, fault.Exists) {
				t.Error(err)
			}
		})
		callers.Go(func() {
			if _, err := l.Append(t.Context(), note(NewThread("other", fmt.Sprint(i)), alice, "a"), note(NewThread("more"), alice, "a")); err != nil {
				t.Error(err)
			}
		})
	}
	close(g.wait)
	callers.Wait()
	if report := mustVerify(t, l); report.Records != 21 {
		t.Errorf("%d records", report.Records)
	}
}

func TestAuditRefuses(t *testing.T) {
	g := &gate{fail: errors.New("no space")}
	l := newLog(t, Options{Audit: g})
	_, err := l.Append(t.Context(), note(NewThread("a"), alice, "x"))
	wantFault(t, err, fault.Unavailable, "audit file")
	if strings.Contains(err.Error(), "no space") || !strings.Contains(errors.Unwrap(err).Error(), "no space") {
		t.Errorf("the cause is not hidden for the log: %v", err)
	}
	if records, _ := l.List(t.Context(), ListQuery{}); len(records) != 0 {
		t.Errorf("%d records", len(records))
	}
	g.fail = nil
	r := mustAppend(t, l, note(NewThread("a"), alice, "x"))[0]
	var line auditLine
	if err := json.Unmarshal(g.lines.Bytes(), &line); err != nil || line.ID != r.ID || line.Sequence != 1 || line.Kind != "core.work.note.v1" || line.After != 0 {
		t.Errorf("line %s, %v", g.lines.String(), err)
	}
	mustVerify(t, l)
}

// A database that cannot be written refuses, and takes appends again as soon as it can be.
func TestDiskRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	l := openLog(t, path, Options{Key: testKey()})
	mustAppend(t, l, note(NewThread("a"), alice, "x"))
	var pages int
	if err := l.writer.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := l.writer.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages+2)); err != nil {
		t.Fatal(err)
	}
	large := note(NewThread("a"), alice, strings.Repeat("x", 100000))
	_, err := l.Append(t.Context(), large)
	wantFault(t, err, fault.Unavailable, "cannot write to the record log")
	_, err = l.Append(t.Context(), note(NewThread("a"), alice, "small"), large)
	wantFault(t, err, fault.Unavailable, "cannot write to the record log")
	mustAppend(t, l, note(NewThread("a"), alice, "small"))
	if _, err := l.writer.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, large)
	if report := mustVerify(t, l); report.Records != 3 {
		t.Errorf("%d records", report.Records)
	}
}

// Two processes may append to one file.
func TestTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	a, b := openLog(t, path, Options{Key: testKey()}), openLog(t, path, Options{Key: testKey()})
	var callers sync.WaitGroup
	for _, l := range []*Log{a, b} {
		callers.Go(func() {
			for range 30 {
				if _, err := l.Append(t.Context(), note(NewThread("shared"), alice, "x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if report := mustVerify(t, a); report.Records != 60 {
		t.Errorf("%d records", report.Records)
	}
	// One without the key leaves a head that the other does not vouch for.
	c := openLog(t, path, Options{})
	mustAppend(t, c, note(NewThread("shared"), alice, "x"))
	_, err := a.Append(t.Context(), note(NewThread("shared"), alice, "x"))
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// The log against a model: whatever is appended, by drafts or envelopes, the clocks, sequences and records are what they should be.
func TestAppendProperties(t *testing.T) {
	l := newLog(t, Options{Key: testKey()})
	model := map[string]int64{} // last clock by author
	all := []Record{}
	salt := 0
	rapid.Check(t, func(t *rapid.T) {
		salt++
		thread := NewThread(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "thread"))
		actor := rapid.SampledFrom([]string{alice, EngineDID}).Draw(t, "actor")
		last, ok := model[thread+actor]
		if !ok {
			last = -1
		}
		d := Draft{Thread: thread, Actor: actor, Act: ActDo, Body: map[string]any{"salt": salt, "v": jsonValue().Draw(t, "v")}}
		want := last + 1
		if rapid.Bool().Draw(t, "given") {
			want = max(0, last+rapid.Int64Range(-2, 3).Draw(t, "step"))
			d.Clock = &want
		}
		records, err := l.Append(context.Background(), d)
		if want <= last {
			if !errors.Is(err, fault.Exists) {
				t.Fatalf("clock %d after %d: %v", want, last, err)
			}
			return
		}
		if err != nil || records[0].Clock != want || records[0].Sequence != int64(len(all)+1) {
			t.Fatalf("%+v, %v, want clock %d", records, err, want)
		}
		model[thread+actor] = want
		all = append(all, records[0])
		if again, err := l.Put(context.Background(), records[0]); err != nil || again.Sequence != records[0].Sequence {
			t.Fatalf("again: %+v, %v", again, err)
		}
	})
	if report := mustVerify(t, l); report.Records != int64(len(all)) {
		t.Errorf("%d records, want %d", report.Records, len(all))
	}
}

func TestTriggers(t *testing.T) {
	l := newLog(t, Options{})
	r := mustAppend(t, l, note(NewThread("a"), alice, "x"))[0]
	for _, text := range []string{
		"UPDATE records SET body = '{}'",
		"DELETE FROM records",
		"DELETE FROM head",
		"INSERT OR REPLACE INTO records (" + columns + ", chain) SELECT " + columns + ", chain FROM records",
		"INSERT OR REPLACE INTO records (" + columns + ", chain) SELECT 2, " + strings.TrimPrefix(columns, "sequence, ") + ", chain FROM records",
		"INSERT INTO records (" + columns + ", chain) SELECT 5, '" + strings.Repeat("0", 64) + "', thread, actor, act, body, 9, data_type, parents, judged_by, created_at, chain FROM records",
	} {
		if _, err := l.writer.conn.ExecContext(t.Context(), text); err == nil {
			t.Errorf("%s was carried out", text)
		}
	}
	if _, err := l.read.Exec("CREATE TABLE x (y)"); err == nil {
		t.Error("the connections that read can write")
	}
	if got, err := l.Get(t.Context(), r.ID); err != nil || string(got.Body) != string(r.Body) {
		t.Errorf("%+v, %v", got, err)
	}
	mustVerify(t, l)
}
