package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/account"
	"playground/cli"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi"
	"playground/localapi/userapi"
)

// A fakeUsers stands for playgroundd behind a real socket: it knows one tenant, alice.
type fakeUsers struct {
	userapi.Users
	status  userapi.Status
	created *userapi.User
}

var alice = userapi.User{
	Tenant: "alice",
	Sandbox: &jail.Sandbox{Tenant: "alice", Name: "pg-alice", Persona: "alice assistant", Network: jail.NetworkNone,
		Isolation: jail.IsolationNamespaces, AppendOnly: jail.AppendOnly{Reason: "the file system does not know the flag"},
		Created: time.Unix(1_700_000_000, 0), Attached: true, Handles: 2},
	Token: &account.TokenInfo{Prefix: "pgt_abc", Created: time.Unix(1_700_000_000, 0)},
}

func known(tenant string) error {
	if tenant == "alice" {
		return nil
	}
	return fault.New(fault.NotFound, "no tenant %q", tenant).WithHint("playground user list")
}

func (f fakeUsers) Create(_ context.Context, spec jail.ProvisionSpec) (userapi.Created, error) {
	if known(spec.Tenant) == nil {
		return userapi.Created{}, fault.New(fault.Exists, "tenant %q exists already", spec.Tenant).WithHint("choose another name")
	}
	user := alice
	if f.created != nil {
		user = *f.created
	}
	user.Tenant = spec.Tenant
	return userapi.Created{User: user, Token: "pgt_abc_secret"}, nil
}
func (f fakeUsers) List(context.Context) ([]userapi.User, error) { return []userapi.User{alice}, nil }
func (f fakeUsers) Attach(_ context.Context, tenant string) (userapi.User, error) {
	return alice, known(tenant)
}
func (f fakeUsers) Detach(_ context.Context, tenant string) (userapi.User, error) {
	return alice, known(tenant)
}
func (f fakeUsers) Destroy(_ context.Context, tenant string, force bool) error {
	if !force {
		return fault.New(fault.Busy, "tenant %q runs commands now: 1", tenant).WithHint("--force")
	}
	return known(tenant)
}
func (f fakeUsers) Token(_ context.Context, tenant string) (account.TokenInfo, error) {
	return *alice.Token, known(tenant)
}
func (f fakeUsers) ResetToken(_ context.Context, tenant string) (userapi.NewToken, error) {
	return userapi.NewToken{Token: "pgt_abc_new", Info: *alice.Token}, known(tenant)
}
func (f fakeUsers) RevokeToken(_ context.Context, tenant string) error { return known(tenant) }
func (f fakeUsers) CreateOperatorToken(_ context.Context, name string) (userapi.NewOperatorToken, error) {
	return userapi.NewOperatorToken{Token: "pgo_abc_new", Info: account.OperatorToken{ID: "abc", Name: name}}, nil
}
func (f fakeUsers) OperatorTokens(context.Context) ([]account.OperatorToken, error) {
	return []account.OperatorToken{{ID: "abc", Name: "backup", Prefix: "pgo_abc"}}, nil
}
func (f fakeUsers) RevokeOperatorToken(_ context.Context, id string) error {
	if id == "abc" {
		return nil
	}
	return fault.New(fault.NotFound, "no such operator token")
}
func (f fakeUsers) Status(context.Context) (userapi.Status, error)    { return f.status, nil }
func (f fakeUsers) Get(context.Context, string) (userapi.User, error) { return alice, nil }

// env returns commands that talk to users, and what they print.
func env(t *testing.T, users userapi.Users, asJSON bool) (e *cli.Env, stdout, stderr *bytes.Buffer) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgcli") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := localapi.Listen(filepath.Join(dir, "operator.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	server := localapi.Server(localapi.Handler(userapi.Routes(users, localapi.Uids(uint32(os.Geteuid())), nil), localapi.Options{}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "playground.toml")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\n", filepath.Join(dir, "data"), dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli.Env{Stdout: stdout, Stderr: stderr, Getenv: func(string) string { return "" }, Config: path, JSON: asJSON}, stdout, stderr
}

