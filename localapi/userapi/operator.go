package userapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"playground/account"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/tenancy"
)

// Jails is the owner of the sandboxes (jaild).
type Jails interface {
	Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error)
	List(ctx context.Context) ([]jail.Sandbox, error)
	Get(ctx context.Context, tenant string) (jail.Sandbox, error)
	Destroy(ctx context.Context, tenant string) error
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant string) (jail.Sandbox, error)
}

// Jobs is the owner of everything that runs (reaperd).
type Jobs interface {
	DropTenant(ctx context.Context, tenant string) error
	Status(ctx context.Context) (job.HostStatus, error)
	// Usage returns what each tenant's commands use, by rctl(8) resource; empty where nobody counts that.
	Usage(ctx context.Context) (map[string]map[string]int64, error)
}

// Accounts is the store of tenants and tokens.
type Accounts interface {
	Create(ctx context.Context, t account.Tenant) error
	Get(ctx context.Context, name string) (account.Tenant, error)
	List(ctx context.Context) ([]account.Tenant, error)
	Delete(ctx context.Context, name string) error
	Mint(ctx context.Context, tenant string) (string, account.TokenInfo, error)
	Reset(ctx context.Context, tenant string) (string, account.TokenInfo, error)
	Revoke(ctx context.Context, tenant string) error
	Info(ctx context.Context, tenant string) (account.TokenInfo, error)
	MintOperator(ctx context.Context, name string) (string, account.OperatorToken, error)
	OperatorTokens(ctx context.Context) ([]account.OperatorToken, error)
	RevokeOperator(ctx context.Context, id string) error
}

// An Operator does what the operator's commands ask for. It makes and destroys one tenant at a time.
type Operator struct {
	jails    Jails
	jobs     Jobs
	accounts Accounts
	about    About
	turn     chan struct{} // holds one token: whoever has it may change the set of tenants
}

// About is what the Operator reports and does not find out itself.
type About struct {
	Version   string
	Isolation string
	Daemons   []Check
}

var _ Users = (*Operator)(nil)

// NewOperator returns an Operator over these three owners.
func NewOperator(jails Jails, jobs Jobs, accounts Accounts, about About) *Operator {
	return &Operator{jails: jails, jobs: jobs, accounts: accounts, about: about, turn: make(chan struct{}, 1)}
}

// undoTime bounds a rollback, which goes on although the caller may have left.
const undoTime = time.Minute

// lock waits for the turn to change tenants.
func (o *Operator) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case o.turn <- struct{}{}:
		return func() { <-o.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Create provisions the sandbox, records the account and mints the token. A failure before the account is recorded
// takes the sandbox away again, so that the same call can be repeated. A failure to mint leaves a whole tenant that only
// lacks a token, and says so.
func (o *Operator) Create(ctx context.Context, spec jail.ProvisionSpec) (Created, error) {
	if err := tenancy.ValidName(spec.Tenant); err != nil {
		return Created{}, err
	}
	unlock, err := o.lock(ctx)
	if err != nil {
		return Created{}, err
	}
	defer unlock()
	switch _, err := o.accounts.Get(ctx, spec.Tenant); {
	case err == nil:
		return Created{}, fault.New(fault.Exists, "tenant %q exists already", spec.Tenant).
			WithHint("choose another name, or destroy it first: playground user destroy %s", spec.Tenant)
	case !errors.Is(err, fault.NotFound):
		return Created{}, err
	}
	sandbox, fresh, err := o.provision(ctx, spec)
	if err != nil {
		return Created{}, err
	}
	err = o.accounts.Create(ctx, account.Tenant{Name: spec.Tenant, SandboxID: sandbox.ID, Created: sandbox.Created})
	if err != nil {
		if fresh {
			err = o.undo(ctx, spec.Tenant, err)
		}
		return Created{}, err
	}
	token, info, err := o.accounts.Mint(ctx, spec.Tenant)
	if err != nil {
		return Created{}, fault.Wrap(kindOf(err), err, "tenant %q and its sandbox exist, but it has no token", spec.Tenant).
			WithHint("mint one when the cause is mended: playground user token reset %s", spec.Tenant)
	}
	user := User{Tenant: spec.Tenant, Sandbox: &sandbox, Token: &info, Warning: sandbox.Network.Warning()}
	return Created{User: user, Token: token}, nil
}

// provision makes the sandbox, or takes over one that has no account: what is left when a creation was cut off and could
// not be undone. Taking over never destroys data; it needs the sandbox to be what was asked for.
func (o *Operator) provision(ctx context.Context, spec jail.ProvisionSpec) (sandbox jail.Sandbox, fresh bool, err error) {
	sandbox, err = o.jails.Provision(ctx, spec)
	if err == nil || !errors.Is(err, fault.Exists) {
		return sandbox, err == nil, err
	}
	left, getErr := o.jails.Get(ctx, spec.Tenant)
	if getErr != nil {
		return jail.Sandbox{}, false, err // "exists" is true and says more
	}
	if spec.Persona != "" && spec.Persona != left.Persona || spec.Network != "" && spec.Network != left.Network {
		return jail.Sandbox{}, false, fault.New(fault.Exists, "a sandbox of tenant %q exists without an account, with another persona or network", spec.Tenant).
			WithHint("destroy it first: playground user destroy %s", spec.Tenant)
	}
	return left, false, nil
}

// undo takes a sandbox away that has no account. It returns why, with what went wrong on the way.
func (o *Operator) undo(ctx context.Context, tenant string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	err := o.jails.Destroy(ctx, tenant)
	if err == nil || errors.Is(err, fault.NotFound) {
		return why
	}
	return fault.Wrap(kindOf(why), why, "cannot record tenant %q (and its sandbox could not be removed: %v)", tenant, err).
		WithHint("run the same command again when the cause is mended: it takes the sandbox over")
}

// Destroy ends what the tenant runs, removes its sandbox and forgets its account, in this order: until the last step the
// tenant is listed, so that a destruction that failed can be repeated. Steps that were done before are not errors.
func (o *Operator) Destroy(ctx context.Context, tenant string, force bool) error {
	unlock, err := o.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	// Both owners are asked first: with one of them away, nothing is ended that could not be taken apart.
	if _, _, err := o.find(ctx, tenant); err != nil {
		return err
	}
	if !force {
		if err := o.idle(ctx, tenant, "destroy it with its commands: playground user destroy --force %s"); err != nil {
			return err
		}
	}
	if err := o.takeApart(ctx, tenant); err != nil {
		return err
	}
	if err := o.accounts.Delete(ctx, tenant); err != nil && !errors.Is(err, fault.NotFound) {
		return fault.Wrap(kindOf(err), err, "the sandbox of tenant %q is destroyed, but its account is not", tenant).
			WithHint("run the same command again when the cause is mended")
	}
	return nil
}

// destroyTries bounds racing with a tenant that starts commands as fast as they are ended.
const destroyTries = 20

// takeApart ends all that the tenant runs and destroys its sandbox. Its tokens go first, so that no new request comes; one that
// was under way may still start a command, for which the sandbox is busy again and another round is made. Handles are forgotten
// last: a later tenant of this name must not find one.
func (o *Operator) takeApart(ctx context.Context, tenant string) error {
	err := o.accounts.Revoke(ctx, tenant)
	// A disk that the tenant has filled must not save it: its tokens are refused for now, and the next steps make room.
	if err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, account.ErrNotKept) {
		return fmt.Errorf("cannot revoke the tokens of tenant %q: %w", tenant, err)
	}
	for try := 1; ; try++ {
		if err := o.jobs.DropTenant(ctx, tenant); err != nil {
			return fmt.Errorf("cannot end the commands of tenant %q: %w", tenant, err)
		}
		err := o.jails.Destroy(ctx, tenant)
		if err == nil || errors.Is(err, fault.NotFound) {
			break
		}
		if !errors.Is(err, fault.Busy) || try == destroyTries {
			return fmt.Errorf("cannot destroy the sandbox of tenant %q: %w", tenant, err)
		}
	}
	return o.jobs.DropTenant(ctx, tenant)
}

