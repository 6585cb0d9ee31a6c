package facultyapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/faculty"
	"playground/fault"
	"playground/internal/socktest"
	"playground/localapi"
	"playground/localapi/facultyapi"
)

func TestMain(m *testing.M) {
	// net/http lingers half a second on a connection whose request it refused, and Close does not wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var _ facultyapi.Workers = (*faculty.Manager)(nil)

// fake records what arrives and answers with what it was given.
type fake struct {
	listing faculty.Listing
	worker  faculty.Worker
	page    faculty.LogPage
	err     error
	got     []any
}

func (f *fake) List(context.Context) (faculty.Listing, error) {
	f.got = []any{"list"}
	return f.listing, f.err
}

func (f *fake) Start(_ context.Context, id string) (faculty.Worker, error) {
	f.got = []any{"start", id}
	return f.worker, f.err
}

func (f *fake) Stop(_ context.Context, id string) (faculty.Worker, error) {
	f.got = []any{"stop", id}
	return f.worker, f.err
}

func (f *fake) Restart(_ context.Context, id string) (faculty.Worker, error) {
	f.got = []any{"restart", id}
	return f.worker, f.err
}

func (f *fake) Log(id string, from int64) (faculty.LogPage, error) {
	f.got = []any{"log", id, from}
	return f.page, f.err
}

func (f *fake) Report(id string, health faculty.Health) error {
	f.got = []any{"report", id, health}
	return f.err
}

func serve(t *testing.T, f *fake, access facultyapi.Access) (*facultyapi.Client, *localapi.Client) {
	t.Helper()
	path := socktest.Serve(t, localapi.Handler(facultyapi.Routes(f, access), localapi.Options{}))
	client, raw := facultyapi.NewClient(path), localapi.NewClient(path)
	t.Cleanup(func() {
		client.Disconnect()
		raw.Close()
	})
	return client, raw
}

func everybody(localapi.Peer) error { return nil }

func nobody(localapi.Peer) error { return fault.New(fault.Denied, "not you") }

func TestCalls(t *testing.T) {
	f := &fake{
		worker:  faculty.Worker{ID: "alice.x", Tenant: "alice", Name: "x", Address: "127.0.0.1:1", State: faculty.Running, Run: "svc-1", Pid: 7},
		page:    faculty.LogPage{Data: []byte("\x00\xffx"), Next: 9, Gap: true},
		listing: faculty.Listing{Problem: "p"},
	}
	f.listing.Workers = []faculty.Worker{f.worker}
	c, _ := serve(t, f, facultyapi.Access{Callers: everybody, Operators: everybody})
	ctx := t.Context()
	health := faculty.Health{Run: "svc-1", OK: true, Tools: 2, Server: "s 1", TookMS: 5, At: time.Unix(1, 0).UTC()}
	for _, test := range []struct {
		call func() (any, error)
		sent []any
		want any
	}{
		{func() (any, error) { return c.List(ctx) }, []any{"list"}, f.listing},
		{func() (any, error) { return c.Start(ctx, "alice.x") }, []any{"start", "alice.x"}, f.worker},
		{func() (any, error) { return c.Stop(ctx, "alice.x") }, []any{"stop", "alice.x"}, f.worker},
		{func() (any, error) { return c.Restart(ctx, "a b") }, []any{"restart", "a b"}, f.worker},
		{func() (any, error) { return c.Log(ctx, "alice", -5) }, []any{"log", "alice", int64(-5)}, f.page},
		{func() (any, error) { return nil, c.Report(ctx, "alice", health) }, []any{"report", "alice", health}, nil},
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
	f.listing.Workers = nil
	if got, err := c.List(ctx); err != nil || got.Workers == nil {
		t.Errorf("no workers: %+v, %v", got, err)
	}
	f.err = fault.New(fault.NotFound, "there is no worker").WithHint("look")
	if _, err := c.Stop(ctx, "x"); !errors.Is(err, fault.NotFound) || fault.HintOf(err) != "look" {
		t.Errorf("a refusal: %v", err)
	}
}

// Who may only look may not change anything, and a table without a rule denies.
func TestAccess(t *testing.T) {
	f := &fake{}
	c, raw := serve(t, f, facultyapi.Access{Callers: everybody, Operators: nobody})
	ctx := t.Context()
	if _, err := c.List(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Report(ctx, "alice", faculty.Health{Run: "x"}); err != nil {
		t.Error(err)
	}
	for name, call := range map[string]func() error{
		"start":   func() error { _, err := c.Start(ctx, "alice"); return err },
		"stop":    func() error { _, err := c.Stop(ctx, "alice"); return err },
		"restart": func() error { _, err := c.Restart(ctx, "alice"); return err },
		"log":     func() error { _, err := c.Log(ctx, "alice", 0); return err },
	} {
		if err := call(); !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []struct{ method, path string }{{"GET", "/v1/workers/a/start"}, {"POST", "/v1/workers"}, {"DELETE", "/v1/workers/a"}} {
		if err := raw.Do(ctx, bad.method, bad.path, nil, nil); err == nil {
			t.Errorf("%s %s is answered", bad.method, bad.path)
		}
	}
	for _, route := range facultyapi.Routes(f, facultyapi.Access{}) {
		if route.Access != nil {
			t.Errorf("%s %s has an access rule of its own", route.Method, route.Path)
		}
	}
}

func TestMalformed(t *testing.T) {
	_, raw := serve(t, &fake{}, facultyapi.Access{Callers: everybody, Operators: everybody})
	for _, test := range []struct {
		method, path string
		in           any
	}{
		{http.MethodGet, "/v1/workers/a/log", nil},
		{http.MethodGet, "/v1/workers/a/log?from=x", nil},
		{http.MethodPost, "/v1/workers/a/start", map[string]any{"argv": "x"}},
		{http.MethodPost, "/v1/workers/a/health", map[string]any{"okay": true}},
		{http.MethodPost, "/v1/workers/a/health", nil},
	} {
		if err := raw.Do(t.Context(), test.method, test.path, test.in, nil); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s %s %v: %v", test.method, test.path, test.in, err)
		}
	}
}
