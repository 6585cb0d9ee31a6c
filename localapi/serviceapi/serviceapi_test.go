package serviceapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
	"playground/internal/socktest"
	"playground/job"
	"playground/localapi"
	"playground/localapi/serviceapi"
	"playground/ring"
)

func TestMain(m *testing.M) {
	// net/http lingers half a second on a connection whose request it refused, and Close does not wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fake records what arrives and answers with what it was given.
type fake struct {
	service job.Service
	page    job.Page
	result  job.Result
	list    []serviceapi.Service
	err     error
	got     []any
}

func (f *fake) StartService(spec job.ServiceSpec) (job.Service, error) {
	f.got = []any{"start", spec}
	return f.service, f.err
}

func (f *fake) PollService(_ context.Context, id string, cursor int64, wait time.Duration) (job.Page, error) {
	f.got = []any{"poll", id, cursor, wait}
	return f.page, f.err
}

func (f *fake) StopService(_ context.Context, id string) (job.Result, error) {
	f.got = []any{"stop", id}
	return f.result, f.err
}

func (f *fake) List() []serviceapi.Service {
	f.got = []any{"list"}
	return f.list
}

func serve(t *testing.T, f *fake, access localapi.Access) (*serviceapi.Client, *localapi.Client) {
	t.Helper()
	path := socktest.Serve(t, localapi.Handler(serviceapi.Routes(f, access), localapi.Options{}))
	client, raw := serviceapi.NewClient(path), localapi.NewClient(path)
	t.Cleanup(func() {
		client.Disconnect()
		raw.Close()
	})
	return client, raw
}

func everybody(localapi.Peer) error { return nil }

func TestCalls(t *testing.T) {
	code := 3
	f := &fake{
		service: job.Service{ID: "svc-1", Tenant: "alice", Name: "faculty", State: job.Running, Started: time.Unix(5, 0).UTC()},
		page:    job.Page{JobID: "svc-1", State: job.Running, Chunks: []ring.Chunk{{Stream: ring.Stderr, Data: []byte("\x00\xff")}}, NextCursor: 2},
		result:  job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Killed: 1, Proven: true}},
	}
	f.list = []serviceapi.Service{{Service: f.service, Pid: 7, Usage: map[string]int64{"maxproc": 2}}}
	c, _ := serve(t, f, everybody)
	ctx := t.Context()
	spec := job.ServiceSpec{Tenant: "alice", Name: "faculty", Argv: []string{"/p", "a b"}, Env: []string{"A=1"}}
	for _, test := range []struct {
		call func() (any, error)
		sent []any
		want any
	}{
		{func() (any, error) { return c.Start(ctx, spec) }, []any{"start", spec}, f.service},
		{func() (any, error) { return c.List(ctx) }, []any{"list"}, f.list},
		{func() (any, error) { return c.Poll(ctx, "svc-1", 4, time.Microsecond) }, []any{"poll", "svc-1", int64(4), time.Millisecond}, f.page},
		{func() (any, error) { return c.Stop(ctx, "svc-1") }, []any{"stop", "svc-1"}, f.result},
	} {
		got, err := test.call()
		if err != nil {
			t.Errorf("%v: %v", test.sent, err)
		}
		if diff := cmp.Diff(test.sent, f.got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v: (-want +got):\n%s", test.sent, diff)
		}
	}
	f.list = nil
	if got, err := c.List(ctx); err != nil || got == nil {
		t.Errorf("no services: %v, %v", got, err)
	}
	f.err = fault.New(fault.Exists, "it runs already")
	if _, err := c.Start(ctx, spec); !errors.Is(err, fault.Exists) {
		t.Errorf("a refusal: %v", err)
	}
}

// All routes are for operators: what they start is bound by no limit of the tenant.
func TestAccess(t *testing.T) {
	c, _ := serve(t, &fake{}, func(localapi.Peer) error { return fault.New(fault.Denied, "not you") })
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"start": func() error { _, err := c.Start(ctx, job.ServiceSpec{}); return err },
		"list":  func() error { _, err := c.List(ctx); return err },
		"poll":  func() error { _, err := c.Poll(ctx, "x", 0, 0); return err },
		"stop":  func() error { _, err := c.Stop(ctx, "x"); return err },
	} {
		if err := call(); !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, route := range serviceapi.Routes(&fake{}, nil) {
		if route.Access != nil {
			t.Errorf("%s %s has an access rule of its own", route.Method, route.Path)
		}
	}
}

func TestMalformed(t *testing.T) {
	_, raw := serve(t, &fake{}, everybody)
	for _, test := range []struct {
		path string
		in   any
	}{
		{"/v1/services", map[string]any{"tenant": "a", "uid": 0}},
		{"/v1/services", map[string]any{"argv": "x"}},
		{"/v1/services/x/poll", map[string]any{"wait_ms": -1}},
		{"/v1/services/x/poll", map[string]any{"wait_ms": int64(1) << 60}},
		{"/v1/services/x/stop", map[string]any{"signal": 9}},
	} {
		if err := raw.Do(t.Context(), "POST", test.path, test.in, nil); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s %v: %v", test.path, test.in, err)
		}
	}
}
