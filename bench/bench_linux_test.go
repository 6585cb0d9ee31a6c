package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFamily(t *testing.T) {
	cmd := command(t.Context(), "/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	deadline := time.Now().Add(5 * time.Second)
	for {
		all, err := family()
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 1 && all[0].name == "sleep" { // until exec(2) it has the test's name
			if p := all[0]; p.part <= 0 || p.resident < p.part || p.resident > 50 {
				t.Errorf("%+v", p)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("children: %+v, want a sleep", all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestKilobytes(t *testing.T) {
	text := []byte("Name:\tx\nVmRSS:\t    2000 kB\nPss: 7 kB\n")
	if got := kilobytes(text, "VmRSS:"); got != 2.048 {
		t.Errorf("got %v", got)
	}
	if got := kilobytes(text, "Rss:"); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestMachine(t *testing.T) {
	if kernel() == "" || loadAverage() == [3]float64{} && os.Getenv("CI") == "" {
		t.Errorf("kernel %q, load %v", kernel(), loadAverage())
	}
}

// An interrupted run of the real programs leaves no process and no file behind, wherever it is.
func TestInterrupt(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set: run `make test`, which builds the programs first")
	}
	for _, at := range []string{"memory, idle", "memory, 32 jobs", "commands, round 1 of 3"} {
		t.Run(at, func(t *testing.T) {
			state := stateName(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said := false
			_, err := Run(ctx, Options{Bin: bin, State: state, Rounds: 3, Time: time.Minute, Say: func(line string) {
				t.Log(line)
				if strings.HasPrefix(line, at) {
					said = true
					time.AfterFunc(500*time.Millisecond, cancel)
				}
			}})
			if !said || !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			if _, err := os.Lstat(state); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the state folder is still there: %v", err)
			}
			if all, err := family(); err != nil || len(all) > 0 {
				t.Errorf("still running: %+v, %v", all, err)
			}
		})
	}
}

// The ways to a worker are compared with real programs, and nothing of it stays.
func TestGateway(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set: run `make test`, which builds the programs first")
	}
	state := stateName(t)
	got, err := measureGateway(t.Context(), Options{Bin: bin, State: state, Rounds: 2, Time: 3 * time.Second, Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	ways := 2
	if len(got.Skipped) == 0 {
		ways = 3
	}
	if len(got.Rows) != 2*ways || got.StreamMemory < 0 {
		t.Errorf("%+v", got)
	}
	for _, row := range got.Rows {
		if row.Calls < 2 || row.P50 <= 0 || row.Way == wayDirect && (row.Added50 != 0 || row.ToNginx != nil) {
			t.Errorf("%+v", row)
		}
	}
	if _, err := os.Lstat(state + "-workers"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is still there: %v", err)
	}
	if all, err := family(); err != nil || len(all) > 0 {
		t.Errorf("still running: %+v, %v", all, err)
	}
}

// Records, verdicts and runs are measured with real programs, and nothing of it stays.
func TestWork(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set: run `make test`, which builds the programs first")
	}
	state := stateName(t)
	got, err := measureWork(t.Context(), Options{Bin: bin, State: state, Rounds: 2, Time: 2 * time.Second, Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Append) != 2*len(loads) || len(got.Verdicts) != 3 || len(got.Runs) != 4 || got.Capacity < 1 {
		t.Errorf("%+v", got)
	}
	for _, row := range slices.Concat(got.Append, got.Verdicts, got.Runs) {
		if row.Calls < 2 || row.P50 <= 0 || row.Rate <= 0 {
			t.Errorf("%+v", row)
		}
	}
	if w := got.Worker; w.Workers < 1 || w.Resident <= 0 || w.Part > w.Resident {
		t.Errorf("%+v", w)
	}
	if _, err := os.Lstat(state + "-work"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is still there: %v", err)
	}
	if all, err := family(); err != nil || len(all) > 0 {
		t.Errorf("still running: %+v, %v", all, err)
	}
}
