package transport

import (
	"testing"
	"time"
)

func TestQuiet(t *testing.T) {
	var q quiet
	now := time.Unix(1_700_000_000, 0)
	written := 0
	for range 1000 {
		if _, ok := q.ask(now); ok {
			written++
		}
	}
	if written != perSecond {
		t.Errorf("%d lines in one second, want %d", written, perSecond)
	}
	if suppressed, ok := q.ask(now.Add(time.Second)); !ok || suppressed != 1000-perSecond {
		t.Errorf("a second later: %d suppressed, %v", suppressed, ok)
	}
	if suppressed, _ := q.ask(now.Add(time.Second)); suppressed != 0 {
		t.Errorf("%d told twice", suppressed)
	}
}
