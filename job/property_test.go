package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

// A modelJob is what the model knows of one handle.
type modelJob struct {
	id, tenant, command string
	running, observed   bool
	ended               time.Time
	printed, cursor     int
}

// A modelHost says what a Manager must admit, in the most obvious way.
type modelHost struct {
	limits job.Limits
	jobs   []*modelJob
	next   int
}

func (h *modelHost) count(match func(*modelJob) bool) (n int) {
	for _, j := range h.jobs {
		if match(j) {
			n++
		}
	}
	return n
}

// expire forgets what is too old.
func (h *modelHost) expire() {
	h.jobs = slices.DeleteFunc(h.jobs, func(j *modelJob) bool {
		return !j.running && time.Since(j.ended) >= h.limits.TTL
	})
}

// admit reports whether a job of tenant must be admitted, and forgets the job that must make way for it.
func (h *modelHost) admit(tenant string) bool {
	h.expire()
	own := func(j *modelJob) bool { return j.tenant == tenant }
	if h.count(func(j *modelJob) bool { return own(j) && j.running }) >= h.limits.ActivePerTenant ||
		h.count(runningJob) >= h.limits.ActivePerHost {
		return false
	}
	victims := anyJob
	switch {
	case h.count(own) >= h.limits.RetainedPerTenant:
		victims = own
	case len(h.jobs) >= h.limits.RetainedPerHost:
	default:
		return true
	}
	var victim *modelJob
	for _, j := range h.jobs {
		if victims(j) && j.observed && (victim == nil || j.ended.Before(victim.ended)) {
			victim = j
		}
	}
	h.jobs = slices.DeleteFunc(h.jobs, func(j *modelJob) bool { return j == victim })
	return victim != nil
}

// TestAdmissionProperties compares a Manager with the model over any sequence of calls.
func TestAdmissionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := job.DefaultLimits()
		limits.ActivePerTenant = rapid.IntRange(1, 3).Draw(t, "activePerTenant")
		limits.ActivePerHost = rapid.IntRange(1, 5).Draw(t, "activePerHost")
		limits.RetainedPerTenant = rapid.IntRange(1, 4).Draw(t, "retainedPerTenant")
		limits.RetainedPerHost = rapid.IntRange(1, 7).Draw(t, "retainedPerHost")
		limits.PageBytes, limits.TTL = 8, time.Minute
		rapid.SyncTest(t, func(t *rapid.T) {
			s := newScript()
			m := job.NewManager(s, limits, &memory{})
			defer func() {
				if err := m.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			a := &admission{m, s, &modelHost{limits: limits}}
			t.Repeat(a.actions())
		})
	})
}

// An admission is the state machine of TestAdmissionProperties.
type admission struct {
	m *job.Manager
	s *script
	h *modelHost
}

func (a *admission) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"start": a.start, "print": a.print, "end": a.end, "cancel": a.cancel, "poll": a.poll, "drop": a.drop,
		"pass time": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			synctest.Wait()
		},
		"": a.check,
	}
}

func anyJob(*modelJob) bool       { return true }
func runningJob(j *modelJob) bool { return j.running }
func drawTenant(t *rapid.T) string {
	return rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "tenant")
}

