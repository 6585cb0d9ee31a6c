package transport_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a call costs beside the command itself: the fake daemon answers at once.
func BenchmarkCall(b *testing.B) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		b.Run(version, func(b *testing.B) {
			w := newWorld(b, nil)
			c := w.connect("tok-alice", version, nil)
			for b.Loop() {
				if r, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: "job_poll", Arguments: m{"job_id": "none"}}); err != nil || !r.IsError {
					b.Fatal(err)
				}
			}
		})
	}
}
