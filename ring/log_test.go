package ring_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
	"playground/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A write is one call of Write.
type write struct {
	stream ring.Stream
	text   string
}

func stdout(s string) write { return write{ring.Stdout, s} }
func stderr(s string) write { return write{ring.Stderr, s} }

// chunk is a Chunk with a text that a diff can show.
type chunk struct {
	Seq    int64
	Stream ring.Stream
	Text   string
}

func chunks(p ring.Page) []chunk {
	var cs []chunk
	for _, c := range p.Chunks {
		cs = append(cs, chunk{c.Sequence, c.Stream, string(c.Data)})
	}
	return cs
}

func TestRead(t *testing.T) {
	a4k := strings.Repeat("a", 4<<10)
	tests := []struct {
		name                string
		maxBytes, maxChunks int
		writes              []write
		cursor              int64
		limit               int
		want                []chunk
		next, dropped       int64
		more                bool
	}{
		{name: "empty", maxBytes: 10, maxChunks: 1, limit: 10},
		{
			name: "small writes of one stream are one chunk", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("a"), stdout("b"), stdout(""), stdout("c")},
			want:   []chunk{{0, ring.Stdout, "abc"}}, next: 3,
		},
		{
			name: "streams keep their order", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("a"), stderr("b"), stdout("c")},
			want:   []chunk{{0, ring.Stdout, "a"}, {1, ring.Stderr, "b"}, {2, ring.Stdout, "c"}}, next: 3,
		},
		{
			name: "a cursor inside a chunk", maxBytes: 100, maxChunks: 9, limit: 100, cursor: 2,
			writes: []write{stdout("hello")},
			want:   []chunk{{2, ring.Stdout, "llo"}}, next: 5,
		},
		{
			name: "a cursor at the end", maxBytes: 100, maxChunks: 9, limit: 100, cursor: 5,
			writes: []write{stdout("hello")}, next: 5,
		},
		{
			name: "a page ends inside a chunk", maxBytes: 100, maxChunks: 9, limit: 6, cursor: 1,
			writes: []write{stdout("0123"), stderr("456789")},
			want:   []chunk{{1, ring.Stdout, "123"}, {4, ring.Stderr, "456"}}, next: 7, more: true,
		},
		{
			name: "a page ends before a rune that does not fit", maxBytes: 100, maxChunks: 9, limit: 5,
			writes: []write{stdout("abc€")},
			want:   []chunk{{0, ring.Stdout, "abc"}}, next: 3, more: true,
		},
		{
			name: "a page ends before a chunk whose first rune does not fit", maxBytes: 100, maxChunks: 9, limit: 5,
			writes: []write{stdout("abc"), stderr("😀")},
			want:   []chunk{{0, ring.Stdout, "abc"}}, next: 3, more: true,
		},
		{
			name: "a rune fits in the smallest page", maxBytes: 100, maxChunks: 9, limit: -1,
			writes: []write{stdout("😀😀")},
			want:   []chunk{{0, ring.Stdout, "😀"}}, next: 4, more: true,
		},
		{
			name: "a rune over two writes is not split by the other stream", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("a\xe2\x82"), stderr("x"), stdout("\xacb")},
			want:   []chunk{{0, ring.Stdout, "a"}, {1, ring.Stderr, "x"}, {2, ring.Stdout, "€b"}}, next: 6,
		},
		{
			name: "an unfinished rune waits", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("a\xf0\x9f\x98")},
			want:   []chunk{{0, ring.Stdout, "a"}}, next: 1,
		},
		{
			name: "what only looked like a rune goes on", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("caf\xe9"), stdout(" cr\xe8me")},
			want:   []chunk{{0, ring.Stdout, "caf\xe9 cr\xe8me"}}, next: 10,
		},
		{
			name: "a new rune after one that never ended waits too", maxBytes: 100, maxChunks: 9, limit: 100,
			writes: []write{stdout("a\xe2\x82"), stdout("\xe2"), stderr("x"), stdout("\x82\xac")},
			want:   []chunk{{0, ring.Stdout, "a\xe2\x82"}, {3, ring.Stderr, "x"}, {4, ring.Stdout, "€"}}, next: 7,
		},
		{
			name: "too many bytes drop the oldest", maxBytes: 6, maxChunks: 9, limit: 100,
			writes: []write{stdout("0123"), stderr("456789")},
			want:   []chunk{{4, ring.Stderr, "456789"}}, next: 10, dropped: 4,
		},
		{
			name: "only what is needed is dropped of a chunk", maxBytes: 6, maxChunks: 9, limit: 100, cursor: 1,
			writes: []write{stdout("0123"), stderr("4567")},
			want:   []chunk{{2, ring.Stdout, "23"}, {4, ring.Stderr, "4567"}}, next: 8, dropped: 1,
		},
		{
			name: "the front is not cut inside a rune", maxBytes: 5, maxChunks: 9, limit: 100,
			writes: []write{stdout("a€b"), stderr("xy")},
			want:   []chunk{{4, ring.Stdout, "b"}, {5, ring.Stderr, "xy"}}, next: 7, dropped: 4,
		},
		{
			name: "too many chunks drop the oldest", maxBytes: 100, maxChunks: 2, limit: 100,
			writes: []write{stdout("ab"), stderr("cd"), stdout("ef")},
			want:   []chunk{{2, ring.Stderr, "cd"}, {4, ring.Stdout, "ef"}}, next: 6, dropped: 2,
		},
		{
			name: "one write over all bounds", maxBytes: 5, maxChunks: 1, limit: 100,
			writes: []write{stdout("0123456789abc")},
			want:   []chunk{{10, ring.Stdout, "abc"}}, next: 13, dropped: 10,
		},
		{
			name: "a full chunk takes no more", maxBytes: 1 << 20, maxChunks: 9, limit: 1 << 20, cursor: 4090,
			writes: []write{stdout(a4k[:4093]), stdout("b€"), stdout("c")},
			want:   []chunk{{4090, ring.Stdout, "aaab"}, {4094, ring.Stdout, "€c"}}, next: 4098,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ring.New(tt.maxBytes, tt.maxChunks)
			for _, w := range tt.writes {
				l.Write(w.stream, []byte(w.text))
			}
			page, err := l.Read(tt.cursor, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, chunks(page)); diff != "" {
				t.Errorf("chunks (-want +got):\n%s", diff)
			}
			if page.Next != tt.next || page.Dropped != tt.dropped || page.Gap != (tt.dropped > 0) || page.More != tt.more {
				t.Errorf("page is %+v, want next %d, dropped %d, more %v", page, tt.next, tt.dropped, tt.more)
			}
		})
	}
}