func TestUserCommands(t *testing.T) {
	status := userapi.Status{Version: "1", Daemons: []userapi.Daemon{{Name: "playground-jaild", State: userapi.Up, Pid: 7}}}
	for _, test := range []struct {
		name           string
		run            func(*cli.Env, context.Context) error
		stdout, stderr string // text that must be in the output
		wantErr        error
		wantJSON       string // a field that must be in the JSON document
	}{
		{"create", func(e *cli.Env, ctx context.Context) error { return e.UserCreate(ctx, "bob", cli.CreateOptions{}) },
			"pgt_abc_secret\n", "session", nil, "token"},
		{"create a name in use", func(e *cli.Env, ctx context.Context) error { return e.UserCreate(ctx, "alice", cli.CreateOptions{}) },
			"", "", fault.Exists, ""},
		{"list", func(e *cli.Env, ctx context.Context) error { return e.UserList(ctx) }, "pg-alice", "", nil, "tenant"},
		{"attach", func(e *cli.Env, ctx context.Context) error { return e.UserAttach(ctx, "alice") }, "alice assistant", "", nil, "sandbox"},
		{"attach nobody", func(e *cli.Env, ctx context.Context) error { return e.UserAttach(ctx, "bob") }, "", "", fault.NotFound, ""},
		{"detach", func(e *cli.Env, ctx context.Context) error { return e.UserDetach(ctx, "alice") }, "2 still open", "", nil, "sandbox"},
		{"destroy a running one", func(e *cli.Env, ctx context.Context) error { return e.UserDestroy(ctx, "alice", false) }, "", "", fault.Busy, ""},
		{"destroy", func(e *cli.Env, ctx context.Context) error { return e.UserDestroy(ctx, "alice", true) }, "destroyed", "", nil, "destroyed"},
		{"token show", func(e *cli.Env, ctx context.Context) error { return e.TokenShow(ctx, "alice") }, "pgt_abc", "", nil, "prefix"},
		{"token reset", func(e *cli.Env, ctx context.Context) error { return e.TokenReset(ctx, "alice") }, "pgt_abc_new\n", "revoked", nil, "token"},
		{"token revoke", func(e *cli.Env, ctx context.Context) error { return e.TokenRevoke(ctx, "alice") }, "revoked", "", nil, "revoked"},
		{"operator token create", func(e *cli.Env, ctx context.Context) error { return e.OperatorTokenCreate(ctx, "backup") },
			"pgo_abc_new\n", "shown only now", nil, "token"},
		{"operator token list", func(e *cli.Env, ctx context.Context) error { return e.OperatorTokenList(ctx) }, "backup", "", nil, "prefix"},
		{"operator token revoke", func(e *cli.Env, ctx context.Context) error { return e.OperatorTokenRevoke(ctx, "abc") }, "revoked", "", nil, "revoked"},
		{"operator token revoke nothing", func(e *cli.Env, ctx context.Context) error { return e.OperatorTokenRevoke(ctx, "x") }, "", "", fault.NotFound, ""},
		{"status", func(e *cli.Env, ctx context.Context) error { return e.Status(ctx) }, "playground-jaild", "", nil, "daemons"},
		{"ready", func(e *cli.Env, ctx context.Context) error { return e.Ready(ctx, 0) }, "ready", "", nil, "status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, stdout, stderr := env(t, fakeUsers{status: status}, false)
			if err := test.run(e, t.Context()); !errors.Is(err, test.wantErr) {
				t.Fatalf("got %v, want %v", err, test.wantErr)
			}
			if !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("stdout %q, stderr %q; want %q and %q in them", stdout, stderr, test.stdout, test.stderr)
			}
			if test.wantErr != nil {
				return
			}
			e, stdout, _ = env(t, fakeUsers{status: status}, true)
			if err := test.run(e, t.Context()); err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(stdout.Bytes(), &v); err != nil {
				t.Fatalf("%v in %s", err, stdout)
			}
			if !strings.Contains(stdout.String(), `"`+test.wantJSON+`"`) {
				t.Errorf("no %q in %s", test.wantJSON, stdout)
			}
		})
	}
}

