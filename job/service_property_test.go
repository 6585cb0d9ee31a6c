package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"playground/fault"
	"playground/job"
)

// TestServiceProperties: in whatever order services are started, end, are stopped and lose their tenant, the manager's counts are
// those of a plain model, its bounds hold, a name runs once, and commands have all their places.
func TestServiceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ends sync.Map                       // channels by the program's word
		endOf := make(map[string]chan struct{}) // the same by id
		l := job.DefaultLimits()
		m := job.NewManager(runnerFunc(func(ctx context.Context, spec job.Spec, _ job.Output) (job.Result, error) {
			if spec.Mode != job.Program {
				return exited(0), nil
			}
			end, _ := ends.Load(string(spec.Argv[1]))
			select {
			case <-ctx.Done():
				return ended(ctx), nil
			case <-end.(chan struct{}):
				return exited(1), nil
			}
		}), l, &store{})
		defer m.Shutdown(context.Background())
		live := make(map[string]map[string]string) // ids by tenant and name
		tenants := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"}
		count := func() (n int) {
			for _, names := range live {
				n += len(names)
			}
			return n
		}
		next := 0
		pick := func(t *rapid.T) (tenant, name, id string) {
			tenant = rapid.SampledFrom(tenants).Draw(t, "tenant")
			name = fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "name"))
			return tenant, name, live[tenant][name]
		}
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				tenant, name, id := pick(t)
				next++
				key := fmt.Sprint(next)
				end := make(chan struct{})
				ends.Store(key, end)
				s, err := m.StartService(job.ServiceSpec{Tenant: tenant, Name: name, Argv: []string{"/p", key}})
				switch {
				case id != "":
					if !errors.Is(err, fault.Exists) {
						t.Fatalf("a second %s of %s: %v", name, tenant, err)
					}
				case len(live[tenant]) == job.ServicesPerTenant || count() == job.ServicesPerHost:
					if !errors.Is(err, fault.Limit) {
						t.Fatalf("over a bound: %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					if live[tenant] == nil {
						live[tenant] = make(map[string]string)
					}
					live[tenant][name], endOf[s.ID] = s.ID, end
				}
			},
			"stop": func(t *rapid.T) {
				tenant, name, id := pick(t)
				if id == "" {
					t.Skip()
				}
				res, err := m.StopService(context.Background(), id)
				if err != nil || res.Outcome != job.Cancelled {
					t.Fatalf("%+v, %v", res, err)
				}
				delete(live[tenant], name)
			},
			"exit": func(t *rapid.T) {
				tenant, name, id := pick(t)
				if id == "" {
					t.Skip()
				}
				close(endOf[id])
				for page := (job.Page{}); page.Result == nil; {
					var err error
					if page, err = m.PollService(context.Background(), id, page.NextCursor, time.Second); err != nil {
						t.Fatal(err)
					}
				}
				delete(live[tenant], name)
			},
			"drop": func(t *rapid.T) {
				tenant, _, _ := pick(t)
				if err := m.DropTenant(context.Background(), tenant); err != nil {
					t.Fatal(err)
				}
				delete(live, tenant)
			},
			"command": func(t *rapid.T) {
				tenant, _, _ := pick(t)
				if _, err := m.Exec(context.Background(), job.Spec{Tenant: tenant, Command: []byte("x")}, 1, 1); err != nil {
					t.Fatalf("a command beside services: %v", err)
				}
			},
			"": func(t *rapid.T) {
				status, running := m.Status(), 0
				for _, s := range m.Services() {
					if s.State != job.Terminal {
						running++
						if live[s.Tenant][s.Name] != s.ID {
							t.Fatalf("%+v runs, the model has %v", s, live)
						}
					}
				}
				if status.Services != count() || running != count() || status.Active != 0 {
					t.Fatalf("status %+v, %d listed, want %d", status, running, count())
				}
				for tenant, names := range live {
					if status.PerTenant[tenant].Services != len(names) {
						t.Fatalf("%s has %+v, want %d", tenant, status.PerTenant[tenant], len(names))
					}
				}
				if n := len(m.Services()); n > 2*job.ServicesPerHost {
					t.Fatalf("%d are kept", n)
				}
			},
		})
	})
}
