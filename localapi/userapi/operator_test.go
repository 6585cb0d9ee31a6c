package userapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi"
	"playground/localapi/userapi"
)

func TestCreate(t *testing.T) {
	w, o := newWorld(t)
	created, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann", Persona: "Ann's", Network: jail.NetworkHost})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Authenticate(context.Background(), created.Token); err != nil || p.Tenant != "ann" {
		t.Errorf("token: %+v, %v", p, err)
	}
	if warning := created.User.Warning; warning != jail.NetworkHost.Warning() || warning == "" {
		t.Errorf("warning %q", warning)
	}
	if s := created.User.Sandbox; s == nil || s.Persona != "Ann's" || s.Network != jail.NetworkHost || !w.whole(t, "ann") {
		t.Errorf("created %+v", created)
	}
	if got := strings.Join(w.steps, ", "); got != "account get, provision, record, mint" {
		t.Errorf("steps: %s", got)
	}
	if got, err := o.Get(context.Background(), "ann"); err != nil || got.Warning != created.User.Warning {
		t.Errorf("later: warning %q, %v", got.Warning, err)
	}
	if _, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann"}); !errors.Is(err, fault.Exists) || !strings.Contains(fault.HintOf(err), "another name") {
		t.Errorf("name in use: %v", err)
	}
	w.steps = nil
	for _, bad := range []string{"", "A", "../x", "12"} {
		if _, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: bad}); !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if len(w.steps) > 0 {
		t.Errorf("a bad name reached %v", w.steps)
	}
}

// TestCreateIsAllOrNothing fails each step in turn, with each kind of answer, and repeats the call.
func TestCreateIsAllOrNothing(t *testing.T) {
	gone := fault.New(fault.Unavailable, "cannot reach it").WithHint("start it")
	for _, step := range []string{"account get", "provision", "record"} {
		t.Run(step, func(t *testing.T) {
			w, o := newWorld(t)
			create(t, o, "bob-the-other")
			w.fail[step] = gone
			_, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann"})
			if !errors.Is(err, fault.Unavailable) || fault.HintOf(err) != "start it" || strings.Contains(err.Error(), "bob") {
				t.Errorf("error %v, hint %q", err, fault.HintOf(err))
			}
			if w.whole(t, "ann") {
				t.Error("the tenant exists")
			}
			clear(w.fail)
			create(t, o, "ann")
			w.whole(t, "ann")
		})
	}
}

func TestCreateUndoesWhenTheCallerHasLeft(t *testing.T) {
	w, _ := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	w.fail["record"] = errors.New("disk full")
	j := leavingJails{jails{w}, cancel}
	o := userapi.NewOperator(j, jobs{w}, accounts{w}, userapi.About{})
	if _, err := o.Create(ctx, jail.ProvisionSpec{Tenant: "ann"}); err == nil {
		t.Error("no error")
	}
	if w.whole(t, "ann") {
		t.Error("the sandbox was left")
	}
}

// leavingJails cancels the caller's context as soon as the sandbox is made, and honours a context in Destroy.
type leavingJails struct {
	jails
	cancel context.CancelFunc
}

func (j leavingJails) Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error) {
	defer j.cancel()
	return j.jails.Provision(ctx, spec)
}

func (j leavingJails) Destroy(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.jails.Destroy(ctx, tenant)
}

// TestCreateTakesOverWhatCouldNotBeUndone: the answer of jaild, or jaild itself, was lost in the middle.
func TestCreateTakesOverWhatCouldNotBeUndone(t *testing.T) {
	lost := fault.New(fault.Unavailable, "lost the connection")
	for name, prepare := range map[string]func(*world){
		"answer lost":     func(w *world) { w.failAfter["provision"] = lost },
		"rollback failed": func(w *world) { w.fail["record"], w.fail["jail destroy"] = lost, errors.New("jaild is away") },
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newWorld(t)
			prepare(w)
			_, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann"})
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("error %v", err)
			}
			if name == "rollback failed" && (!strings.Contains(err.Error(), "jaild is away") || !strings.Contains(fault.HintOf(err), "again")) {
				t.Errorf("error %v, hint %q", err, fault.HintOf(err))
			}
			clear(w.fail)
			clear(w.failAfter)
			users, err := o.List(context.Background())
			if err != nil || len(users) != 1 || !strings.Contains(users[0].Problem, "no account") {
				t.Errorf("the rest is not shown: %+v, %v", users, err)
			}
			if _, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann", Network: jail.NetworkHost}); !errors.Is(err, fault.Exists) ||
				!strings.Contains(fault.HintOf(err), "destroy ann") {
				t.Errorf("another network: %v", err)
			}
			w.fail["record"] = lost // what was taken over is not ours to remove
			if _, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann"}); !errors.Is(err, fault.Unavailable) || len(w.sandboxes) != 1 {
				t.Errorf("failed take-over: %v, %v", err, w.sandboxes)
			}
			clear(w.fail)
			create(t, o, "ann")
			w.whole(t, "ann")
		})
	}
}

