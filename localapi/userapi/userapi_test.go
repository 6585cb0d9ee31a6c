package userapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/account"
	"playground/fault"
	"playground/internal/socktest"
	"playground/jail"
	"playground/localapi"
	"playground/localapi/userapi"
)

// fake records what arrives and answers with what it was given.
type fake struct {
	user   userapi.User
	info   account.TokenInfo
	status userapi.Status
	err    error
	got    []any
}

func (f *fake) Create(_ context.Context, spec jail.ProvisionSpec) (userapi.Created, error) {
	f.got = []any{"create", spec}
	return userapi.Created{User: f.user, Token: "secret"}, f.err
}

func (f *fake) List(context.Context) ([]userapi.User, error) {
	f.got = []any{"list"}
	if f.user.Tenant == "" {
		return nil, f.err
	}
	return []userapi.User{f.user}, f.err
}

func (f *fake) one(call, tenant string) (userapi.User, error) {
	f.got = []any{call, tenant}
	return f.user, f.err
}

func (f *fake) Get(_ context.Context, tenant string) (userapi.User, error) {
	return f.one("get", tenant)
}

func (f *fake) Attach(_ context.Context, tenant string) (userapi.User, error) {
	return f.one("attach", tenant)
}

func (f *fake) Detach(_ context.Context, tenant string) (userapi.User, error) {
	return f.one("detach", tenant)
}

func (f *fake) Destroy(_ context.Context, tenant string, force bool) error {
	f.got = []any{"destroy", tenant, force}
	return f.err
}

func (f *fake) Token(_ context.Context, tenant string) (account.TokenInfo, error) {
	f.got = []any{"token", tenant}
	return f.info, f.err
}

func (f *fake) ResetToken(_ context.Context, tenant string) (userapi.NewToken, error) {
	f.got = []any{"reset", tenant}
	return userapi.NewToken{Token: "secret", Info: f.info}, f.err
}

func (f *fake) RevokeToken(_ context.Context, tenant string) error {
	f.got = []any{"revoke", tenant}
	return f.err
}

func (f *fake) CreateOperatorToken(_ context.Context, name string) (userapi.NewOperatorToken, error) {
	f.got = []any{"create operator token", name}
	return userapi.NewOperatorToken{Token: "secret", Info: account.OperatorToken{ID: "1", Name: name}}, f.err
}

func (f *fake) OperatorTokens(context.Context) ([]account.OperatorToken, error) {
	f.got = []any{"operator tokens"}
	return []account.OperatorToken{{ID: "1"}}, f.err
}

func (f *fake) RevokeOperatorToken(_ context.Context, id string) error {
	f.got = []any{"revoke operator token", id}
	return f.err
}

func (f *fake) Status(context.Context) (userapi.Status, error) {
	f.got = []any{"status"}
	return f.status, f.err
}

func serve(t *testing.T, users userapi.Users, access localapi.Access) (client *userapi.Client, raw *localapi.Client) {
	t.Helper()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "jobs 3") })
	path := socktest.Serve(t, localapi.Handler(userapi.Routes(users, access, metrics), localapi.Options{}))
	client, raw = userapi.NewClient(path), localapi.NewClient(path)
	t.Cleanup(func() {
		client.Disconnect()
		raw.Close()
	})
	return client, raw
}

func me() localapi.Access { return localapi.Uids(uint32(os.Geteuid())) }

