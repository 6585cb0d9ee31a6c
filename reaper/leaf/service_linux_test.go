package leaf_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"playground/job"
	"playground/reaper/leaf"
)

// A service is found by its id while it runs: the leaf, and the supervisor that is the parent of its program.
func TestServiceIsFound(t *testing.T) {
	b := newBench(t, "", 5*time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan job.Result, 1)
	out := &output{}
	spec := job.Spec{Tenant: "alice", Mode: job.Program, Service: "svc-1", Cwd: "/",
		Argv: [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte("echo $PPID; exec sleep 100")}}
	go func() {
		res, err := b.Run(ctx, spec, out)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	found, ok := b.Services()["svc-1"]
	for end := time.Now().Add(20 * time.Second); !ok || out.stdout() == ""; time.Sleep(time.Millisecond) {
		found, ok = b.Services()["svc-1"]
		if time.Now().After(end) {
			t.Fatal("no output")
		}
	}
	if want := strconv.Itoa(found.Supervisor) + "\n"; out.stdout() != want || found.JID <= 0 || !leaf.IsName("pg", found.Jail) {
		t.Errorf("found %+v; the program says %q", found, out.stdout())
	}
	if n := len(b.Services()); n != 1 {
		t.Errorf("%d services", n)
	}
	cancel(job.ErrCancelled)
	if res := <-ended; res.Outcome != job.Cancelled || !res.Cleanup.Proven {
		t.Errorf("end %+v", res)
	}
	if len(b.Services()) != 0 {
		t.Error("it is found after its end")
	}
}
