package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

// kept returns a manager whose services run until they are stopped, and say their program first.
func kept(t *testing.T, l job.Limits) *job.Manager {
	t.Helper()
	m := job.NewManager(runnerFunc(func(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
		if spec.Mode == job.Program {
			out.Write(ring.Stdout, fmt.Appendf(nil, "%s %s in %s\n", spec.Argv, spec.Env, spec.Cwd))
			if string(spec.Argv[0]) == "/bin/false" {
				return exited(1), nil
			}
			if string(spec.Argv[0]) == "/bin/lost" {
				return job.Result{Outcome: job.Failed}, nil
			}
		}
		<-ctx.Done()
		return ended(ctx), nil
	}), l, &store{})
	t.Cleanup(func() { m.Shutdown(context.Background()) })
	return m
}

// store keeps a lost proof in memory.
type store struct{ lost *job.Lost }

func (s *store) Load() (*job.Lost, error) { return s.lost, nil }
func (s *store) Save(l *job.Lost) error   { s.lost = l; return nil }

func startService(t *testing.T, m *job.Manager, tenant, name string, argv ...string) job.Service {
	t.Helper()
	s, err := m.StartService(job.ServiceSpec{Tenant: tenant, Name: name, Argv: argv, Env: []string{"A=1"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServiceLife(t *testing.T) {
	m := kept(t, job.DefaultLimits())
	s := startService(t, m, "alice", "notebook", "/bin/worker", "x")
	page, err := m.PollService(t.Context(), s.ID, 0, 10*time.Second)
	if err != nil || len(page.Chunks) != 1 || string(page.Chunks[0].Data) != "[/bin/worker x] [A=1] in /\n" || page.State != job.Running {
		t.Fatalf("%+v, %v", page, err)
	}
	if all := m.Services(); len(all) != 1 || all[0].ID != s.ID || all[0].State != job.Running || all[0].Started.IsZero() {
		t.Errorf("services %+v", all)
	}
	if _, err := m.StartService(job.ServiceSpec{Tenant: "alice", Name: "notebook", Argv: []string{"/bin/worker"}}); !errors.Is(err, fault.Exists) {
		t.Errorf("a second of the name: %v", err)
	}
	// A tenant's own calls do not reach it.
	if _, err := m.Cancel("alice", s.ID); !errors.Is(err, fault.NotFound) {
		t.Errorf("cancel as a job: %v", err)
	}
	if _, err := m.Poll(t.Context(), "alice", s.ID, 0, 0); !errors.Is(err, fault.NotFound) {
		t.Errorf("poll as a job: %v", err)
	}
	res, err := m.StopService(t.Context(), s.ID)
	if err != nil || res.Outcome != job.Cancelled || !res.Cleanup.Proven {
		t.Errorf("%+v, %v", res, err)
	}
	if again, err := m.StopService(t.Context(), s.ID); err != nil || again.Outcome != job.Cancelled {
		t.Errorf("again: %+v, %v", again, err)
	}
	page, err = m.PollService(t.Context(), s.ID, page.NextCursor, 0)
	if err != nil || page.Result == nil || page.Result.Outcome != job.Cancelled {
		t.Errorf("last page: %+v, %v", page, err)
	}
	// A new one of the name takes the ended one's place.
	next := startService(t, m, "alice", "notebook", "/bin/worker")
	if all := m.Services(); len(all) != 1 || all[0].ID != next.ID {
		t.Errorf("services %+v", all)
	}
	if _, err := m.StopService(t.Context(), s.ID); !errors.Is(err, fault.NotFound) {
		t.Errorf("a forgotten one: %v", err)
	}
}

// Services take no place of a tenant's commands, and have their own bounds.
func TestServicesAndLimits(t *testing.T) {
	l := job.DefaultLimits()
	l.ActivePerTenant, l.ActivePerHost = 1, 1
	m := kept(t, l)
	for i := range job.ServicesPerTenant {
		startService(t, m, "alice", fmt.Sprintf("s%d", i), "/bin/worker")
	}
	if _, err := m.StartService(job.ServiceSpec{Tenant: "alice", Name: "more", Argv: []string{"/bin/worker"}}); !errors.Is(err, fault.Limit) {
		t.Errorf("over the tenant's bound: %v", err)
	}
	status, err := m.Start(job.Spec{Tenant: "alice", Command: []byte("x")})
	if err != nil {
		t.Fatalf("a command beside services: %v", err)
	}
	if s := m.Status(); s.Active != 1 || s.Services != job.ServicesPerTenant || s.PerTenant["alice"] != (job.Counts{Active: 1, Retained: 1, Services: job.ServicesPerTenant}) {
		t.Errorf("status %+v", s)
	}
	for n := job.ServicesPerTenant; n < job.ServicesPerHost; n++ {
		startService(t, m, fmt.Sprintf("t%d", n/job.ServicesPerTenant), fmt.Sprintf("s%d", n), "/bin/worker")
	}
	if _, err := m.StartService(job.ServiceSpec{Tenant: "zoe", Name: "more", Argv: []string{"/bin/worker"}}); !errors.Is(err, fault.Limit) {
		t.Errorf("over the host's bound: %v", err)
	}
	if _, err := m.Cancel("alice", status.JobID); err != nil {
		t.Error(err)
	}
}

// Ended services do not pile up.
func TestEndedServicesAreForgotten(t *testing.T) {
	m := kept(t, job.DefaultLimits())
	for i := range 2 * job.ServicesPerHost {
		s := startService(t, m, "alice", fmt.Sprintf("s%d", i), "/bin/false")
		if _, err := m.StopService(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.Services()); n > job.ServicesPerHost+1 {
		t.Errorf("%d are kept", n)
	}
	if err := m.DropTenant(t.Context(), "alice"); err != nil || len(m.Services()) != 0 {
		t.Errorf("after the tenant was dropped: %v, %v", m.Services(), err)
	}
}

// DropTenant and Shutdown end services as they end commands.
func TestServicesEndWithTenantAndHost(t *testing.T) {
	m := kept(t, job.DefaultLimits())
	startService(t, m, "alice", "a", "/bin/worker")
	b := startService(t, m, "bob", "b", "/bin/worker")
	if err := m.DropTenant(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if all := m.Services(); len(all) != 1 || all[0].ID != b.ID || all[0].State != job.Running {
		t.Errorf("services %+v", all)
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := m.Services(); all[0].State != job.Terminal {
		t.Errorf("after the shutdown: %+v", all)
	}
	if _, err := m.StartService(job.ServiceSpec{Tenant: "bob", Name: "c", Argv: []string{"/bin/worker"}}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a start after it: %v", err)
	}
}

// A service whose end is not proved closes admission for everybody, and a lost proof keeps services from starting.
func TestServiceLosesProof(t *testing.T) {
	m := kept(t, job.DefaultLimits())
	s := startService(t, m, "alice", "a", "/bin/lost")
	<-m.LostC()
	if lost := m.Lost(); lost.Tenant != "alice" || lost.JobID != s.ID {
		t.Errorf("record %+v", lost)
	}
	if _, err := m.StartService(job.ServiceSpec{Tenant: "bob", Name: "b", Argv: []string{"/bin/worker"}}); !errors.Is(err, fault.ProofLost) {
		t.Errorf("a service: %v", err)
	}
	if _, err := m.Start(job.Spec{Tenant: "bob", Command: []byte("x")}); !errors.Is(err, fault.ProofLost) {
		t.Errorf("a job: %v", err)
	}
}

func TestServiceSpecs(t *testing.T) {
	m := kept(t, job.DefaultLimits())
	good := job.ServiceSpec{Tenant: "alice", Name: "a", Argv: []string{"/bin/worker"}}
	for name, change := range map[string]func(*job.ServiceSpec){
		"no tenant":    func(s *job.ServiceSpec) { s.Tenant = "" },
		"no name":      func(s *job.ServiceSpec) { s.Name = "" },
		"path as name": func(s *job.ServiceSpec) { s.Name = "../x" },
		"no program":   func(s *job.ServiceSpec) { s.Argv = nil },
		"relative":     func(s *job.ServiceSpec) { s.Argv = []string{"worker"} },
		"NUL":          func(s *job.ServiceSpec) { s.Argv = []string{"/bin/worker", "a\x00b"} },
		"NUL in env":   func(s *job.ServiceSpec) { s.Env = []string{"A=\x00"} },
		"bare env":     func(s *job.ServiceSpec) { s.Env = []string{"A"} },
		"nameless env": func(s *job.ServiceSpec) { s.Env = []string{"=A"} },
		"too much":     func(s *job.ServiceSpec) { s.Env = []string{"A=" + strings.Repeat("x", 64<<10)} },
		"too many": func(s *job.ServiceSpec) {
			s.Argv = append(make([]string, 0), append([]string{"/bin/w"}, make([]string, 2000)...)...)
		},
		"newline in nm": func(s *job.ServiceSpec) { s.Name = "a\n" },
	} {
		spec := good
		change(&spec)
		if _, err := m.StartService(spec); !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, mode := range []job.Mode{job.Program, "x"} {
		if _, err := m.Start(job.Spec{Tenant: "alice", Mode: mode, Command: []byte("x")}); !errors.Is(err, fault.Invalid) {
			t.Errorf("a job of mode %s: %v", mode, err)
		}
	}
}

// A service that nobody polls is ended: whoever wanted it is gone. Polling keeps it.
func TestServiceLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := kept(t, job.DefaultLimits())
		s := startService(t, m, "alice", "a", "/bin/worker")
		cursor := int64(0)
		for range 100 {
			page, err := m.PollService(t.Context(), s.ID, cursor, 20*time.Second)
			if err != nil || page.State != job.Running {
				t.Fatalf("%+v, %v", page, err)
			}
			cursor = page.NextCursor
		}
		time.Sleep(job.ServiceLease - time.Second)
		if all := m.Services(); all[0].State != job.Running {
			t.Errorf("before its time: %+v", all)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if all := m.Services(); all[0].State != job.Terminal || all[0].Result.Outcome != job.Cancelled || !all[0].Result.Cleanup.Proven {
			t.Errorf("after it: %+v", all)
		}
		if page, err := m.PollService(t.Context(), s.ID, cursor, 0); err != nil || page.Result == nil {
			t.Errorf("its end: %+v, %v", page, err)
		}
		m.Shutdown(t.Context())
	})
}
