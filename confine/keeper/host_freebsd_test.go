//go:build host

package keeper_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/confine"
	"playground/confine/keeper"
	"playground/fault"
	"playground/internal/workertest"
	"playground/jail"
	"playground/racct"
	"playground/reaper/bsdproc"
)

const prefix = "pghosttest"

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

func newKeeper(t *testing.T, behaviour string) *keeper.Keeper {
	t.Helper()
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		t.Skip("set PLAYGROUND_HOST_TESTS=1 on a FreeBSD host that may be lost")
	}
	k, err := keeper.New(keeper.Options{
		Program: workertest.Program(t, behaviour), UIDBase: 910_000, Prefix: prefix,
		Seen: func(e keeper.Event) { t.Logf("%+v", e) },
		Lost: func(left []confine.Leftover, reason string) { t.Errorf("lost: %v, %s", left, reason) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
		noJails(t)
	})
	return k
}

// noJails fails if a worker's jail is alive.
func noJails(t *testing.T) {
	t.Helper()
	all, err := jail.Jails()
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		if _, ours := jail.WorkerMade(prefix, info.Name); ours && info.State == jail.Alive {
			t.Errorf("jail %s is left", info.Name)
		}
	}
}

// Item 38: every layer and every attempt of a worker, which then works.
func TestHostLife(t *testing.T) {
	k := newKeeper(t, workertest.Good)
	w, err := k.Start(t.Context(), "th_1", confine.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range w.Report.Layers {
		t.Logf("%-12s %v %s", l.Name, l.OK, l.Detail)
	}
	for _, a := range w.Attempts {
		if !a.Pass {
			t.Errorf("%+v", a)
		}
	}
	out := bufio.NewReader(w.Stdout)
	for i := range 1000 {
		fmt.Fprintf(w.Stdin, "line%d\n", i)
		if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != fmt.Sprintf("line%d", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	fmt.Fprintln(w.Stdin, "exit")
	<-w.Done()
	if exit := w.Exit(); exit.Status != 7 || !exit.Cleanup.Proven {
		t.Errorf("exit %+v", exit)
	}
	w.Stdin.Close()
	w.Stdout.Close()
	w.Doors.Close()
}

// What is not confined is refused, and leaves neither a process nor a jail. That holds for a child from before the worker entered its
// jail, too, which no removal of a jail ends.
func TestHostRefused(t *testing.T) {
	for _, behaviour := range []string{workertest.Lies, workertest.Dies, workertest.Floods, workertest.Forked, workertest.Chatty} {
		t.Run(behaviour, func(t *testing.T) {
			k := newKeeper(t, behaviour)
			before := workers(t)
			if _, err := k.Start(t.Context(), "th_1", confine.Bounds{}); !errors.Is(err, fault.Denied) {
				t.Errorf("got %v", err)
			}
			if left := workers(t); len(left) > len(before) {
				t.Errorf("left: %+v; before it: %+v", left, before)
			}
		})
	}
}

// workers lists the living processes of stand-ins.
func workers(t *testing.T) []bsdproc.Process {
	t.Helper()
	list, err := bsdproc.Processes()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(p bsdproc.Process) bool { return p.Command != "worker" || p.State == bsdproc.Zombie })
}

// Limits that somebody takes away, as "service rctl restart" does, come back while the worker lives.
func TestHostLimitsComeBack(t *testing.T) {
	k := newKeeper(t, workertest.Good)
	w, err := k.Start(t.Context(), "th_1", confine.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	info, err := bsdproc.Processes()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(info, func(p bsdproc.Process) bool { return p.Pid == w.PID })
	if at < 0 {
		t.Fatal("the worker is not among the processes")
	}
	_, name, err := bsdproc.JailOf(info[at].Jail)
	if err != nil {
		t.Fatal(err)
	}
	want, err := racct.RulesOf(name)
	if err != nil || len(want) == 0 {
		t.Fatalf("rules of %s: %v, %v", name, want, err)
	}
	all, err := racct.All(name)
	if err == nil {
		err = racct.Remove(all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		have, err := racct.RulesOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(racct.Missing(want, have)) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %v, want %v", name, have, want)
		}
	}
}

// A file that is open before the start is closed in a worker; an open folder does not keep it out of its jail.
func TestHostInherited(t *testing.T) {
	k := newKeeper(t, workertest.Leaks)
	w, err := k.Start(t.Context(), "th_1", confine.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	<-w.Done()
}

func TestHostMany(t *testing.T) {
	k := newKeeper(t, workertest.Good)
	var all sync.WaitGroup
	for i := range keeper.Limit {
		all.Go(func() {
			w, err := k.Start(t.Context(), fmt.Sprintf("th_%d", i), confine.Bounds{})
			if err != nil {
				t.Error(err)
				return
			}
			w.Kill()
			<-w.Done()
			if exit := w.Exit(); !exit.Cleanup.Proven {
				t.Errorf("exit %+v", exit)
			}
		})
	}
	all.Wait()
}

// What an earlier daemon left goes; what was made later stays.
func TestHostSweep(t *testing.T) {
	newKeeper(t, workertest.Good)
	name := jail.NewWorkerName(prefix)
	if _, err := jail.CreateWorker(name); err != nil {
		t.Fatal(err)
	}
	if removed, left, err := keeper.Sweep(prefix, time.Now().Add(-time.Hour), time.Minute); len(removed)+len(left) > 0 || err != nil {
		t.Errorf("removed %v, left %v, %v", removed, left, err)
	}
	removed, left, err := keeper.Sweep(prefix, time.Now().Add(time.Second), time.Minute)
	if len(removed) != 1 || removed[0] != name || len(left) > 0 || err != nil {
		t.Errorf("removed %v, left %v, %v", removed, left, err)
	}
}
