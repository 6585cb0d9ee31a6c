package ring_test

import (
	"strings"
	"sync"
	"testing"

	"playground/ring"
)

func TestCapture(t *testing.T) {
	tests := []struct {
		name           string
		head, tail     int
		writes         []string
		wantHead, last string
		truncated      bool
		full           bool
	}{
		{name: "empty", head: 4, tail: 4},
		{name: "head only", head: 4, tail: 4, writes: []string{"ab", "cd"}, wantHead: "abcd"},
		{name: "over into the tail", head: 4, tail: 4, writes: []string{"abc", "def"}, wantHead: "abcd", last: "ef"},
		{name: "all kept", head: 4, tail: 4, writes: []string{"abcdefgh"}, wantHead: "abcd", last: "efgh"},
		{name: "middle missing", head: 4, tail: 4, writes: []string{"abcdefgh", "i", "jk"}, wantHead: "abcd", last: "hijk", truncated: true},
		{name: "one big write", head: 2, tail: 3, writes: []string{"0123456789"}, wantHead: "01", last: "789", truncated: true},
		{name: "tail goes round", head: 0, tail: 3, writes: []string{"ab", "cd", "ef", "g"}, last: "efg", truncated: true},
		{name: "exactly full is not full", head: 4, writes: []string{"abcd", ""}, wantHead: "abcd"},
		{name: "full", head: 4, writes: []string{"abcd", "e", "f"}, wantHead: "abcd", truncated: true, full: true},
		{name: "nothing kept", writes: []string{"a"}, truncated: true, full: true},
		{name: "negative is zero", head: -1, tail: -1, writes: []string{"a"}, truncated: true, full: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := ring.NewCapture(tt.head, tt.tail)
			for _, w := range tt.writes {
				c.Write(ring.Stderr, []byte(w))
			}
			got := c.Stream(ring.Stderr)
			if string(got.Head) != tt.wantHead || string(got.Tail) != tt.last || got.Truncated() != tt.truncated {
				t.Errorf("got head %q, tail %q, truncated %v", got.Head, got.Tail, got.Truncated())
			}
			if total := int64(len(strings.Join(tt.writes, ""))); got.Total != total {
				t.Errorf("total is %d, want %d", got.Total, total)
			}
			if other := c.Stream(ring.Stdout); other.Total != 0 {
				t.Errorf("the other stream has %+v", other)
			}
			full := false
			select {
			case <-c.Full():
				full = true
			default:
			}
			if full != tt.full {
				t.Errorf("full is %v, want %v", full, tt.full)
			}
		})
	}
}

func TestCapturedIsACopy(t *testing.T) {
	c := ring.NewCapture(4, 2)
	c.Write(ring.Stdout, []byte("abcde"))
	got := c.Stream(ring.Stdout)
	_ = append(got.Head, 'X')
	c.Write(ring.Stdout, []byte("fgh"))
	if string(got.Head) != "abcd" || string(got.Tail) != "e" {
		t.Errorf("a later write changed what was captured to %q, %q", got.Head, got.Tail)
	}
	if now := c.Stream(ring.Stdout); string(now.Head) != "abcd" || string(now.Tail) != "gh" {
		t.Errorf("captured %q, %q", now.Head, now.Tail)
	}
}

func TestCaptureTwoWriters(t *testing.T) {
	c := ring.NewCapture(10, 0)
	var wg sync.WaitGroup
	for _, s := range []ring.Stream{ring.Stdout, ring.Stderr} {
		wg.Go(func() {
			for range 1000 {
				c.Write(s, []byte("x"))
			}
		})
	}
	<-c.Full()
	wg.Wait()
	for _, s := range []ring.Stream{ring.Stdout, ring.Stderr} {
		if got := c.Stream(s); got.Total != 1000 || string(got.Head) != "xxxxxxxxxx" {
			t.Errorf("%v has %+v", s, got)
		}
	}
}
