package job

import (
	"context"
	"time"

	"playground/fault"
	"playground/ring"
)

// A Page is one answer to a poll.
type Page struct {
	JobID        string       `json:"job_id"`
	State        State        `json:"state"`
	Chunks       []ring.Chunk `json:"chunks"`
	NextCursor   int64        `json:"next_cursor"`
	HasMore      bool         `json:"has_more"` // output from NextCursor on is there already
	Gap          bool         `json:"gap"`      // output between the cursor and the first chunk was dropped
	DroppedBytes int64        `json:"dropped_bytes"`
	// Result is set in the final page only: the job has ended and there is no output after NextCursor.
	Result *Result `json:"result,omitempty"`
}

// Poll returns a job's output from cursor on. If there is none, it waits up to wait for some or for the job's end. It has
// no effect but to mark a job whose final page was given out as one that may be evicted, so that a poll may be repeated.
func (m *Manager) Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (Page, error) {
	m.mu.Lock()
	r, err := m.findLocked(tenant, id)
	m.mu.Unlock()
	if err != nil {
		return Page{}, err
	}
	return m.poll(ctx, r, cursor, wait)
}

// poll returns what r has from cursor on, and waits for some.
func (m *Manager) poll(ctx context.Context, r *run, cursor int64, wait time.Duration) (Page, error) {
	if wait < 0 {
		return Page{}, fault.New(fault.Invalid, "wait %v is negative", wait)
	}
	page, err := m.page(r, cursor)
	if err != nil || wait == 0 || len(page.Chunks) > 0 || page.Gap || page.State == Terminal {
		return page, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, min(wait, m.limits.WaitMax))
	defer cancel()
	if err := r.log.Wait(waitCtx, cursor); err != nil && ctx.Err() != nil {
		return Page{}, context.Cause(ctx)
	}
	return m.page(r, cursor)
}

// page returns what r has from cursor on.
func (m *Manager) page(r *run, cursor int64) (Page, error) {
	// The state comes first: a job that has ended by then has a closed log, and the page is its last word. One that ends
	// between the two is still running in this page, and the next one is the final one.
	m.mu.Lock()
	state, result := r.state, r.result
	m.mu.Unlock()
	out, err := r.log.Read(cursor, m.limits.PageBytes)
	if err != nil {
		return Page{}, err
	}
	page := Page{
		JobID:        r.id,
		State:        state,
		Chunks:       out.Chunks,
		NextCursor:   out.Next,
		HasMore:      out.More,
		Gap:          out.Gap,
		DroppedBytes: out.Dropped,
	}
	if page.Chunks == nil {
		page.Chunks = []ring.Chunk{} // [] and not null in JSON
	}
	if state != Terminal || out.More {
		return page, nil
	}
	final := *result
	page.Result = &final
	m.mu.Lock()
	r.observed = true
	m.mu.Unlock()
	return page, nil
}
