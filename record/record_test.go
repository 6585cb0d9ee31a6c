package record

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"playground/fault"
)

const alice = "did:sync:user:alice"

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
}

// newLog opens a log in a folder of its own and closes it at the end of the test.
func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	return openLog(t, filepath.Join(t.TempDir(), "records.db"), o)
}

func openLog(t testing.TB, path string, o Options) *Log {
	t.Helper()
	l, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// note is a draft of the usual kind.
func note(thread, actor, text string) Draft {
	return Draft{Thread: thread, Actor: actor, Act: ActKnow, Body: map[string]any{"kind": "core.work.note.v1", "text": text}}
}

func mustAppend(t testing.TB, l *Log, drafts ...Draft) []Record {
	t.Helper()
	records, err := l.Append(t.Context(), drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// wantFault checks kind and text of an error.
func wantFault(t testing.TB, err error, kind fault.Kind, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v (%v), want %v with %q", err, fault.KindOf(err), kind, text)
	}
}

func mustVerify(t testing.TB, l *Log) Report {
	t.Helper()
	report, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.First != nil {
		t.Fatalf("Verify: sequence %d, id %q: %s", report.First.Sequence, report.First.ID, report.First.Reason)
	}
	return report
}

func TestAppendAndRead(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLog(t, Options{Key: testKey(), Now: func() time.Time { return time.Unix(1700000000, 0) }})
	defer l.Close()
	thread := NewThread("a")
	first := mustAppend(t, l, Draft{Thread: thread, Actor: alice, Act: ActIntend, Body: map[string]any{"goal": "<b>&"}})[0]
	second := mustAppend(t, l, Draft{Thread: thread, Actor: EngineDID, Act: ActKnow, Parents: []string{first.ID}, Body: map[string]any{"fulfills": first.ID}})[0]
	if first.Sequence != 1 || second.Sequence != 2 || first.Clock != 0 || second.Clock != 0 || first.CreatedAt != 1700000000 {
		t.Errorf("records %+v %+v", first, second)
	}
	want := `{"act":"INTEND","actor":"did:sync:user:alice","body":{"goal":"<b>&"},"clock":0,"data_type":"SCALAR","parents":[],"thread":"` + thread + `"}`
	if canonical, err := first.Canonical(); err != nil || string(canonical) != want || idOf(canonical) != first.ID {
		t.Errorf("canonical form %s (%v), id %s", canonical, err, first.ID)
	}
	got, err := l.Get(t.Context(), second.ID)
	if err != nil || got.Parents[0] != first.ID || string(got.Body) != string(second.Body) {
		t.Errorf("Get: %+v, %v", got, err)
	}
	served, err := json.Marshal(first)
	if err != nil || !strings.HasPrefix(string(served), `{"object":"record","id":"`+first.ID) || !strings.Contains(string(served), `"judged_by":null,"sequence":1,"created_at":1700000000}`) {
		t.Errorf("served as %s (%v)", served, err)
	}
	var back Record
	if err := json.Unmarshal(served, &back); err != nil || back.ID != first.ID {
		t.Errorf("read back %+v, %v", back, err)
	}
	_, err = l.Get(t.Context(), strings.Repeat("0", 64))
	wantFault(t, err, fault.NotFound, "no record")
	_, err = l.Get(t.Context(), "x' OR 1=1")
	wantFault(t, err, fault.Invalid, "record id")
	if report := mustVerify(t, l); report.Records != 2 || report.Signed != 1 {
		t.Errorf("report %+v", report)
	}
}

func TestPut(t *testing.T) {
	l := newLog(t, Options{})
	r := Record{Thread: NewThread("a"), Actor: alice, Act: ActDo, DataType: Scalar, Clock: 5, Body: json.RawMessage(`{ "b":1, "a":1.0 }`)}
	stored, err := l.Put(t.Context(), r)
	if err != nil || stored.Sequence != 1 || string(stored.Body) != `{"a":1,"b":1}` {
		t.Fatalf("Put: %+v, %v", stored, err)
	}
	r.ID = stored.ID
	if again, err := l.Put(t.Context(), r); err != nil || again.Sequence != 1 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	r.Body = json.RawMessage(`{}`)
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.Invalid, "is not the hash of this record")
	r.ID = ""
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.Exists, "the next free clock is 6")
	r.Clock = 3
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.Exists, "the next free clock is 6")
	r.Clock = 100
	if stored, err = l.Put(t.Context(), r); err != nil || stored.Clock != 100 {
		t.Errorf("a gap: %+v, %v", stored, err)
	}
	r.Clock, r.Body = 101, json.RawMessage(`{`+strings.Repeat(" ", 5*MaxBody)+`}`)
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.TooLarge, "body")
	r.Clock, r.Body = -1, json.RawMessage(`{}`)
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.Invalid, "clock")
	r.Clock, r.Thread = 0, NewThread("b")
	if _, err = l.Put(t.Context(), r); err != nil {
		t.Errorf("another thread has clocks of its own: %v", err)
	}
}

