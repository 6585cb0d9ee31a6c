package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"playground/account"
	"playground/daemon"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi/userapi"
)

func TestLostProofEndsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began := time.Now()
		ask := func(context.Context) (job.HostStatus, error) {
			switch since := time.Since(began); {
			case since < 3*time.Second:
				return job.HostStatus{}, nil
			case since < 5*time.Second: // reaperd is started again: not a loss
				return job.HostStatus{}, fault.New(fault.Unavailable, "cannot reach it")
			case since < 8*time.Second:
				return job.HostStatus{}, nil
			}
			return job.HostStatus{Lost: &job.Lost{Tenant: "ada", JobID: "job-1", Pids: []job.Leftover{{Pid: 4711}}}}, nil
		}
		task := watchLost(ask, zerolog.New(&log))
		err := task.Run(t.Context())
		if !errors.Is(err, fault.ProofLost) || !strings.Contains(fault.HintOf(err), "playground ack") {
			t.Errorf("got %v (hint %q), want ProofLost and the way out", err, fault.HintOf(err))
		}
		for _, want := range []string{`"message":"proof_lost"`, `"pids":[4711]`, `"job":"job-1"`, eventUnreachable, eventReachable} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %s in the log:\n%s", want, &log)
			}
		}
	})
}

// What is left may be a jail, which is told by a number below zero. Nobody may take that for a process: kill -9 -1 ends them all.
func TestLostJailsAreNoProcesses(t *testing.T) {
	var log bytes.Buffer
	err, answered := checkLost(t.Context(), func(context.Context) (job.HostStatus, error) {
		return job.HostStatus{Lost: &job.Lost{Pids: []job.Leftover{{Pid: -1}, {Pid: 4711}, {Pid: -17}}}}, nil
	}, zerolog.New(&log))
	if !errors.Is(err, fault.ProofLost) || !answered || !strings.Contains(fault.HintOf(err), "jls -d -j") {
		t.Errorf("got %v (hint %q)", err, fault.HintOf(err))
	}
	if text := log.String(); !strings.Contains(text, `"jails":[1,17]`) || !strings.Contains(text, `"pids":[4711]`) {
		t.Error(text)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		task := watchLost(func(context.Context) (job.HostStatus, error) { return job.HostStatus{}, nil }, zerolog.Nop())
		if err := task.Run(ctx); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// A fakeListener has a name to tell it by.
type fakeListener struct {
	net.Listener
	name   string
	closed bool
}

func (f *fakeListener) Close() error { f.closed = true; return nil }

func TestPick(t *testing.T) {
	one, two, three := &fakeListener{name: "one"}, &fakeListener{name: "two"}, &fakeListener{name: "three"}
	for _, test := range []struct {
		name         string
		passed       map[string][]net.Listener
		mcp, metrics net.Listener
		closed       *fakeListener
	}{
		{"none", nil, nil, nil, nil},
		{"named", map[string][]net.Listener{"metrics": {one}, "mcp": {two}}, two, one, nil},
		{"unnamed", map[string][]net.Listener{"LISTEN_FD_3": {one}}, one, nil, nil},
		{"two unnamed of one name", map[string][]net.Listener{"": {one, two}}, one, two, nil},
		{"too many", map[string][]net.Listener{"": {one, two, three}}, one, two, three},
	} {
		mcp, metrics := pick(test.passed)
		if mcp != test.mcp || metrics != test.metrics {
			t.Errorf("%s: got %v and %v", test.name, mcp, metrics)
		}
		if test.closed != nil && !test.closed.closed {
			t.Errorf("%s: the surplus socket is open", test.name)
		}
	}
}

// A fakeUsers answers what the decorated one needs.
type fakeUsers struct {
	userapi.Users
	err error
}

func (f fakeUsers) Destroy(context.Context, string, bool) error { return f.err }
func (f fakeUsers) RevokeToken(context.Context, string) error   { return f.err }
func (f fakeUsers) ResetToken(context.Context, string) (userapi.NewToken, error) {
	return userapi.NewToken{Token: "pgt_id_secret", Info: account.TokenInfo{Prefix: "pgt_id"}}, f.err
}

func TestRevokedTenantsAreCutOff(t *testing.T) {
	for name, call := range map[string]func(users) error{
		"revoke":  func(u users) error { return u.RevokeToken(t.Context(), "ada") },
		"destroy": func(u users) error { return u.Destroy(t.Context(), "ada", false) },
		"reset":   func(u users) error { _, err := u.ResetToken(t.Context(), "ada"); return err },
	} {
		var log bytes.Buffer
		var forgotten []string
		var stopped []string
		u := users{Users: fakeUsers{}, forget: func(tenant string) { forgotten = append(forgotten, tenant) },
			endTenant: func(_ context.Context, tenant string) error {
				stopped = append(stopped, tenant)
				return nil
			},
			security: daemon.Security(zerolog.New(&log))}
		if err := call(u); err != nil {
			t.Fatal(err)
		}
		if (len(stopped) == 1) != (name == "destroy") {
			t.Errorf("%s: the runs of %v were stopped", name, stopped)
		}
		if len(forgotten) != 1 || forgotten[0] != "ada" {
			t.Errorf("%s: forgot %v, want ada", name, forgotten)
		}
		if !strings.Contains(log.String(), `"message":"revoked"`) || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the security log says %s", name, &log)
		}
	}
}

func (f fakeUsers) CreateOperatorToken(_ context.Context, name string) (userapi.NewOperatorToken, error) {
	return userapi.NewOperatorToken{Token: "pgo_id1_secret", Info: account.OperatorToken{ID: "id1", Name: name}}, f.err
}
func (f fakeUsers) RevokeOperatorToken(context.Context, string) error { return f.err }

func TestOperatorTokensAreLogged(t *testing.T) {
	var log bytes.Buffer
	var forgotten []string
	u := users{Users: fakeUsers{}, forgetOperator: func(id string) { forgotten = append(forgotten, id) }, security: daemon.Security(zerolog.New(&log))}
	if _, err := u.CreateOperatorToken(t.Context(), "a private name"); err != nil {
		t.Fatal(err)
	}
	if err := u.RevokeOperatorToken(t.Context(), "pgo_id1"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"message":"minted"`, `"message":"revoked"`, `"token_id":"id1"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "private") {
		t.Errorf("the log says too much:\n%s", &log)
	}
	if len(forgotten) != 1 || forgotten[0] != "id1" {
		t.Errorf("forgot %v", forgotten)
	}
}

func (f fakeUsers) Create(context.Context, jail.ProvisionSpec) (userapi.Created, error) {
	return userapi.Created{}, f.err
}

// A new tenant is not let in while an earlier one of its name has anything left: a crash may have come before its end was complete.
func TestNewTenantBeginsAnew(t *testing.T) {
	begun := 0
	u := users{Users: fakeUsers{}, beginTenant: func(_ context.Context, tenant string) error {
		begun++
		return errors.New(tenant)
	}}
	if _, err := u.Create(t.Context(), jail.ProvisionSpec{Tenant: "ada"}); begun != 1 || !errors.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("begun %d times: %v", begun, err)
	}
	u.Users = fakeUsers{err: fault.New(fault.Exists, "there")}
	if _, err := u.Create(t.Context(), jail.ProvisionSpec{Tenant: "ada"}); begun != 1 || !errors.Is(err, fault.Exists) {
		t.Errorf("the runs of a tenant that is there were ended: %d, %v", begun, err)
	}
}

// A tenant that had the operator's name would be the operator to the work loop.
func TestNoTenantIsTheOperator(t *testing.T) {
	u := users{Users: fakeUsers{}, operator: "did:sync:user:ada"}
	if _, err := u.Create(t.Context(), jail.ProvisionSpec{Tenant: "ada"}); !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
		t.Errorf("created: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want error
	}{
		{[]string{"-version"}, nil},
		{[]string{"surplus"}, errUsage},
		{[]string{"-bogus"}, errUsage},
		{[]string{"-t", "-c", "/none/playground.toml"}, fault.Invalid},
	} {
		var out, errs bytes.Buffer
		if err := run(t.Context(), test.args, &out, &errs); !errors.Is(err, test.want) {
			t.Errorf("%v: got %v, want %v", test.args, err, test.want)
		}
	}
}
