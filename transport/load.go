package transport

import (
	"context"
	"time"
)

// What one tenant may hold of this process's memory, which all tenants share. Nobody can make a client send its body or
// take its answer, so without these bounds a tenant with many stalled connections could end the service for everybody.
const (
	requestsPerTenant = 1500     // POST requests at once: polls that wait for news are many and small
	smallBody         = 64 << 10 // a body up to this size counts as small
	largeRequests     = 8        // requests with a larger body, and reads of files, at once
	placeTime         = bodyTime // how long a request waits for a place among the large ones
)

// begin counts a POST request, unless there are too many. Each success needs one end.
func (e *endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.requests >= requestsPerTenant {
		return false
	}
	e.requests++
	return true
}

// end gives back what a request held. Its answer is written by then.
func (e *endpoint) end(who *caller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests--
	who.ended = true
	if who.large {
		who.large = false
		<-e.places
	}
}

// takeLarge waits for a place among the tenant's large requests. A request needs only one, however many files a batch reads.
func (e *endpoint) takeLarge(ctx context.Context, who *caller) bool {
	e.mu.Lock()
	held := who.large
	e.mu.Unlock()
	if held {
		return true
	}
	timer := time.NewTimer(placeTime)
	defer timer.Stop()
	select {
	case e.places <- struct{}{}:
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	case <-e.ctx.Done():
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if who.large || who.ended { // another call of the same batch was sooner, or the client has left
		<-e.places
	}
	who.large = !who.ended
	return true
}
