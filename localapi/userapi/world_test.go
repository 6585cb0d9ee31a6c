package userapi_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"playground/account"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi/userapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is the three owners in memory (the accounts are real). Each step can be made to fail, before or after it took
// effect, as a daemon that dies does.
type world struct {
	*account.Store
	sandboxes map[string]jail.Sandbox
	running   map[string]int
	serial    int
	steps     []string
	fail      map[string]error // by step: nothing happens
	failAfter map[string]error // by step: it happens, and the answer is lost
	respawn   int              // commands that tenants still start, one after each drop
}

func (w *world) step(name string) error {
	w.steps = append(w.steps, name)
	return w.fail[name]
}

type jails struct{ *world }

func (j jails) Provision(_ context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error) {
	if err := j.step("provision"); err != nil {
		return jail.Sandbox{}, err
	}
	if _, ok := j.sandboxes[spec.Tenant]; ok {
		return jail.Sandbox{}, fault.New(fault.Exists, "sandbox exists")
	}
	j.serial++
	if spec.Persona == "" {
		spec.Persona = spec.Tenant + " assistant"
	}
	if spec.Network == "" {
		spec.Network = jail.NetworkNone
	}
	j.sandboxes[spec.Tenant] = jail.Sandbox{Tenant: spec.Tenant, ID: strings.Repeat("I", j.serial), Persona: spec.Persona, Network: spec.Network,
		Created: time.Unix(1700000000, 0).UTC()}
	return j.sandboxes[spec.Tenant], j.failAfter["provision"]
}

func (j jails) List(context.Context) ([]jail.Sandbox, error) {
	var all []jail.Sandbox
	for _, s := range j.sandboxes {
		all = append(all, s)
	}
	return all, j.step("jail list")
}

func (j jails) Get(_ context.Context, tenant string) (jail.Sandbox, error) {
	if err := j.step("jail get"); err != nil {
		return jail.Sandbox{}, err
	}
	s, ok := j.sandboxes[tenant]
	if !ok {
		return s, fault.New(fault.NotFound, "no sandbox")
	}
	return s, nil
}

func (j jails) Destroy(_ context.Context, tenant string) error {
	if err := j.step("jail destroy"); err != nil {
		return err
	}
	if j.running[tenant] > 0 {
		return fault.New(fault.Busy, "jobs run")
	}
	if _, ok := j.sandboxes[tenant]; !ok {
		return fault.New(fault.NotFound, "no sandbox")
	}
	delete(j.sandboxes, tenant)
	return j.failAfter["jail destroy"]
}

func (j jails) handles(step, tenant string, by int) (jail.Sandbox, error) {
	if err := j.step(step); err != nil {
		return jail.Sandbox{}, err
	}
	s := j.sandboxes[tenant]
	s.Handles += by
	j.sandboxes[tenant] = s
	return s, nil
}

func (j jails) Open(_ context.Context, tenant string, _ jail.OpenOptions) (jail.Sandbox, error) {
	return j.handles("open", tenant, 1)
}

func (j jails) Close(_ context.Context, tenant string) (jail.Sandbox, error) {
	return j.handles("close", tenant, -1)
}

type jobs struct{ *world }

func (j jobs) DropTenant(_ context.Context, tenant string) error {
	if err := j.step("drop"); err != nil {
		return err
	}
	delete(j.running, tenant)
	if j.respawn > 0 {
		j.respawn--
		j.running[tenant] = 1
	}
	return nil
}

func (j jobs) Usage(context.Context) (map[string]map[string]int64, error) {
	if err := j.step("usage"); err != nil {
		return nil, err
	}
	usage := map[string]map[string]int64{}
	for tenant, n := range j.running {
		usage[tenant] = map[string]int64{"maxproc": int64(n)}
	}
	return usage, nil
}

func (j jobs) Status(context.Context) (job.HostStatus, error) {
	if err := j.step("status"); err != nil {
		return job.HostStatus{}, err
	}
	s := job.HostStatus{PerTenant: map[string]job.Counts{}}
	for tenant, n := range j.running {
		s.Active += n
		s.PerTenant[tenant] = job.Counts{Active: n, Retained: n}
	}
	return s, nil
}

type accounts struct{ *world }

func (a accounts) Create(ctx context.Context, t account.Tenant) error {
	if err := a.step("record"); err != nil {
		return err
	}
	return a.Store.Create(ctx, t)
}

func (a accounts) Delete(ctx context.Context, tenant string) error {
	if err := a.step("delete"); err != nil {
		return err
	}
	return a.Store.Delete(ctx, tenant)
}

func (a accounts) Mint(ctx context.Context, tenant string) (string, account.TokenInfo, error) {
	if err := a.step("mint"); err != nil {
		return "", account.TokenInfo{}, err
	}
	return a.Store.Mint(ctx, tenant)
}

func (a accounts) Get(ctx context.Context, tenant string) (account.Tenant, error) {
	if err := a.step("account get"); err != nil {
		return account.Tenant{}, err
	}
	return a.Store.Get(ctx, tenant)
}

func newWorld(t *testing.T) (*world, *userapi.Operator) {
	t.Helper()
	store, err := account.Open(filepath.Join(t.TempDir(), "account.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{Store: store, sandboxes: map[string]jail.Sandbox{}, running: map[string]int{}, fail: map[string]error{}, failAfter: map[string]error{}}
	return w, userapi.NewOperator(jails{w}, jobs{w}, accounts{w}, userapi.About{Version: "v1", Isolation: "namespaces"})
}

func create(t *testing.T, o *userapi.Operator, tenant string) userapi.Created {
	t.Helper()
	created, err := o.Create(context.Background(), jail.ProvisionSpec{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// whole checks that a tenant is there with everything, or gone without a rest.
func (w *world) whole(t *testing.T, tenant string) (exists bool) {
	t.Helper()
	acct, err := w.Store.Get(context.Background(), tenant)
	sandbox, has := w.sandboxes[tenant]
	if (err == nil) != has || has && acct.SandboxID != sandbox.ID {
		t.Errorf("half-made tenant: account %+v (%v), sandbox %+v", acct, err, sandbox)
	}
	return has
}
