package transport

import (
	"context"
	"testing"
)

func TestPlacesComeBack(t *testing.T) {
	e := &load{ctx: t.Context(), places: make(chan struct{}, 1)}
	for range requestsPerTenant {
		if !e.begin() {
			t.Fatal("refused below the limit")
		}
	}
	if e.begin() {
		t.Error("one request too many")
	}
	first, second := &caller{}, &caller{}
	for range 2 {
		if !e.takeLarge(t.Context(), first) {
			t.Fatal("the calls of one request need one place")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if e.takeLarge(gone, second) {
		t.Error("two places where there is one")
	}
	e.end(first)
	if len(e.places) != 0 || !e.begin() {
		t.Error("a place was not given back")
	}
	// A call of an older client goes on when its request is over; it must not keep a place that nobody gives back.
	if !e.takeLarge(t.Context(), first) || len(e.places) != 0 {
		t.Errorf("%d places are taken by nobody", len(e.places))
	}
	e.end(second)
}
