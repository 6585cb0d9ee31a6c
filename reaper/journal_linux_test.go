package reaper_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/reaper"
)

// TestJournal: what an earlier process was ending is looked after, by pid and start.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	h := sandboxtest.New(t, func(_ *jail.Options, r *reaper.Options) { r.Journal = reaper.Journal(dir) })
	h.Tenant(t, "alice", "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Sh(t, "alice", "sleep 0.5")
	}()
	entries := func() int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for end := time.Now().Add(5 * time.Second); entries() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a running job is not in the journal")
		}
	}
	left, err := reaper.Journal(dir).Recover(0)
	if err != nil || len(left) != 1 || left[0].Pid == 0 || left[0].Start == 0 {
		t.Errorf("while it runs: %v, %v", left, err)
	}
	<-done
	if n := entries(); n != 0 {
		t.Errorf("%d entries after a proved end", n)
	}
	// Another process with the pid of one that ended is not it, and strange files are no processes.
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1-1", "nonsense"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := reaper.Journal(dir).Recover(0); err != nil || len(left) != 0 || entries() != 0 {
		t.Errorf("nothing is left: %v, %v", left, err)
	}
}