func TestAppendIsAllOrNone(t *testing.T) {
	l := newLog(t, Options{})
	thread := NewThread("a")
	used := int64(0)
	mustAppend(t, l, note(thread, alice, "zero"))
	bad := note(thread, alice, "again")
	bad.Clock = &used
	_, err := l.Append(t.Context(), note(thread, alice, "one"), note(thread, "did:sync:user:bob", "two"), bad)
	wantFault(t, err, fault.Exists, "next free clock is 2")
	if records, err := l.List(t.Context(), ListQuery{}); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
	records := mustAppend(t, l, note(thread, alice, "one"), note(thread, alice, "two"))
	if records[0].Clock != 1 || records[1].Clock != 2 || records[1].Sequence != 3 {
		t.Errorf("records %+v", records)
	}
	mustVerify(t, l)
	if none, err := l.Append(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("nothing: %v, %v", none, err)
	}
}

func TestValidation(t *testing.T) {
	l := newLog(t, Options{})
	good := note(NewThread("a"), alice, "x")
	unknown := strings.Repeat("a", 64)
	body := func(text string) func(*Draft) { return func(d *Draft) { d.Body = json.RawMessage(text) } }
	for name, c := range map[string]struct {
		change func(*Draft)
		kind   fault.Kind
		text   string
	}{
		"no thread":            {func(d *Draft) { d.Thread = "" }, fault.Invalid, "thread"},
		"thread upper case":    {func(d *Draft) { d.Thread = "th_" + strings.Repeat("A", 64) }, fault.Invalid, "thread"},
		"thread not reserved":  {func(d *Draft) { d.Thread = "th_engine" }, fault.Invalid, "thread"},
		"thread and newline":   {func(d *Draft) { d.Thread = ConfigThread + "\n" }, fault.Invalid, "thread"},
		"actor no DID":         {func(d *Draft) { d.Actor = "alice" }, fault.Invalid, "DID"},
		"actor with a quote":   {func(d *Draft) { d.Actor = "did:sync:user:a'b" }, fault.Invalid, "DID"},
		"actor empty id":       {func(d *Draft) { d.Actor = "did:sync:" }, fault.Invalid, "DID"},
		"actor newline":        {func(d *Draft) { d.Actor = alice + "\n" }, fault.Invalid, "DID"},
		"actor long":           {func(d *Draft) { d.Actor = "did:sync:" + strings.Repeat("a", 300) }, fault.Invalid, "DID"},
		"act":                  {func(d *Draft) { d.Act = "know" }, fault.Invalid, "act"},
		"data type":            {func(d *Draft) { d.DataType = "TEXT" }, fault.Invalid, "data_type"},
		"clock negative":       {func(d *Draft) { d.Clock = new(int64); *d.Clock = -1 }, fault.Invalid, "clock"},
		"clock large":          {func(d *Draft) { d.Clock = new(int64); *d.Clock = 1 << 53 }, fault.Invalid, "clock"},
		"parent form":          {func(d *Draft) { d.Parents = []string{"x"} }, fault.Invalid, "parents"},
		"parent unknown":       {func(d *Draft) { d.Parents = []string{unknown} }, fault.Invalid, "is not in the log"},
		"judged by form":       {func(d *Draft) { d.JudgedBy = new(string) }, fault.Invalid, "judged_by"},
		"judged by unknown":    {func(d *Draft) { d.JudgedBy = &unknown }, fault.Invalid, "is not in the log"},
		"body array":           {body(`[]`), fault.Invalid, "object"},
		"body null":            {func(d *Draft) { d.Body = nil }, fault.Invalid, "object"},
		"body duplicate":       {body(`{"a":1,"a":2}`), fault.Invalid, "twice"},
		"body large integer":   {body(`{"a":9007199254740993}`), fault.Invalid, "would not survive"},
		"body large":           {body(`{"a":"` + strings.Repeat("x", MaxBody) + `"}`), fault.TooLarge, "larger"},
		"body no JSON":         {func(d *Draft) { d.Body = func() {} }, fault.Invalid, "body"},
		"kind form":            {body(`{"kind":"note"}`), fault.Invalid, "kind"},
		"kind segments":        {body(`{"kind":"a.b.c.d.e"}`), fault.Invalid, "kind"},
		"kind number":          {body(`{"kind":5}`), fault.Invalid, "kind"},
		"kind upper case":      {body(`{"kind":"Core.work.note"}`), fault.Invalid, "kind"},
		"kind old":             {body(`{"kind":"core.agent.turn.v1"}`), fault.Invalid, "old name"},
		"kind twice by case":   {body(`{"kind":"core.work.note.v1","KIND":"core.work.loop_outcome.v1"}`), fault.Invalid, "only in case"},
		"kind kelvin":          {body("{\"\u212aind\":\"core.work.loop_outcome.v1\"}"), fault.Invalid, "only in case"},
		"namespace null":       {body(`{"namespace":null}`), fault.Invalid, "namespace"},
		"namespace empty":      {body(`{"namespace":""}`), fault.Invalid, "namespace"},
		"namespace spaces":     {body(`{"namespace":"a b"}`), fault.Invalid, "namespace"},
		"observation no rule":  {body(`{"kind":"core.work.observation.v1","text":"x"}`), fault.Invalid, "body.rule"},
		"observation blank":    {body(`{"kind":"core.work.observation.v1","rule":"r","text":" "}`), fault.Invalid, "body.text"},
		"observation rule num": {body(`{"kind":"core.work.observation.v2","rule":1,"text":"x"}`), fault.Invalid, "body.rule"},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			c.change(&d)
			_, err := l.Append(t.Context(), d)
			wantFault(t, err, c.kind, c.text)
		})
	}
	if records, err := l.List(t.Context(), ListQuery{}); err != nil || len(records) != 0 {
		t.Errorf("%d records were let in, %v", len(records), err)
	}
	for _, text := range []string{`{}`, `{"kind":"core.hook.v1"}`, `{"kind":"core.work.note.v1","namespace":"default"}`, `{"kind":"core.work.observation.v1","rule":"r","text":"x"}`, `{"Text":1}`} {
		d := good
		d.Body = json.RawMessage(text)
		mustAppend(t, l, d)
	}
	for _, thread := range []string{ConfigThread, ActorRegistryThread, NamespaceRegistryThread, InstanceRegistryThread, FleetControlThread, ConsentThread, "th_invites", "th_queries", "th_sync_control", "th_audit_access"} {
		mustAppend(t, l, note(thread, "did:web:example.com:a%20b", "x"))
	}
	_, err := l.Append(t.Context(), Draft{Thread: good.Thread, Actor: alice, Act: ActDo, Body: json.RawMessage(`{"namespace":1}`)})
	if !errors.Is(err, ErrNamespace) {
		t.Errorf("%v is not ErrNamespace", err)
	}
}

