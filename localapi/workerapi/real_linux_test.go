package workerapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"playground/confine/keeper"
	"playground/procfs"
)

// realWorker is the worker of the programs that were built, where there are such.
func realWorker(t testing.TB) func(*keeper.Options) {
	t.Helper()
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set")
	}
	return func(o *keeper.Options) { o.Program = filepath.Join(bin, "playground-worker") }
}

// TestRealWorker: the program itself passes, and how large it is when it waits.
func TestRealWorker(t *testing.T) {
	w := newWorld(t, "", realWorker(t))
	const n = 20
	took := make([]time.Duration, n)
	for i := range took {
		begun := time.Now()
		worker := w.start(t, fmt.Sprintf("th_%d", i))
		took[i] = time.Since(begun)
		if i == 0 {
			s, err := procfs.StatusOf(fmt.Sprint(worker.PID))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("resident: %s (own: %s); address space: %s; data: %s; threads: %s",
				s.Words("VmRSS"), s.Words("RssAnon"), s.Words("VmSize"), s.Words("VmData"), s.Words("Threads"))
		}
		worker.Kill()
		worker.Wait(t.Context())
	}
	slices.Sort(took)
	own := 0
	for i := range keeper.Limit {
		s, err := procfs.StatusOf(fmt.Sprint(w.start(t, fmt.Sprintf("th_all_%d", i)).PID))
		if err != nil {
			t.Fatal(err)
		}
		var kib int
		if _, err := fmt.Sscan(s.Words("RssAnon"), &kib); err != nil {
			t.Fatal(err)
		}
		own += kib
	}
	t.Logf("%d workers at once: %d MiB that are not shared", keeper.Limit, own>>10)
	t.Logf("from request to verified and ready, %d one after another: p50 %v, worst %v", n, took[n/2].Round(time.Millisecond), took[n-1].Round(time.Millisecond))
}