func TestFailedMintSaysHowToGoOn(t *testing.T) {
	w, o := newWorld(t)
	w.fail["mint"] = errors.New("disk full")
	_, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: "ann"})
	if !errors.Is(err, fault.Internal) || !strings.Contains(err.Error(), "sandbox exist") || !strings.Contains(err.Error(), "disk full") ||
		!strings.Contains(fault.HintOf(err), "playground user token reset ann") {
		t.Errorf("error %v, hint %q", err, fault.HintOf(err))
	}
	if !w.whole(t, "ann") {
		t.Error("the tenant is not there")
	}
	token, err := o.ResetToken(context.Background(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Authenticate(context.Background(), token.Token); err != nil || p.Tenant != "ann" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestDestroy(t *testing.T) {
	w, o := newWorld(t)
	ctx := context.Background()
	token := create(t, o, "ann").Token
	create(t, o, "bob")
	w.running["ann"], w.running["bob"] = 2, 1
	err := o.Destroy(ctx, "ann", false)
	if !errors.Is(err, fault.Busy) || !strings.Contains(fault.HintOf(err), "--force ann") {
		t.Errorf("running tenant: %v, hint %q", err, fault.HintOf(err))
	}
	if _, err := w.Authenticate(ctx, token); err != nil || w.running["ann"] != 2 || !w.whole(t, "ann") {
		t.Errorf("a refused destruction changed something: %v", err)
	}
	w.steps = nil
	if err := o.Destroy(ctx, "ann", true); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.steps, ", "); got != "account get, jail get, drop, jail destroy, drop, delete" {
		t.Errorf("steps: %s", got)
	}
	if w.whole(t, "ann") || w.running["ann"] != 0 {
		t.Error("something is left")
	}
	if _, err := w.Authenticate(ctx, token); !errors.Is(err, fault.Denied) {
		t.Errorf("the token still works: %v", err)
	}
	if !w.whole(t, "bob") || w.running["bob"] != 1 {
		t.Error("the other tenant was touched")
	}
	if err := o.Destroy(ctx, "ann", true); !errors.Is(err, fault.NotFound) {
		t.Errorf("second destruction: %v", err)
	}
	if err := o.Destroy(ctx, "../ann", true); !errors.Is(err, fault.Invalid) {
		t.Errorf("bad name: %v", err)
	}
}

// TestDestroyCanBeRepeated fails each step and each answer; the tenant stays listed until a repetition succeeds.
func TestDestroyCanBeRepeated(t *testing.T) {
	gone := fault.New(fault.Unavailable, "cannot reach it").WithHint("start it")
	for _, after := range []bool{false, true} {
		for _, step := range []string{"account get", "jail get", "status", "drop", "jail destroy", "delete"} {
			if after && step != "jail destroy" {
				continue
			}
			w, o := newWorld(t)
			create(t, o, "bob-the-other")
			create(t, o, "ann")
			if after {
				w.failAfter[step] = gone
			} else {
				w.fail[step] = gone
			}
			err := o.Destroy(context.Background(), "ann", false)
			if !errors.Is(err, fault.Unavailable) || fault.HintOf(err) == "" || strings.Contains(err.Error(), "bob") {
				t.Errorf("%s: error %v, hint %q", step, err, fault.HintOf(err))
			}
			clear(w.fail)
			clear(w.failAfter)
			users, err := o.List(context.Background())
			if err != nil || !slices.ContainsFunc(users, func(u userapi.User) bool { return u.Tenant == "ann" }) {
				t.Errorf("%s: not listed any more: %+v, %v", step, users, err)
			}
			if err := o.Destroy(context.Background(), "ann", false); err != nil {
				t.Errorf("%s: repetition: %v", step, err)
			}
			if w.whole(t, "ann") || !w.whole(t, "bob-the-other") {
				t.Errorf("%s: wrong rest", step)
			}
		}
	}
}

func TestAttachAndDetach(t *testing.T) {
	w, o := newWorld(t)
	ctx := context.Background()
	create(t, o, "ann")
	for want := 1; want <= 2; want++ {
		if u, err := o.Attach(ctx, "ann"); err != nil || u.Sandbox.Handles != want {
			t.Errorf("attach: %+v, %v", u, err)
		}
	}
	w.running["ann"] = 1
	if u, err := o.Detach(ctx, "ann"); err != nil || u.Sandbox.Handles != 1 || u.ActiveJobs != 1 {
		t.Errorf("detach: %+v, %v", u, err)
	}
	if _, err := o.Detach(ctx, "ann"); !errors.Is(err, fault.Busy) {
		t.Errorf("last detach while a job runs: %v", err)
	}
	w.running["ann"] = 0
	if u, err := o.Detach(ctx, "ann"); err != nil || u.Sandbox.Handles != 0 {
		t.Errorf("last detach: %+v, %v", u, err)
	}
}

// TestUnknownTenants holds every call to one text for a tenant that is not there.
func TestUnknownTenants(t *testing.T) {
	_, o := newWorld(t)
	ctx := context.Background()
	create(t, o, "bob")
	calls := map[string]func(string) error{
		"get":     func(n string) error { _, err := o.Get(ctx, n); return err },
		"attach":  func(n string) error { _, err := o.Attach(ctx, n); return err },
		"detach":  func(n string) error { _, err := o.Detach(ctx, n); return err },
		"destroy": func(n string) error { return o.Destroy(ctx, n, false) },
		"token":   func(n string) error { _, err := o.Token(ctx, n); return err },
		"reset":   func(n string) error { _, err := o.ResetToken(ctx, n); return err },
		"revoke":  func(n string) error { return o.RevokeToken(ctx, n) },
	}
	for name, call := range calls {
		if err := call("ann"); !errors.Is(err, fault.NotFound) || err.Error() != `no tenant "ann"` || !strings.Contains(fault.HintOf(err), "user list") {
			t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
		}
		if err := call("../bob"); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s of a bad name: %v", name, err)
		}
	}
}

