package jailapi_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
	"playground/internal/socktest"
	"playground/jail"
	"playground/localapi"
	"playground/localapi/jailapi"
	"playground/racct"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake records what arrives and answers with what it was given.
type fake struct {
	sandbox    jail.Sandbox
	attachment jail.Attachment
	template   jail.Template
	file       *os.File
	err        error
	got        []any
}

func (f *fake) see(args ...any) { f.got = args }

func (f *fake) Provision(_ context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error) {
	f.see("provision", spec)
	return f.sandbox, f.err
}

func (f *fake) List(context.Context) ([]jail.Sandbox, error) {
	f.see("list")
	if f.sandbox.Tenant == "" {
		return nil, f.err
	}
	return []jail.Sandbox{f.sandbox}, f.err
}

func (f *fake) Get(_ context.Context, tenant string) (jail.Sandbox, error) {
	f.see("get", tenant)
	return f.sandbox, f.err
}

func (f *fake) Destroy(_ context.Context, tenant string) error {
	f.see("destroy", tenant)
	return f.err
}

func (f *fake) Open(_ context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error) {
	f.see("open", tenant, options)
	return f.sandbox, f.err
}

func (f *fake) Close(_ context.Context, tenant string) (jail.Sandbox, error) {
	f.see("close", tenant)
	return f.sandbox, f.err
}

func (f *fake) Attachment(_ context.Context, tenant string) (jail.Attachment, error) {
	f.see("attachment", tenant)
	return f.attachment, f.err
}

func (f *fake) Connect(_ context.Context, tenant string) (*os.File, error) {
	f.see("connect", tenant)
	return f.file, f.err
}

func (f *fake) Dial(_ context.Context, tenant, address string) (*os.File, error) {
	f.see("dial", tenant, address)
	return f.file, f.err
}

// templates are the fake's other half, whose methods have the same names.
type templates struct{ *fake }

func (f templates) Create(_ context.Context, name, source string) (jail.Template, error) {
	f.see("create template", name, source)
	return f.template, f.err
}

func (f templates) List(context.Context) ([]jail.Template, error) {
	f.see("templates")
	if f.template.Name == "" {
		return nil, f.err
	}
	return []jail.Template{f.template}, f.err
}

func (f templates) Destroy(_ context.Context, name string) error {
	f.see("destroy template", name)
	return f.err
}

func serve(t *testing.T, f *fake, access jailapi.Access) *jailapi.Client {
	t.Helper()
	client := jailapi.NewClient(socktest.Serve(t, localapi.Handler(jailapi.Routes(f, templates{f}, access), localapi.Options{})))
	t.Cleanup(client.Disconnect)
	return client
}

func all() jailapi.Access {
	me := localapi.Uids(uint32(os.Geteuid()))
	return jailapi.Access{Callers: me, Runners: me, Operators: me}
}

var sample = jail.Sandbox{
	Tenant: "ann", ID: "01J", Name: "pg-ann", Persona: "ann assistant", Network: jail.NetworkNone, Isolation: jail.IsolationNamespaces,
	AppendOnly: jail.AppendOnly{Enforced: true, Reason: "sappnd"}, Created: time.Unix(1700000000, 5).UTC(), Attached: true, Handles: 2,
}

var base = jail.Template{Name: "base", Storage: jail.StorageDir, Source: "/b.txz", Release: "14.3-RELEASE",
	Created: time.Unix(1700000000, 0).UTC(), UsedBy: []string{"ann"}}

