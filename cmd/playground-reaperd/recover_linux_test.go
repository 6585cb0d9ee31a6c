package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"playground/job"
	"playground/procfs"
	"playground/reaper"
)

// TestRecoverJournal: a process that an earlier daemon was ending goes on record while it lives, and starts are refused for it;
// one that has ended leaves nothing.
func TestRecoverJournal(t *testing.T) {
	dir := journal(t.TempDir())
	lost := reaper.LostFile(filepath.Join(t.TempDir(), "lost-proof.json"))
	if err := recoverJournal(dir, 0, lost, zerolog.Nop()); err != nil { // the first start of all
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, ok := procfs.StartTime(cmd.Process.Pid)
	if !ok {
		t.Fatal("no start time")
	}
	entry := filepath.Join(string(dir), fmt.Sprintf("%d-%d", cmd.Process.Pid, start))
	write := func() {
		t.Helper()
		if err := os.WriteFile(entry, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := recoverJournal(dir, 10*time.Millisecond, lost, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	record, err := lost.Load()
	if err != nil || record == nil || len(record.Pids) != 1 || record.Pids[0].Pid != cmd.Process.Pid || record.Pids[0].Start != start {
		t.Fatalf("record %+v, %v", record, err)
	}
	if err := lost.Save(nil); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	write()
	if err := recoverJournal(dir, 0, lost, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	if record, err := lost.Load(); record != nil || err != nil {
		t.Errorf("of a process that has ended: %+v, %v", record, err)
	}
	if _, err := os.Stat(entry); err == nil {
		t.Error("its entry stays")
	}
}

// A jail that was left is told by its number, and never as a process.
func TestNamed(t *testing.T) {
	var text bytes.Buffer
	log := zerolog.New(&text)
	named(log.Error(), []job.Leftover{{Pid: -1}, {Pid: 4711, Start: 9}}).Msg(eventProofLost)
	if want := `{"level":"error","jails":[1],"pids":[{"pid":4711,"start":9}],"message":"proof_lost"}`; strings.TrimSpace(text.String()) != want {
		t.Errorf("got %s, want %s", &text, want)
	}
}

// What is left is found at every start, and is no more for that.
func TestAddOnce(t *testing.T) {
	var record job.Lost
	for range 2 {
		add(&record, []job.Leftover{{Pid: -1}, {Pid: 4711, Start: 9}})
	}
	add(&record, []job.Leftover{{Pid: 4711, Start: 10}})
	if want := []job.Leftover{{Pid: -1}, {Pid: 4711, Start: 9}, {Pid: 4711, Start: 10}}; !slices.Equal(record.Pids, want) {
		t.Errorf("got %v, want %v", record.Pids, want)
	}
}
