package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

// unproven is the result of a command whose clean-up was not proved.
func unproven(pids ...int) job.Result {
	res := job.Result{Outcome: job.TimedOut, Cleanup: job.Cleanup{Survivors: len(pids)}}
	for _, pid := range pids {
		res.Cleanup.Pids = append(res.Cleanup.Pids, job.Leftover{Pid: pid, Start: 7})
	}
	return res
}

// closed reports whether c is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// checkShut fails unless admission is closed for everybody, with one text that names nobody.
func checkShut(t *testing.T, m *job.Manager) {
	t.Helper()
	_, startErr := m.Start(command("carol", "x"))
	_, execErr := m.Exec(t.Context(), command("alice", "x"), 0, 0)
	for _, err := range []error{startErr, execErr} {
		if !errors.Is(err, fault.ProofLost) || strings.Contains(err.Error(), "alice") || !strings.Contains(fault.HintOf(err), "playground ack") {
			t.Errorf("with a lost proof a start gives %v, %q", err, fault.HintOf(err))
		}
	}
	if !closed(m.LostC()) {
		t.Error("LostC is open")
	}
}

// checkOpen fails unless starts are admitted.
func checkOpen(t *testing.T, m *job.Manager) {
	t.Helper()
	st, err := m.Start(command("carol", "open"))
	if err != nil {
		t.Fatalf("a start gives %v", err)
	}
	if _, err := m.Cancel("carol", st.JobID); err != nil {
		t.Error(err)
	}
	if closed(m.LostC()) || m.Lost() != nil {
		t.Errorf("LostC is closed or there is a record: %+v", m.Lost())
	}
}

// TestLostProof shows that a lost proof closes admission for everybody and over restarts, until the operator says go on.
func TestLostProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newScript(), &memory{}
		m := job.NewManager(s, job.DefaultLimits(), store)
		a, b := start(t, m, "alice", "deaf a"), start(t, m, "bob", "deaf b")
		synctest.Wait()
		news := m.LostC()
		if closed(news) {
			t.Fatal("LostC is closed before anything was lost")
		}
		s.get(t, "deaf a").print("partial")
		s.get(t, "deaf a").end <- unproven(11, 12)
		<-news
		synctest.Wait()
		checkShut(t, m)
		p := poll(t, m, "alice", a.JobID, 0)
		if text(p) != "partial" || p.Result == nil || p.Result.Cleanup.Proven || p.Result.Cleanup.Survivors != 2 {
			t.Errorf("page is %+v", p)
		}
		want := &job.Lost{
			Since: time.Now().Round(0), Tenant: "alice", JobID: a.JobID, Pids: []job.Leftover{{Pid: 11, Start: 7}, {Pid: 12, Start: 7}},
			Reason: "tenant alice, " + a.JobID + ": the clean-up was not proved",
		}
		if diff := cmp.Diff(want, m.Lost()); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
		// What runs goes on, and may be lost too.
		if p := poll(t, m, "bob", b.JobID, 0); p.State != job.Running {
			t.Errorf("the other tenant's job is %+v", p)
		}
		time.Sleep(time.Second)
		s.get(t, "deaf b").end <- unproven(13)
		synctest.Wait()
		want.Pids = append(want.Pids, job.Leftover{Pid: 13, Start: 7})
		want.Reason += "\ntenant bob, " + b.JobID + ": the clean-up was not proved"
		status := m.Status()
		if diff := cmp.Diff(want, status.Lost); diff != "" || status.Active != 0 || status.StoreError != "" {
			t.Errorf("status is %+v, lost (-want +got):\n%s", status, diff)
		}
		if err := m.DropTenant(t.Context(), "alice"); !errors.Is(err, fault.ProofLost) {
			t.Errorf("DropTenant gives %v", err)
		}
		poll(t, m, "alice", a.JobID, 0)

		again := job.NewManager(newScript(), job.DefaultLimits(), store)
		checkShut(t, again)
		if diff := cmp.Diff(want, again.Lost()); diff != "" {
			t.Errorf("after a restart lost differs (-want +got):\n%s", diff)
		}
		if err := again.Ack(); err != nil {
			t.Error(err)
		}
		checkOpen(t, again)
		checkOpen(t, job.NewManager(newScript(), job.DefaultLimits(), store))
		checkShut(t, m)
		for range 2 {
			if err := m.Ack(); err != nil {
				t.Error(err)
			}
		}
		checkOpen(t, m)
	})
}

func TestLostByExec(t *testing.T) {
	store := &memory{}
	m := job.NewManager(runnerFunc(func(_ context.Context, _ job.Spec, out job.Output) (job.Result, error) {
		out.Write(ring.Stderr, []byte("partial"))
		return unproven(11), nil
	}), job.DefaultLimits(), store)
	e, err := m.Exec(t.Context(), command("alice", "x"), 10, 0)
	if err != nil || e.Cleanup.Proven || string(e.Stderr.Head) != "partial" {
		t.Errorf("execution is %+v, %v", e, err)
	}
	if store.record == nil || store.record.JobID != "" || store.record.Unknown {
		t.Errorf("when Exec returns the record is %+v", store.record)
	}
	checkShut(t, m)
}