func TestReadRefusesCursors(t *testing.T) {
	l := ring.New(10, 10)
	l.Write(ring.Stdout, []byte("hello"))
	for cursor, want := range map[int64]string{
		6:  "cursor 6 is in the future: the output ends at 5",
		-1: "cursor -1 is negative",
	} {
		_, err := l.Read(cursor, 10)
		if !errors.Is(err, fault.Invalid) || err.Error() != want || fault.HintOf(err) == "" {
			t.Errorf("cursor %d gives %v, hint %q", cursor, err, fault.HintOf(err))
		}
	}
}

func TestBigWriteIsSplit(t *testing.T) {
	l := ring.New(1<<20, 100)
	l.Write(ring.Stdout, []byte(strings.Repeat("€", 50_000)))
	page, err := l.Read(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, c := range page.Chunks {
		sizes = append(sizes, len(c.Data))
	}
	if diff := cmp.Diff([]int{65535, 65535, 18930}, sizes); diff != "" {
		t.Errorf("chunk sizes (-want +got):\n%s", diff)
	}
}

func TestClose(t *testing.T) {
	l := ring.New(100, 10)
	l.Write(ring.Stdout, []byte("a\xe2\x82"))
	l.Write(ring.Stderr, []byte("\xf0"))
	if page, _ := l.Read(0, 10); page.Closed || page.Next != 1 {
		t.Errorf("before Close the page is %+v", page)
	}
	l.Close()
	l.Close()
	l.Write(ring.Stdout, []byte("late"))
	page, err := l.Read(0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []chunk{{0, ring.Stdout, "a\xe2\x82"}, {3, ring.Stderr, "\xf0"}}
	if diff := cmp.Diff(want, chunks(page)); diff != "" || !page.Closed || page.More {
		t.Errorf("page is %+v, chunks (-want +got):\n%s", page, diff)
	}
	if l.Total(ring.Stdout) != 3 || l.Total(ring.Stderr) != 1 {
		t.Errorf("totals are %d and %d, want 3 and 1", l.Total(ring.Stdout), l.Total(ring.Stderr))
	}
}

func TestPageIsACopy(t *testing.T) {
	l := ring.New(8, 10)
	l.Write(ring.Stdout, []byte("abcd"))
	page, _ := l.Read(0, 10)
	l.Write(ring.Stdout, []byte("01234567"))
	if got := string(page.Chunks[0].Data); got != "abcd" {
		t.Errorf("a later write changed a page to %q", got)
	}
	_ = append(page.Chunks[0].Data, "zzzz"...)
	again, _ := l.Read(4, 10)
	if diff := cmp.Diff([]chunk{{4, ring.Stdout, "0123"}, {8, ring.Stdout, "4567"}}, chunks(again)); diff != "" {
		t.Errorf("a reader changed the log (-want +got):\n%s", diff)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ring.New(100, 10)
		l.Write(ring.Stdout, []byte("ab"))
		if err := l.Wait(t.Context(), 1); err != nil {
			t.Errorf("with output Wait gives %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without output Wait gives %v", err)
		}
		// Many wait for different places; each goes on when its own is there.
		var wg sync.WaitGroup
		var mu sync.Mutex
		woken := 0
		for i := range 1000 {
			wg.Go(func() {
				if err := l.Wait(t.Context(), int64(2+i%3)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				woken++
				mu.Unlock()
			})
		}
		for _, want := range []int{334, 667} {
			synctest.Wait()
			l.Write(ring.Stderr, []byte("x"))
			synctest.Wait()
			if woken != want {
				t.Errorf("%d are awake, want %d", woken, want)
			}
		}
		l.Write(ring.Stdout, []byte("\xe2")) // held back: no news
		synctest.Wait()
		if woken != 667 {
			t.Errorf("%d are awake, want 667", woken)
		}
		l.Close()
		wg.Wait()
		if err := l.Wait(t.Context(), 1<<40); err != nil {
			t.Errorf("after Close Wait gives %v", err)
		}
	})
}

// TestConcurrentReaders has two writers and several readers of one log; each reader accounts for every byte.
func TestConcurrentReaders(t *testing.T) {
	l := ring.New(64<<10, 64)
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var cursor, read, dropped int64
			for {
				if err := l.Wait(t.Context(), cursor); err != nil {
					t.Error(err)
					return
				}
				page, err := l.Read(cursor, 10_000)
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range page.Chunks {
					read += int64(len(c.Data))
				}
				dropped += page.Dropped
				cursor = page.Next
				if page.Closed && !page.More {
					break
				}
			}
			if _, end := l.Bounds(); read+dropped != end || end != 2*2000*1024 {
				t.Errorf("%d read and %d dropped bytes of %d", read, dropped, end)
			}
		})
	}
	for _, s := range []ring.Stream{ring.Stdout, ring.Stderr} {
		writers.Go(func() {
			for range 2000 {
				l.Write(s, make([]byte, 1024))
			}
		})
	}
	writers.Wait()
	l.Close()
	readers.Wait()
}

func TestStreamJSON(t *testing.T) {
	in := ring.Chunk{Sequence: 3, Stream: ring.Stderr, Data: []byte("hi")}
	text, err := json.Marshal(in)
	if want := `{"sequence":3,"stream":"stderr","data":"aGk="}`; err != nil || string(text) != want {
		t.Errorf("JSON is %s, %v, want %s", text, err, want)
	}
	var got ring.Chunk
	if err := json.Unmarshal(text, &got); err != nil || !cmp.Equal(in, got) {
		t.Errorf("JSON comes back as %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"stream":"stdin"}`), &got); !errors.Is(err, fault.Invalid) {
		t.Errorf("an unknown stream gives %v", err)
	}
	if _, err := json.Marshal(ring.Chunk{}); err == nil {
		t.Error("no stream was encoded")
	}
	if got := ring.Stream(9).String(); got != "unknown" {
		t.Errorf("stream 9 is %q", got)
	}
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"bytes":   func() { ring.New(3, 1) },
		"chunks":  func() { ring.New(4, 0) },
		"stream":  func() { ring.New(4, 1).Write(0, nil) },
		"total":   func() { ring.New(4, 1).Total(3) },
		"capture": func() { ring.NewCapture(1, 1).Write(7, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
