package catalogue

import (
	"context"
	"errors"
	"sync"

	"playground/fault"
	"playground/sandbox"
)

// Handles counts the session handles opened through one connection, so that they can be given back when it ends. It is
// for stdio, where the end of input is the end of the client; over HTTP a handle outlives any connection.
type Handles struct {
	provider *sandbox.Provider
	tenant   string

	mu   sync.Mutex // guards open
	open int
}

// NewHandles returns a count for tenant; give its Opened and Closed to Options.
func NewHandles(provider *sandbox.Provider, tenant string) *Handles {
	return &Handles{provider: provider, tenant: tenant}
}

// Opened counts one handle. It is an Options.OnOpen.
func (h *Handles) Opened(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open++
}

// Closed counts one handle less. It is an Options.OnClose. Closing a handle of another connection does not count below 0.
func (h *Handles) Closed(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = max(h.open-1, 0)
}

// Close gives all counted handles back. A session that runs a job keeps its last one: the job goes on, and the handle
// expires after it.
func (h *Handles) Close(ctx context.Context) error {
	h.mu.Lock()
	open := h.open
	h.open = 0
	h.mu.Unlock()
	for range open {
		_, err := h.provider.Close(ctx, h.tenant, h.provider.Session(h.tenant))
		switch {
		case errors.Is(err, fault.NotFound): // somebody else closed it
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