// find returns the tenant's account and sandbox, of which one may be missing, or fault.NotFound when both are.
func (o *Operator) find(ctx context.Context, tenant string) (*account.Tenant, *jail.Sandbox, error) {
	if err := tenancy.ValidName(tenant); err != nil {
		return nil, nil, err
	}
	acct, accountErr := o.accounts.Get(ctx, tenant)
	if accountErr != nil && !errors.Is(accountErr, fault.NotFound) {
		return nil, nil, accountErr
	}
	sandbox, err := o.jails.Get(ctx, tenant)
	switch {
	case err != nil && !errors.Is(err, fault.NotFound):
		return nil, nil, err
	case err != nil && accountErr != nil:
		return nil, nil, accountErr
	case err != nil:
		return &acct, nil, nil
	case accountErr != nil:
		return nil, &sandbox, nil
	}
	return &acct, &sandbox, nil
}

// idle returns fault.Busy while the tenant runs commands, or has workers running.
func (o *Operator) idle(ctx context.Context, tenant, hint string) error {
	status, err := o.jobs.Status(ctx)
	if err != nil {
		return err
	}
	now := status.PerTenant[tenant]
	switch {
	case now.Active > 0:
		return fault.New(fault.Busy, "tenant %q runs commands now: %d", tenant, now.Active).
			WithHint("wait for them or cancel them, or "+hint, tenant)
	case now.Services > 0:
		return fault.New(fault.Busy, "tenant %q has faculty workers running: %d", tenant, now.Services).
			WithHint("stop them with playground faculty stop, or "+hint, tenant)
	}
	return nil
}

// kindOf is fault.KindOf, and Unavailable for a caller that left: a wrapped error must have some kind.
func kindOf(err error) fault.Kind {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Unavailable
	}
	return fault.KindOf(err)
}

func byTenant(a, b User) int { return strings.Compare(a.Tenant, b.Tenant) }

// List returns all tenants by name, and beside them whatever has only a sandbox or only an account.
func (o *Operator) List(ctx context.Context) ([]User, error) {
	accounts, err := o.accounts.List(ctx)
	if err != nil {
		return nil, err
	}
	sandboxes, err := o.jails.List(ctx)
	if err != nil {
		return nil, err
	}
	status, err := o.jobs.Status(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*jail.Sandbox, len(sandboxes))
	for i := range sandboxes {
		byName[sandboxes[i].Tenant] = &sandboxes[i]
	}
	users := make([]User, 0, len(accounts))
	for i := range accounts {
		name := accounts[i].Name
		user, err := o.user(ctx, name, &accounts[i], byName[name], status)
		if err != nil {
			return nil, err
		}
		users = append(users, user)
		delete(byName, name)
	}
	for name, sandbox := range byName {
		user, err := o.user(ctx, name, nil, sandbox, status)
		if err != nil {
			return nil, err
		}
		users = append(users, user)
	}
	slices.SortFunc(users, byTenant)
	return users, nil
}