// TestLostByRefusal shows that a Runner's own word that its proof is lost counts.
func TestLostByRefusal(t *testing.T) {
	m := job.NewManager(runnerFunc(func(context.Context, job.Spec, job.Output) (job.Result, error) {
		return job.Result{}, fault.New(fault.ProofLost, "the supervisor did not answer")
	}), job.DefaultLimits(), &memory{})
	if _, err := m.Exec(t.Context(), command("alice", "x"), 0, 0); !errors.Is(err, fault.ProofLost) {
		t.Errorf("Exec gives %v", err)
	}
	if l := m.Lost(); l == nil || !l.Unknown {
		t.Errorf("lost is %+v", l)
	}
	checkShut(t, m)
}

func TestRunnerThatPanics(t *testing.T) {
	tests := []struct {
		name   string
		run    func()
		reason string
	}{
		{"panic", func() { panic("boom") }, "the runner panicked: boom\ngoroutine"},
		{"panic with nil", func() { panic(nil) }, "the runner panicked: panic called with nil"},
		{"exit of its goroutine", runtime.Goexit, "the runner ended without a result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := job.NewManager(runnerFunc(func(_ context.Context, _ job.Spec, out job.Output) (job.Result, error) {
					out.Write(ring.Stdout, []byte("partial"))
					tt.run()
					return exited(0), nil
				}), job.DefaultLimits(), &memory{})
				st := start(t, m, "alice", "x")
				p, err := m.Poll(t.Context(), "alice", st.JobID, 0, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				p = poll(t, m, "alice", st.JobID, p.NextCursor)
				if p.Result == nil || p.Result.Outcome != job.Failed || p.Result.Cleanup.Proven || p.Result.StdoutBytes != 7 ||
					strings.Contains(p.Result.Error, "boom") {
					t.Errorf("result is %+v", p.Result)
				}
				if s := m.Status(); s.Active != 0 || s.Lost == nil || !s.Lost.Unknown || !strings.Contains(s.Lost.Reason, tt.reason) {
					t.Errorf("status is %+v, lost %+v", s, s.Lost)
				}
				checkShut(t, m)
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
				// The same for a synchronous command; one that exits takes the caller's goroutine with it.
				done := make(chan struct{})
				go func() {
					defer close(done)
					e, err := m.Exec(t.Context(), command("alice", "x"), 10, 0)
					if err != nil || e.Outcome != job.Failed || string(e.Stdout.Head) != "partial" {
						t.Errorf("execution is %+v, %v", e, err)
					}
				}()
				<-done
				if s := m.Status(); s.Active != 0 {
					t.Errorf("status is %+v", s)
				}
				checkShut(t, m)
				shutdown(t, m)
			})
		})
	}
}

func TestLostStoreFails(t *testing.T) {
	full := errors.New("disk full")
	lose := runnerFunc(func(context.Context, job.Spec, job.Output) (job.Result, error) { return unproven(1), nil })

	store := &memory{saveErr: full}
	m := job.NewManager(lose, job.DefaultLimits(), store)
	if _, err := m.Exec(t.Context(), command("alice", "x"), 0, 0); err != nil {
		t.Error(err)
	}
	checkShut(t, m)
	if s := m.Status(); s.StoreError != "disk full" {
		t.Errorf("status is %+v", s)
	}
	if err := m.Ack(); !errors.Is(err, full) {
		t.Errorf("Ack gives %v", err)
	}
	checkShut(t, m)
	store.fail(nil)
	if err := m.Ack(); err != nil {
		t.Error(err)
	}
	if s := m.Status(); s.StoreError != "" || s.Lost != nil {
		t.Errorf("after Ack status is %+v", s)
	}

	m = job.NewManager(lose, job.DefaultLimits(), &memory{loadErr: errors.New("bad JSON")})
	checkShut(t, m)
	if l := m.Lost(); !l.Unknown || !strings.Contains(l.Reason, "bad JSON") {
		t.Errorf("with a store that cannot be read lost is %+v", l)
	}
	if err := m.Ack(); err != nil || m.Lost() != nil {
		t.Errorf("Ack gives %v", err)
	}
}

func TestProved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newScript(), &memory{}
		m := job.NewManager(s, job.DefaultLimits(), store)
		if err := m.Proved(nil); err != nil {
			t.Errorf("with nothing lost Proved gives %v", err)
		}
		start(t, m, "alice", "deaf a")
		start(t, m, "alice", "deaf b")
		synctest.Wait()
		s.get(t, "deaf a").end <- unproven(1)
		synctest.Wait()
		record := m.Lost()
		s.get(t, "deaf b").end <- unproven(2)
		synctest.Wait()
		for _, old := range []*job.Lost{nil, record} {
			if err := m.Proved(old); !errors.Is(err, fault.Busy) {
				t.Errorf("a proof of less than was lost gives %v", err)
			}
		}
		checkShut(t, m)
		// A record that went through a file is as good.
		data, err := json.Marshal(m.Lost())
		if err != nil {
			t.Fatal(err)
		}
		var stored job.Lost
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		if err := m.Proved(&stored); err != nil || store.record != nil {
			t.Errorf("Proved gives %v, the store has %+v", err, store.record)
		}
		checkOpen(t, m)
		shutdown(t, m)
	})
}
