package jail

import (
	"context"
	"time"
)

// sweepInterval is how often abandoned sessions are looked for.
const sweepInterval = 20 * time.Second

// Run ends abandoned sessions until ctx ends, and then every sandbox.
func (m *Manager) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.killAll()
			return nil
		case now := <-tick.C:
			m.sweep(ctx, now)
		}
	}
}

func (m *Manager) sweep(ctx context.Context, now time.Time) {
	for _, t := range m.all() {
		t.mu.Lock()
		if t.handles > 0 && now.Sub(t.used) >= m.opts.HandleTTL && (t.object == nil || t.detach(ctx) == nil) {
			t.handles = 0
			m.saveSession(t)
		}
		if t.handles == 0 {
			m.endSession(ctx, t)
		}
		t.mu.Unlock()
	}
}

func (m *Manager) killAll() {
	for _, t := range m.all() {
		t.mu.Lock()
		if t.object != nil {
			m.leave(t.object)
			t.object = nil
		}
		t.mu.Unlock()
	}
}