func TestListNamesWhatDoesNotFit(t *testing.T) {
	w, o := newWorld(t)
	ctx := context.Background()
	for _, name := range []string{"dan", "cat", "bob", "ann"} {
		create(t, o, name)
	}
	delete(w.sandboxes, "bob")
	w.sandboxes["cat"] = jail.Sandbox{Tenant: "cat", ID: "another"}
	w.Store.Delete(ctx, "dan")
	users, err := o.List(ctx)
	if err != nil || len(users) != 4 {
		t.Fatalf("%+v, %v", users, err)
	}
	for i, want := range []struct{ name, problem string }{{"ann", ""}, {"bob", "missing"}, {"cat", "not the one"}, {"dan", "no account"}} {
		got := users[i]
		if got.Tenant != want.name || !strings.Contains(got.Problem, want.problem) || (want.problem == "") != (got.Problem == "") {
			t.Errorf("%s: %+v", want.name, got)
		}
		one, err := o.Get(ctx, want.name)
		if err != nil || one.Problem != got.Problem {
			t.Errorf("%s alone: %+v, %v", want.name, one, err)
		}
	}
}

func TestStatusWithMissingDaemons(t *testing.T) {
	w, _ := newWorld(t)
	gone := fault.New(fault.Unavailable, "cannot reach playground-jaild").WithHint("start it")
	up := func(context.Context) (localapi.Probe, error) {
		return localapi.Probe{PID: 7, Since: time.Now().Add(-90 * time.Second)}, nil
	}
	down := func(context.Context) (localapi.Probe, error) { return localapi.Probe{}, gone }
	o := userapi.NewOperator(jails{w}, jobs{w}, accounts{w}, userapi.About{Version: "v1", Isolation: "jail",
		Daemons: []userapi.Check{{Name: "reaperd", Probe: up}, {Name: "jaild", Probe: down}}})
	create(t, o, "ann")
	w.running["ann"] = 3
	s, err := o.Status(context.Background())
	if err != nil || s.Version != "v1" || s.Isolation != "jail" || s.Tenants != 1 || s.ActiveJobs != 3 || len(s.Daemons) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if d := s.Daemons[0]; d.State != userapi.Up || d.Pid != 7 || d.UptimeS < 89 {
		t.Errorf("%+v", d)
	}
	if d := s.Daemons[1]; d.State != userapi.Down || d.Error != gone.Message || d.Hint != "start it" {
		t.Errorf("%+v", d)
	}
	if err := userapi.Healthy(s); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "jaild") || fault.HintOf(err) != "start it" {
		t.Errorf("health: %v", err)
	}
	if s.Usage["ann"]["maxproc"] != 3 || s.UsageError != "" {
		t.Errorf("usage: %v, %q", s.Usage, s.UsageError)
	}
	w.fail["usage"] = errors.New("the kernel keeps no accounts")
	if s, err := o.Status(context.Background()); err != nil || s.ActiveJobs != 3 || s.Usage != nil || s.UsageError != "the kernel keeps no accounts" {
		t.Errorf("without usage: %+v, %v", s, err)
	}
	w.fail["status"] = gone
	if s, err := o.Status(context.Background()); err != nil || s.ActiveJobs != 0 {
		t.Errorf("without reaperd: %+v, %v", s, err)
	}
	lost := userapi.Status{Lost: &job.Lost{}}
	if err := userapi.Healthy(lost); !errors.Is(err, fault.ProofLost) || !strings.Contains(fault.HintOf(err), "playground ack") {
		t.Errorf("lost proof: %v", err)
	}
}

// TestDestroyOutlastsStarts: a request that was under way starts a command after the others were ended.
func TestDestroyOutlastsStarts(t *testing.T) {
	w, o := newWorld(t)
	create(t, o, "ann")
	w.respawn = 3
	if err := o.Destroy(context.Background(), "ann", true); err != nil {
		t.Fatal(err)
	}
	if w.running["ann"] != 0 || len(w.sandboxes) != 0 {
		t.Error("something is left")
	}
}
