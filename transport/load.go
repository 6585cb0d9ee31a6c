package transport

import (
	"context"
	"sync"
	"time"
)

// What one tenant may hold of this process's memory, which all tenants share. Nobody can make a client send its body or
// take its answer, so without these bounds a tenant with many stalled connections could end the service for everybody.
const (
	requestsPerTenant = 1500     // POST requests at once: polls that wait for news are many and small
	smallBody         = 64 << 10 // a body up to this size counts as small
	smallPage         = 16 << 10 // a page of output up to this size counts as small
	largeRequests     = 8        // requests with a larger body, batches, larger pages, and reads of files, at once
	placeTime         = bodyTime // how long a request waits for a place among the large ones
)

// A load is what one tenant's requests hold now.
type load struct {
	ctx    context.Context // ends all waiting
	places chan struct{}   // one value for each large request

	mu       sync.Mutex // guards what follows, and what callers hold
	requests int        // being served
}

func newLoad(ctx context.Context) *load {
	return &load{ctx: ctx, places: make(chan struct{}, largeRequests)}
}

// begin counts a request, unless there are too many. Each success needs one end.
func (l *load) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests >= requestsPerTenant {
		return false
	}
	l.requests++
	return true
}

// end gives back what a request held. Its answer is written by then.
func (l *load) end(who *caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests--
	who.ended = true
	if who.large {
		who.large = false
		<-l.places
	}
}

// tryLarge takes a place if there is one now.
func (l *load) tryLarge(who *caller) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if who.large || who.ended {
		return who.large
	}
	select {
	case l.places <- struct{}{}:
		who.large = true
	default:
	}
	return who.large
}

// takeLarge waits for a place among the tenant's large requests. A request needs only one, however many files a batch reads.
func (l *load) takeLarge(ctx context.Context, who *caller) bool {
	l.mu.Lock()
	held := who.large
	l.mu.Unlock()
	if held {
		return true
	}
	timer := time.NewTimer(placeTime)
	defer timer.Stop()
	select {
	case l.places <- struct{}{}:
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	case <-l.ctx.Done():
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if who.large || who.ended { // another call of the same batch was sooner, or the client has left
		<-l.places
	}
	who.large = !who.ended
	return true
}