// pick draws a job that matches.
func (a *admission) pick(t *rapid.T, match func(*modelJob) bool) *modelJob {
	a.h.expire()
	var jobs []*modelJob
	for _, j := range a.h.jobs {
		if match(j) {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		t.Skip("no such job")
	}
	return rapid.SampledFrom(jobs).Draw(t, "job")
}

// ended notes that j has ended. No two jobs end at the same time.
func (a *admission) ended(j *modelJob) {
	synctest.Wait()
	j.running, j.ended = false, time.Now()
	time.Sleep(time.Millisecond)
}

func (a *admission) start(t *rapid.T) {
	tenant := drawTenant(t)
	a.h.next++
	text := fmt.Sprint("command ", a.h.next)
	st, err := a.m.Start(command(tenant, text))
	if want := a.h.admit(tenant); want != (err == nil) || err != nil && !errors.Is(err, fault.Limit) {
		t.Fatalf("admitted is %v, want %v: %v", err == nil, want, err)
	}
	if err == nil {
		a.h.jobs = append(a.h.jobs, &modelJob{id: st.JobID, tenant: tenant, command: text, running: true})
	}
	synctest.Wait()
}

func (a *admission) print(t *rapid.T) {
	j := a.pick(t, runningJob)
	n := rapid.IntRange(0, 20).Draw(t, "n")
	a.s.mustGet(j.command).out.Write(ring.Stdout, make([]byte, n))
	j.printed += n
}

func (a *admission) end(t *rapid.T) {
	j := a.pick(t, runningJob)
	a.s.mustGet(j.command).end <- exited(0)
	a.ended(j)
}

func (a *admission) cancel(t *rapid.T) {
	j := a.pick(t, anyJob)
	if _, err := a.m.Cancel(j.tenant, j.id); err != nil {
		t.Fatal(err)
	}
	if j.running {
		a.ended(j)
	}
}

func (a *admission) poll(t *rapid.T) {
	j := a.pick(t, anyJob)
	p, err := a.m.Poll(context.Background(), j.tenant, j.id, int64(j.cursor), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := min(j.printed-j.cursor, a.h.limits.PageBytes)
	j.cursor += want
	final := !j.running && j.cursor == j.printed
	if len(text(p)) != want || int(p.NextCursor) != j.cursor || (p.Result != nil) != final ||
		p.HasMore != (j.cursor < j.printed) || (p.State == job.Terminal) == j.running {
		t.Fatalf("page is %+v, the model has %+v", p, j)
	}
	j.observed = j.observed || final
}

func (a *admission) drop(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "luck") > 0 {
		t.Skip("rarely")
	}
	tenant := drawTenant(t)
	if err := a.m.DropTenant(context.Background(), tenant); err != nil {
		t.Fatal(err)
	}
	a.h.jobs = slices.DeleteFunc(a.h.jobs, func(j *modelJob) bool { return j.tenant == tenant })
}

func (a *admission) check(t *rapid.T) {
	a.h.expire()
	status := a.m.Status()
	if status.Retained != len(a.h.jobs) || status.Active != a.h.count(runningJob) {
		t.Fatalf("status is %+v, the model has %d jobs, %d running", status, len(a.h.jobs), a.h.count(runningJob))
	}
	for tenant, c := range status.PerTenant {
		if n := a.h.count(func(j *modelJob) bool { return j.tenant == tenant }); c.Retained != n || c == (job.Counts{}) {
			t.Fatalf("tenant %s has %+v, the model %d handles", tenant, c, n)
		}
	}
}

// A gauge counts what runs and keeps the most it saw.
type gauge struct {
	mu       sync.Mutex
	now      map[string]int
	total    int
	overflow string
	limits   job.Limits
}

func (g *gauge) add(tenant string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[tenant] += n
	g.total += n
	if g.now[tenant] > g.limits.ActivePerTenant || g.total > g.limits.ActivePerHost {
		g.overflow = fmt.Sprintf("%d commands of %s, %d of all", g.now[tenant], tenant, g.total)
	}
}

// TestBoundsUnderConcurrency has many callers do anything at once. No bound is exceeded at any moment that the Runner or
// an onlooker can see, and afterwards nothing is left.
func TestBoundsUnderConcurrency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := job.DefaultLimits()
		limits.ActivePerTenant = rapid.IntRange(1, 3).Draw(t, "activePerTenant")
		limits.ActivePerHost = rapid.IntRange(1, 5).Draw(t, "activePerHost")
		limits.RetainedPerTenant = rapid.IntRange(1, 4).Draw(t, "retainedPerTenant")
		limits.RetainedPerHost = rapid.IntRange(1, 7).Draw(t, "retainedPerHost")
		limits.RingBytes, limits.RingChunks, limits.PageBytes = 64, 4, 16
		limits.TTL = time.Duration(rapid.IntRange(1, 2000).Draw(t, "ttl")) * time.Microsecond
		g := &gauge{now: make(map[string]int), limits: limits}
		m := job.NewManager(runnerFunc(func(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
			g.add(spec.Tenant, 1)
			defer g.add(spec.Tenant, -1)
			out.Write(ring.Stdout, spec.Command)
			select {
			case <-ctx.Done():
				return ended(ctx), nil
			case <-time.After(time.Duration(len(spec.Command)) * time.Microsecond):
				return exited(0), nil
			}
		}), limits, &memory{})

		var callers sync.WaitGroup
		for i := range rapid.IntRange(2, 8).Draw(t, "callers") {
			ops := rapid.SliceOfN(rapid.IntRange(0, 99), 5, 30).Draw(t, "ops")
			tenant := []string{"alice", "bob", "carol"}[i%3]
			callers.Go(func() {
				if err := caller(m, limits, tenant, ops); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if err := m.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if g.overflow != "" || g.total != 0 {
			t.Errorf("%s; %d are left", g.overflow, g.total)
		}
		for _, tenant := range []string{"alice", "bob", "carol"} {
			if err := m.DropTenant(context.Background(), tenant); err != nil {
				t.Error(err)
			}
		}
		if s := m.Status(); s.Active != 0 || s.Retained != 0 || len(s.PerTenant) != 0 {
			t.Errorf("at the end status is %+v", s)
		}
	})
}

// caller does ops as one tenant.
func caller(m *job.Manager, limits job.Limits, tenant string, ops []int) error {
	ctx := context.Background()
	var ids []string
	for _, op := range ops {
		var err error
		switch {
		case op < 30:
			var st job.Status
			if st, err = m.Start(command(tenant, fmt.Sprintf("%*d", 1+op*op, op))); err == nil {
				ids = append(ids, st.JobID)
			}
		case op < 50:
			execCtx, cancel := context.WithTimeout(ctx, time.Duration(op)*10*time.Microsecond)
			_, err = m.Exec(execCtx, command(tenant, fmt.Sprintf("%*d", 1+op*op, op)), op, op%2)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				err = nil // it was gone before the start
			}
		case op < 60 && len(ids) > 0:
			_, err = m.Cancel(tenant, ids[op%len(ids)])
		case op < 62:
			err = m.DropTenant(ctx, tenant)
		case len(ids) > 0:
			_, err = m.Poll(ctx, tenant, ids[op%len(ids)], 0, time.Duration(op)*10*time.Microsecond)
		}
		switch fault.KindOf(err) {
		case "", fault.Limit, fault.NotFound, fault.Busy:
		default:
			return fmt.Errorf("op %d: %w", op, err)
		}
		if err := checkStatus(m.Status(), limits); err != nil {
			return err
		}
	}
	return nil
}

// checkStatus returns an error if a bound is exceeded.
func checkStatus(s job.HostStatus, limits job.Limits) error {
	if s.Active > limits.ActivePerHost || s.Retained > limits.RetainedPerHost || s.Lost != nil {
		return fmt.Errorf("status is %+v", s)
	}
	for tenant, c := range s.PerTenant {
		if c.Active > limits.ActivePerTenant || c.Retained > limits.RetainedPerTenant {
			return fmt.Errorf("tenant %s has %+v", tenant, c)
		}
	}
	return nil
}