func TestParents(t *testing.T) {
	l := newLog(t, Options{})
	thread := NewThread("a")
	a := mustAppend(t, l, note(thread, alice, "a"), note(thread, alice, "b"))
	low, high := min(a[0].ID, a[1].ID), max(a[0].ID, a[1].ID)
	d := note(thread, alice, "c")
	d.Parents = []string{high, low, high}
	if got := mustAppend(t, l, d)[0].Parents; fmt.Sprint(got) != fmt.Sprint([]string{low, high}) {
		t.Errorf("a draft's parents are %v", got)
	}
	r := Record{Thread: thread, Actor: alice, Act: ActDo, DataType: Scalar, Clock: 9, Body: json.RawMessage(`{}`), Parents: []string{high, low}}
	_, err := l.Put(t.Context(), r)
	wantFault(t, err, fault.Invalid, "ascending")
	r.Parents = []string{low, low}
	_, err = l.Put(t.Context(), r)
	wantFault(t, err, fault.Invalid, "twice")
	r.Parents, r.JudgedBy = []string{low, high}, &low
	if got, err := l.Put(t.Context(), r); err != nil || got.JudgedBy == nil || *got.JudgedBy != low {
		t.Errorf("%+v, %v", got, err)
	}
	mustVerify(t, l)
}

func TestCheck(t *testing.T) {
	var l *Log
	l = newLog(t, Options{Check: func(ctx context.Context, r Record) error {
		if _, err := l.Config(ctx, "permission_rule"); err != nil { // a check may read the log
			return err
		}
		if r.Clock == -1 && Kind(r) == "core.work.note.v1" && strings.Contains(string(r.Body), "forbidden") {
			return fault.New(fault.Denied, "no")
		}
		return nil
	}})
	thread := NewThread("a")
	_, err := l.Append(t.Context(), note(thread, alice, "yes"), note(thread, alice, "forbidden"))
	wantFault(t, err, fault.Denied, "no")
	if records, _ := l.List(t.Context(), ListQuery{}); len(records) != 0 {
		t.Errorf("%d records", len(records))
	}
	mustAppend(t, l, note(thread, alice, "yes"))
}

func TestNewThread(t *testing.T) {
	again, random := NewThread("a"), NewThread()
	if NewThread("ab", "c") == NewThread("a", "bc") || NewThread() == random || NewThread("a") != again {
		t.Error("thread ids are not what their inputs say")
	}
	for _, id := range []string{NewThread(), NewThread("a")} {
		if err := ValidThread(id); err != nil {
			t.Error(err)
		}
	}
}
