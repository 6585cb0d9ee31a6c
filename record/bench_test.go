package record

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkAppend measures durable appends of one small record, with and without audit files.
func BenchmarkAppend(b *testing.B) {
	for _, audited := range []bool{false, true} {
		for _, callers := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("audit=%v/callers=%d", audited, callers), func(b *testing.B) {
				o := Options{Key: testKey()}
				if audited {
					o.Audit = openAudit(b, filepath.Join(b.TempDir(), "audit"))
				}
				benchmarkAppend(b, newLog(b, o), callers)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, l *Log, callers int) {
	times := make([]time.Duration, b.N)
	var next atomic.Int64
	var running sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		running.Go(func() {
			thread := NewThread(fmt.Sprint(caller))
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				start := time.Now()
				if _, err := l.Append(b.Context(), note(thread, EngineDID, "a note of an ordinary length, as a run writes it")); err != nil {
					b.Error(err)
					return
				}
				times[i-1] = time.Since(start)
			}
		})
	}
	running.Wait()
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkCanonicalize(b *testing.B) {
	in := []byte(`{"kind":"core.work.tool_call.v1","tool":"bash","args":{"command":"ls -l","timeout_ms":45000},"turn_index":3,"call_id":"call_1","args_hash":"0f3a","note":"\u20ac and more"}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := Canonicalize(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify checks 2,000 records a round.
func BenchmarkVerify(b *testing.B) {
	l := newLog(b, Options{Key: testKey(), Audit: openAudit(b, filepath.Join(b.TempDir(), "audit"))})
	for range 20 {
		mustAppend(b, l, slices.Repeat([]Draft{note(NewThread("a"), EngineDID, "a note of an ordinary length")}, 100)...)
	}
	for b.Loop() {
		mustVerify(b, l)
	}
}

// BenchmarkQuery finds one record of a run among 2,000.
func BenchmarkQuery(b *testing.B) {
	l := newLog(b, Options{})
	for i := range 20 {
		drafts := make([]Draft, 100)
		for j := range drafts {
			drafts[j] = note(NewThread(fmt.Sprint(i)), alice, fmt.Sprint(j))
		}
		mustAppend(b, l, drafts...)
	}
	for b.Loop() {
		page, err := l.Query(b.Context(), Query{Thread: NewThread("7"), Filter: []byte(`{"body.text":"42"}`)})
		if err != nil || len(page.Data) != 1 {
			b.Fatal(len(page.Data), err)
		}
	}
}