func TestEveryCallArrivesAndReturns(t *testing.T) {
	f := &fake{sandbox: sample, attachment: jail.Attachment{Sandbox: sample, Generation: 1 << 63, Env: []string{"A=b\x00<"}, Cwd: "/home/ann",
		Limits: racct.Limits{Processes: 256}}, template: base}
	c, ctx := serve(t, f, all()), context.Background()
	spec := jail.ProvisionSpec{Tenant: "ann", Persona: "p", Network: jail.NetworkHost}
	options := jail.OpenOptions{Cwd: "/tmp", Env: map[string]string{"K": "v"}}
	cleared := jail.OpenOptions{Env: map[string]string{}} // which is not the same as none: it clears what was there
	none := func(err error) (any, error) { return nil, err }
	tests := []struct {
		call func() (any, error)
		got  []any
		want any
	}{
		{func() (any, error) { return c.Provision(ctx, spec) }, []any{"provision", spec}, sample},
		{func() (any, error) { return c.List(ctx) }, []any{"list"}, []jail.Sandbox{sample}},
		{func() (any, error) { return c.Get(ctx, "ann") }, []any{"get", "ann"}, sample},
		{func() (any, error) { return c.Get(ctx, "a/../b") }, []any{"get", "a/../b"}, nil},
		{func() (any, error) { return none(c.Destroy(ctx, "ann")) }, []any{"destroy", "ann"}, nil},
		{func() (any, error) { return c.Open(ctx, "ann", options) }, []any{"open", "ann", options}, sample},
		{func() (any, error) { return c.Open(ctx, "ann", cleared) }, []any{"open", "ann", cleared}, sample},
		{func() (any, error) { return c.Open(ctx, "ann", jail.OpenOptions{}) }, []any{"open", "ann", jail.OpenOptions{}}, sample},
		{func() (any, error) { return c.Close(ctx, "ann") }, []any{"close", "ann"}, sample},
		{func() (any, error) { return c.Attachment(ctx, "ann") }, []any{"attachment", "ann"}, f.attachment},
		{func() (any, error) { return c.CreateTemplate(ctx, "base", "/b.txz") }, []any{"create template", "base", "/b.txz"}, base},
		{func() (any, error) { return c.Templates(ctx) }, []any{"templates"}, []jail.Template{base}},
		{func() (any, error) { return none(c.DestroyTemplate(ctx, "base")) }, []any{"destroy template", "base"}, nil},
	}
	for _, tt := range tests {
		f.got, f.err = nil, nil
		out, err := tt.call()
		if tt.want == nil && tt.got[0] == "get" { // an escaped slash: it must reach nothing, or exactly that name
			if f.got != nil && !cmp.Equal(tt.got, f.got) || f.got == nil && !errors.Is(err, fault.NotFound) {
				t.Errorf("odd name: %v, %v", f.got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", tt.got, err)
		}
		if diff := cmp.Diff(tt.got, f.got); diff != "" {
			t.Errorf("arguments -want +got\n%s", diff)
		}
		if diff := cmp.Diff(tt.want, out); diff != "" {
			t.Errorf("%v: answer -want +got\n%s", tt.got, diff)
		}
		f.err = fault.New(fault.NotOpen, "no").WithHint("open it")
		if _, err := tt.call(); !errors.Is(err, fault.NotOpen) || fault.HintOf(err) != "open it" {
			t.Errorf("%v: error %v", tt.got, err)
		}
	}
}

func TestEmptyListIsNotNull(t *testing.T) {
	list, err := serve(t, &fake{}, all()).List(context.Background())
	if err != nil || list == nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	templates, err := serve(t, &fake{}, all()).Templates(context.Background())
	if err != nil || templates == nil || len(templates) != 0 {
		t.Errorf("templates: got %v, %v", templates, err)
	}
}

func TestConnect(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &fake{file: w}
	c := serve(t, f, all())
	dialled, err := c.Dial(context.Background(), "ann", "127.0.0.1:9001")
	if err != nil {
		t.Fatal(err)
	}
	dialled.Close()
	if diff := cmp.Diff([]any{"dial", "ann", "127.0.0.1:9001"}, f.got); diff != "" {
		t.Errorf("dial -want +got\n%s", diff)
	}
	r, w, err = os.Pipe() // the first one is closed by the daemon
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.file = w
	file, err := c.Connect(context.Background(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("x"); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 1)
	if _, err := r.Read(buf); err != nil || buf[0] != 'x' {
		t.Errorf("read %q, %v", buf, err)
	}
	// The daemon closes its own descriptor right after sending it.
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := w.Stat(); errors.Is(err, os.ErrClosed) {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the daemon kept its descriptor")
		}
	}
	f.err = fault.New(fault.Unsupported, "no holder here")
	if _, err := c.Connect(context.Background(), "ann"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("error %v, want unsupported", err)
	}
	if _, err := c.Dial(context.Background(), "ann", "127.0.0.1:1"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("dial: error %v, want unsupported", err)
	}
}

// TestAccess holds the table to its three classes of callers, and to nobody where no class is given.
func TestAccess(t *testing.T) {
	me, other := localapi.Uids(uint32(os.Geteuid())), localapi.Uids(uint32(os.Geteuid())+1)
	ctx := context.Background()
	for _, tt := range []struct {
		access                   jailapi.Access
		caller, runner, operator bool
	}{
		{jailapi.Access{}, false, false, false},
		{jailapi.Access{Callers: me}, true, false, false},
		{jailapi.Access{Callers: me, Runners: other, Operators: other}, true, false, false},
		{jailapi.Access{Callers: other, Runners: me}, false, true, false},
		{jailapi.Access{Callers: other, Operators: me}, false, false, true},
		{jailapi.Access{Callers: me, Operators: me}, true, false, true},
	} {
		c := serve(t, &fake{err: fault.New(fault.NotFound, "reached")}, tt.access)
		callers := []error{c.Destroy(ctx, "a")}
		for _, call := range []func() (any, error){
			func() (any, error) { return c.Provision(ctx, jail.ProvisionSpec{}) },
			func() (any, error) { return c.List(ctx) },
			func() (any, error) { return c.Get(ctx, "a") },
			func() (any, error) { return c.Open(ctx, "a", jail.OpenOptions{}) },
			func() (any, error) { return c.Close(ctx, "a") },
			func() (any, error) { return c.Templates(ctx) },
			func() (any, error) { return c.Dial(ctx, "a", "127.0.0.1:1") },
		} {
			_, err := call()
			callers = append(callers, err)
		}
		_, attachErr := c.Attachment(ctx, "a")
		_, connectErr := c.Connect(ctx, "a")
		_, createErr := c.CreateTemplate(ctx, "base", "/etc")
		check := func(errs []error, allowed bool) {
			want := fault.Denied
			if allowed {
				want = fault.NotFound
			}
			for i, err := range errs {
				if !errors.Is(err, want) {
					t.Errorf("%+v: call %d: error %v, want %q", tt, i, err, want)
				}
			}
		}
		_, buildErr := c.Provision(ctx, jail.ProvisionSpec{Source: "x"}) // shows a folder of the host
		check([]error{buildErr}, tt.caller && tt.operator)
		check(callers, tt.caller)
		check([]error{attachErr, connectErr}, tt.runner)
		check([]error{createErr, c.DestroyTemplate(ctx, "base")}, tt.operator)
	}
}
