package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"playground/fault"
	"playground/job"
)

func TestActiveLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.ActivePerTenant, limits.ActivePerHost = 2, 3
		s := newScript()
		m := job.NewManager(s, limits, &memory{})
		st := start(t, m, "alice", "a1")
		var wg sync.WaitGroup
		wg.Go(func() { // a synchronous command counts as well
			if _, err := m.Exec(t.Context(), command("alice", "a2"), 0, 0); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, err := m.Start(command("alice", "a3"))
		if !errors.Is(err, fault.Limit) || !strings.Contains(err.Error(), "2 commands are running") ||
			!strings.Contains(fault.HintOf(err), st.JobID) {
			t.Errorf("over the tenant's limit Start gives %v, %q", err, fault.HintOf(err))
		}
		if _, err := m.Exec(t.Context(), command("alice", "a3"), 0, 0); !errors.Is(err, fault.Limit) {
			t.Errorf("over the tenant's limit Exec gives %v", err)
		}
		start(t, m, "bob", "b1")
		_, err = m.Start(command("bob", "b2"))
		if !errors.Is(err, fault.Limit) || !strings.Contains(err.Error(), "the host runs 3 commands") ||
			strings.Contains(err.Error()+fault.HintOf(err), "job-") {
			t.Errorf("over the host's limit Start gives %v, %q", err, fault.HintOf(err))
		}
		s.get(t, "a2").end <- exited(0)
		wg.Wait()
		start(t, m, "bob", "b2")
		shutdown(t, m)
	})
}

func TestOnlySyncRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.ActivePerTenant = 1
		m := job.NewManager(newScript(), limits, &memory{})
		go func() { _, _ = m.Exec(t.Context(), command("alice", "a"), 0, 0) }()
		synctest.Wait()
		if _, err := m.Start(command("alice", "b")); fault.HintOf(err) != "wait for one to end" {
			t.Errorf("error is %v, %q", err, fault.HintOf(err))
		}
		shutdown(t, m)
	})
}

// runEnded starts a job and ends it at once.
func runEnded(t *testing.T, m *job.Manager, s *script, tenant, text string) string {
	t.Helper()
	st := start(t, m, tenant, text)
	synctest.Wait()
	s.get(t, text).print("goodbye")
	s.get(t, text).end <- exited(0)
	synctest.Wait()
	time.Sleep(time.Millisecond) // so that no two jobs end at the same time
	return st.JobID
}

func TestRetentionPerTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.RetainedPerTenant, limits.PageBytes = 3, 4
		s := newScript()
		m := job.NewManager(s, limits, &memory{})
		first := runEnded(t, m, s, "alice", "a1")
		second := runEnded(t, m, s, "alice", "a2")
		running := start(t, m, "alice", "a3")
		time.Sleep(time.Millisecond)
		_, err := m.Start(command("alice", "a4"))
		if !errors.Is(err, fault.Limit) || !strings.Contains(err.Error(), first+", "+second) ||
			strings.Contains(err.Error(), running.JobID) || !strings.Contains(fault.HintOf(err), "job_poll") {
			t.Fatalf("a start without a place gives %v, %q", err, fault.HintOf(err))
		}
		// A page that is not the last one does not count as seen to the end.
		if p := poll(t, m, "alice", second, 0); p.State != job.Terminal || p.Result != nil {
			t.Fatalf("page is %+v", p)
		}
		if _, err := m.Start(command("alice", "a4")); !errors.Is(err, fault.Limit) {
			t.Fatalf("a start while all jobs have unread output gives %v", err)
		}
		if p := poll(t, m, "alice", second, 4); text(p) != "bye" || p.Result == nil {
			t.Fatalf("page is %+v", p)
		}
		fourth := start(t, m, "alice", "a4")
		if _, err := m.Poll(t.Context(), "alice", second, 0, 0); !errors.Is(err, fault.NotFound) {
			t.Errorf("the job that was seen to its end is still there: %v", err)
		}
		if p := poll(t, m, "alice", first, 0); text(p) != "good" {
			t.Errorf("the job that was not seen has %+v", p)
		}
		if c := m.Counts("alice"); c != (job.Counts{Active: 2, Retained: 3}) {
			t.Errorf("the tenant has %+v", c)
		}
		// Synchronous commands need no handle.
		go func() { _, _ = m.Exec(t.Context(), command("alice", "sync"), 0, 0) }()
		synctest.Wait()
		if c := m.Counts("alice"); c != (job.Counts{Active: 3, Retained: 3}) {
			t.Errorf("the tenant has %+v", c)
		}
		time.Sleep(time.Millisecond)
		// With nothing but running jobs the text names those.
		poll(t, m, "alice", first, 7)
		start(t, m, "alice", "a5")
		_, err = m.Start(command("alice", "a6"))
		if !errors.Is(err, fault.Limit) || !strings.Contains(err.Error(), running.JobID+", "+fourth.JobID) ||
			!strings.Contains(fault.HintOf(err), "job_cancel") {
			t.Errorf("a start without a place gives %v, %q", err, fault.HintOf(err))
		}
		shutdown(t, m)
	})
}

func TestRetentionPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.RetainedPerHost = 2
		s := newScript()
		m := job.NewManager(s, limits, &memory{})
		a1 := runEnded(t, m, s, "alice", "a1")
		a2 := runEnded(t, m, s, "alice", "a2")
		_, err := m.Start(command("bob", "b1"))
		if !errors.Is(err, fault.Limit) || strings.Contains(err.Error()+fault.HintOf(err), "job-") ||
			strings.Contains(err.Error()+fault.HintOf(err), "alice") {
			t.Errorf("a host without a place gives %v, %q", err, fault.HintOf(err))
		}
		poll(t, m, "alice", a2, 7)
		poll(t, m, "alice", a1, 7)
		start(t, m, "bob", "b1")
		if _, err := m.Poll(t.Context(), "alice", a1, 0, 0); !errors.Is(err, fault.NotFound) {
			t.Errorf("the oldest job that was seen to its end is still there: %v", err)
		}
		poll(t, m, "alice", a2, 0)
		shutdown(t, m)
	})
}

func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		first := runEnded(t, m, s, "alice", "a1")
		running := start(t, m, "alice", "a2")
		time.Sleep(30 * time.Minute)
		second := runEnded(t, m, s, "bob", "b1")
		time.Sleep(30*time.Minute - 10*time.Millisecond)
		poll(t, m, "alice", first, 0)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if n := m.Handles(); n != 2 {
			t.Errorf("%d handles after the first expired, want 2", n)
		}
		if _, err := m.Poll(t.Context(), "alice", first, 0, 0); !errors.Is(err, fault.NotFound) {
			t.Errorf("an expired job gives %v", err)
		}
		poll(t, m, "bob", second, 0)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := m.Handles(); n != 1 {
			t.Errorf("%d handles after the second expired, want 1", n)
		}
		if p := poll(t, m, "alice", running.JobID, 0); p.State != job.Running {
			t.Errorf("a long job is %+v", p)
		}
		if status := m.Status(); len(status.PerTenant) != 1 || status.Retained != 1 {
			t.Errorf("status is %+v", status)
		}
		shutdown(t, m)
		time.Sleep(time.Hour)
		if s := m.Status(); s.Retained != 0 || len(s.PerTenant) != 0 {
			t.Errorf("long after Shutdown status is %+v", s)
		}
	})
}

func TestDropTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		old := runEnded(t, m, s, "alice", "a1")
		start(t, m, "alice", "deaf a2")
		bob := start(t, m, "bob", "b1")
		execEnd := make(chan job.Execution, 1)
		go func() {
			e, _ := m.Exec(t.Context(), command("alice", "a3"), 0, 0)
			execEnd <- e
		}()
		synctest.Wait()
		deaf := s.get(t, "deaf a2")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.DropTenant(ctx, "alice"); !errors.Is(err, fault.Busy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a job that does not end DropTenant gives %v", err)
		}
		if e := <-execEnd; e.Outcome != job.Cancelled {
			t.Errorf("the synchronous command ended with %+v", e)
		}
		poll(t, m, "alice", old, 0)

		dropped := make(chan error)
		go func() { dropped <- m.DropTenant(t.Context(), "alice") }()
		synctest.Wait()
		if _, err := m.Start(command("alice", "a4")); !errors.Is(err, fault.Busy) {
			t.Errorf("a start meanwhile gives %v", err)
		}
		deaf.end <- ended(deaf.ctx)
		if err := <-dropped; err != nil {
			t.Error(err)
		}
		if status := m.Status(); status.Retained != 1 || status.Active != 1 || len(status.PerTenant) != 1 {
			t.Errorf("status is %+v", status)
		}
		if _, err := m.Poll(t.Context(), "alice", old, 0, 0); !errors.Is(err, fault.NotFound) {
			t.Errorf("a dropped job gives %v", err)
		}
		if p := poll(t, m, "bob", bob.JobID, 0); p.State != job.Running {
			t.Errorf("the other tenant's job is %+v", p)
		}
		if err := m.DropTenant(t.Context(), "nobody"); err != nil {
			t.Error(err)
		}
		start(t, m, "alice", "a5")
		shutdown(t, m)
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		a := start(t, m, "alice", "a1")
		start(t, m, "bob", "deaf")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 command") {
			t.Errorf("with a job that does not end Shutdown gives %v", err)
		}
		if _, err := m.Start(command("alice", "a2")); !errors.Is(err, fault.Unavailable) {
			t.Errorf("a start meanwhile gives %v", err)
		}
		if !m.Status().Draining {
			t.Error("the status does not say draining")
		}
		r := s.get(t, "deaf")
		time.AfterFunc(time.Second, func() { r.end <- ended(r.ctx) })
		if err := m.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := m.Shutdown(ctx); err != nil { // all is over, so that the end of ctx is no matter
			t.Error(err)
		}
		if p := poll(t, m, "alice", a.JobID, 0); p.Result == nil || p.Result.Outcome != job.Cancelled {
			t.Errorf("after Shutdown the page is %+v", p)
		}
	})
}

func TestIDsAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.ActivePerTenant, limits.ActivePerHost, limits.RetainedPerTenant, limits.RetainedPerHost = 500, 500, 500, 500
		m := job.NewManager(newScript(), limits, &memory{})
		seen := make(map[string]bool)
		for i := range 500 { // all in the same millisecond
			seen[start(t, m, "alice", fmt.Sprint(i)).JobID] = true
		}
		if len(seen) != 500 {
			t.Errorf("500 jobs have %d ids", len(seen))
		}
		shutdown(t, m)
	})
}
