package doors

import (
	"runtime"
	"strings"
	"testing"

	"playground/inference"
	"playground/record"
)

// A body of many tiny values takes far more memory decoded than sent. A worker must not be able to fill the daemon's with one request.
func TestBulk(t *testing.T) {
	fill := func(head, item, tail string) []byte {
		n := (maxMessages - len(head) - len(tail)) / (len(item) + 1)
		return []byte(head + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + tail)
	}
	for name, body := range map[string][]byte{
		"blocks":   fill(`{"messages":[{"role":"user","content":[`, `{}`, `]}],"max_tokens":1}`),
		"messages": fill(`{"messages":[`, `{}`, `],"max_tokens":1}`),
		"values":   fill(`{"messages":[{"role":"user","content":[{"type":"tool_use","input":[`, `0`, `]}]}],"max_tokens":1}`),
		"tools":    fill(`{"tools":[`, `{}`, `],"max_tokens":1}`),
		"nested":   fill(`{"messages":[`, strings.Repeat("[", 50)+strings.Repeat("]", 50), `],"max_tokens":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var r inference.Request
			err := decode(body, &r)
			runtime.ReadMemStats(&after)
			t.Logf("%d MiB, %v", (after.TotalAlloc-before.TotalAlloc)>>20, err != nil)
			if err == nil || after.TotalAlloc-before.TotalAlloc > 8*maxMessages {
				t.Errorf("%d MiB were allocated; the error is %v", (after.TotalAlloc-before.TotalAlloc)>>20, err)
			}
		})
	}
	var q record.Query
	if err := decode([]byte(`{"thread":"th_x","filter":{"body.text":"[{,{[,\",[{,"}}`), &q); err != nil {
		t.Errorf("an honest body: %v", err)
	}
}