// The token is on standard output alone, so that a script can take it, and nowhere else.
func TestTokenGoesToStandardOutputOnly(t *testing.T) {
	e, stdout, stderr := env(t, fakeUsers{}, false)
	if err := e.UserCreate(t.Context(), "bob", cli.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "pgt_abc_secret\n" || strings.Contains(stderr.String(), "secret") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestStatusShowsUsage(t *testing.T) {
	usage := map[string]map[string]int64{"bob": {"nthr": 3}, "alice": {"maxproc": 7, "memoryuse": 5 << 30, "pcpu": 150}}
	e, stdout, _ := env(t, fakeUsers{status: userapi.Status{Usage: usage}}, false)
	if err := e.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `
TENANT   PROCESSES   THREADS   FILES   MEMORY     SWAP   CPU
alice    7           -         -       5120 MiB   -      150%
bob      -           3         -       -          -      -
`
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %s, want at its end %s", stdout, want)
	}
	e, stdout, _ = env(t, fakeUsers{status: userapi.Status{UsageError: "racct is off"}}, false)
	if err := e.Status(t.Context()); err != nil || !strings.Contains(stdout.String(), "unknown: racct is off") {
		t.Errorf("%v, %s", err, stdout)
	}
}

// What a network lets a tenant do is told where the tenant is made or looked at.
func TestNetworkWarning(t *testing.T) {
	sandbox := *alice.Sandbox
	sandbox.Network = jail.NetworkVNET
	user := alice
	user.Sandbox, user.Warning = &sandbox, sandbox.Network.Warning()
	e, stdout, stderr := env(t, fakeUsers{created: &user}, false)
	if err := e.UserCreate(t.Context(), "bob", cli.CreateOptions{Network: "vnet"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stderr.String(), "WARNING") || !strings.Contains(stderr.String(), user.Warning) || strings.Contains(stdout.String(), "WARNING") {
		t.Errorf("stdout %q, stderr %q; want the warning in the second", stdout, stderr)
	}
	e, stdout, _ = env(t, fakeUsers{created: &user}, true)
	if err := e.UserCreate(t.Context(), "bob", cli.CreateOptions{Network: "vnet"}); err != nil || !strings.Contains(stdout.String(), `"warning": "a network stack`) {
		t.Errorf("%v, %s", err, stdout)
	}
}

// A suite that does not work is told, and the command fails, so that a script notices.
func TestStatusOfABrokenSuite(t *testing.T) {
	lost := &job.Lost{Since: time.Unix(1_700_000_000, 0), Tenant: "alice", Pids: []job.Leftover{{Pid: 4711}, {Pid: -17}}} // a jail is told by a number below zero
	e, stdout, _ := env(t, fakeUsers{status: userapi.Status{Lost: lost}}, false)
	err := e.Status(t.Context())
	if !errors.Is(err, fault.ProofLost) || !strings.Contains(stdout.String(), "4711") {
		t.Errorf("got %v and %s, want ProofLost and the process", err, stdout)
	}
	if strings.Contains(stdout.String(), "-17") || !strings.Contains(stdout.String(), "left jail") {
		t.Errorf("a jail is shown as a process:\n%s", stdout)
	}
	began := time.Now()
	if err := e.Ready(t.Context(), time.Minute); !errors.Is(err, fault.ProofLost) {
		t.Errorf("Ready: got %v, want ProofLost", err)
	}
	if time.Since(began) > 10*time.Second {
		t.Error("Ready waited for something that does not mend itself")
	}
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
		code int
	}{
		{nil, "", 0},
		{errors.New("it broke"), "playground: it broke\n", 1},
		{fault.New(fault.Busy, "it runs").WithHint("stop it"), "playground: it runs\nhint: stop it\n", 1},
		{fmt.Errorf("cannot go on: %w", fault.New(fault.Busy, "it runs").WithHint("stop it")), "playground: cannot go on: it runs\nhint: stop it\n", 1},
		{&cli.UsageError{Err: errors.New("what?")}, "playground: what?\n", 2},
		{cli.StatusError(2), "", 2},
		{context.Canceled, "playground: interrupted\n", 1},
	} {
		var b bytes.Buffer
		cli.Report(&b, test.err)
		if b.String() != test.want || cli.ExitCode(test.err) != test.code {
			t.Errorf("%v: got %q and %d, want %q and %d", test.err, &b, cli.ExitCode(test.err), test.want, test.code)
		}
	}
}

// builderUsers lists a builder's sandbox beside the tenant.
type builderUsers struct{ fakeUsers }

func (builderUsers) List(context.Context) ([]userapi.User, error) {
	return []userapi.User{alice,
		{Tenant: "build-01m8mnjg8td8k5nrw3rnc0cycx", Sandbox: alice.Sandbox, Problem: "it has no account: destroy it"},
		{Tenant: "build-me", Sandbox: alice.Sandbox, Problem: "it has a problem"}}, nil
}

// A build that goes on is no tenant to be mended or destroyed; a tenant whose name only looks like it is one.
func TestBuildersAreNoTenants(t *testing.T) {
	e, stdout, stderr := env(t, builderUsers{}, false)
	if err := e.UserList(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stdout.String()+stderr.String(), "01m8mnjg8t") || !strings.Contains(stderr.String(), "faculty build`: 1") {
		t.Errorf("%q, %q", stdout, stderr)
	}
	if !strings.Contains(stdout.String(), "build-me") || !strings.Contains(stderr.String(), "it has a problem") {
		t.Errorf("%q, %q", stdout, stderr)
	}
}

// A configuration that only the daemons' user may read is there: nobody should copy a sample over it.
func TestForeignConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "playground.toml")
	if err := os.WriteFile(path, nil, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(path); err == nil {
		f.Close()
		t.Skip("this user may read everything")
	}
	e := &cli.Env{Config: path, Getenv: func(string) string { return "" }, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	if err := e.UserList(t.Context()); !strings.Contains(fault.HintOf(err), "the user that the daemons run as") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}