func TestEveryCallArrivesAndReturns(t *testing.T) {
	at := time.Unix(1700000000, 5).UTC()
	info := account.TokenInfo{Prefix: "pgt_0", Created: at, LastUsed: &at, Revoked: true}
	f := &fake{
		user:   userapi.User{Tenant: "ann", Sandbox: &jail.Sandbox{Tenant: "ann", Created: at}, Token: &info, ActiveJobs: 1, RetainedJobs: 2, Problem: "p"},
		info:   info,
		status: userapi.Status{Version: "v", Daemons: []userapi.Daemon{{Name: "jaild", State: userapi.Up, Pid: 1, Since: at, UptimeS: 2}}, Tenants: 3},
	}
	c, _ := serve(t, f, me())
	ctx := context.Background()
	spec := jail.ProvisionSpec{Tenant: "ann", Persona: "p", Network: jail.NetworkHost}
	none := func(err error) (any, error) { return nil, err }
	tests := []struct {
		call func() (any, error)
		got  []any
		want any
	}{
		{func() (any, error) { return c.Create(ctx, spec) }, []any{"create", spec}, userapi.Created{User: f.user, Token: "secret"}},
		{func() (any, error) { return c.List(ctx) }, []any{"list"}, []userapi.User{f.user}},
		{func() (any, error) { return c.Get(ctx, "ann") }, []any{"get", "ann"}, f.user},
		{func() (any, error) { return c.Attach(ctx, "ann") }, []any{"attach", "ann"}, f.user},
		{func() (any, error) { return c.Detach(ctx, "ann") }, []any{"detach", "ann"}, f.user},
		{func() (any, error) { return none(c.Destroy(ctx, "ann", false)) }, []any{"destroy", "ann", false}, nil},
		{func() (any, error) { return none(c.Destroy(ctx, "ann", true)) }, []any{"destroy", "ann", true}, nil},
		{func() (any, error) { return c.Token(ctx, "ann") }, []any{"token", "ann"}, info},
		{func() (any, error) { return c.ResetToken(ctx, "ann") }, []any{"reset", "ann"}, userapi.NewToken{Token: "secret", Info: info}},
		{func() (any, error) { return none(c.RevokeToken(ctx, "ann")) }, []any{"revoke", "ann"}, nil},
		{func() (any, error) { return c.CreateOperatorToken(ctx, "a b") }, []any{"create operator token", "a b"},
			userapi.NewOperatorToken{Token: "secret", Info: account.OperatorToken{ID: "1", Name: "a b"}}},
		{func() (any, error) { return c.OperatorTokens(ctx) }, []any{"operator tokens"}, []account.OperatorToken{{ID: "1"}}},
		{func() (any, error) { return none(c.RevokeOperatorToken(ctx, "a/1")) }, []any{"revoke operator token", "a/1"}, nil},
		{func() (any, error) { return c.Status(ctx) }, []any{"status"}, f.status},
		{func() (any, error) { return none(c.Health(ctx)) }, []any{"status"}, nil},
	}
	for _, tt := range tests {
		f.got, f.err = nil, nil
		out, err := tt.call()
		if err != nil {
			t.Errorf("%v: %v", tt.got, err)
		}
		if diff := cmp.Diff(tt.got, f.got); diff != "" {
			t.Errorf("arguments -want +got\n%s", diff)
		}
		if diff := cmp.Diff(tt.want, out); diff != "" {
			t.Errorf("%v: answer -want +got\n%s", tt.got, diff)
		}
		f.err = fault.New(fault.Busy, "no").WithHint("wait")
		if _, err := tt.call(); !errors.Is(err, fault.Busy) || fault.HintOf(err) != "wait" {
			t.Errorf("%v: error %v", tt.got, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	c, raw := serve(t, &fake{}, me())
	ctx := context.Background()
	if err := raw.Do(ctx, "DELETE", "/v1/users/ann?force=perhaps", nil, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("force: %v", err)
	}
	if err := raw.Do(ctx, "POST", "/v1/users", map[string]string{"name": "ann"}, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("unknown field: %v", err)
	}
	if list, err := c.List(ctx); err != nil || list == nil {
		t.Errorf("an empty list is %v, %v", list, err)
	}
}

func TestEveryRouteNeedsAccess(t *testing.T) {
	for _, access := range []localapi.Access{nil, localapi.Uids(uint32(os.Geteuid()) + 1)} {
		f := &fake{}
		_, raw := serve(t, f, access)
		for _, route := range userapi.Routes(f, access, http.NotFoundHandler()) {
			if err := raw.Do(context.Background(), route.Method, route.Path, nil, nil); !errors.Is(err, fault.Denied) {
				t.Errorf("%s %s: error %v, want denied", route.Method, route.Path, err)
			}
		}
		if f.got != nil {
			t.Errorf("%v was reached", f.got)
		}
	}
}

func TestMetrics(t *testing.T) {
	_, raw := serve(t, &fake{}, me())
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", raw.Path()) }}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://local/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), "jobs 3") {
		t.Errorf("%d %q, %v", resp.StatusCode, body, err)
	}
}
