package userapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"playground/account"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi"
	"playground/tenancy"
)

// A Check asks one daemon of the suite whether it is there; the Probe method of its client does it.
type Check struct {
	Name  string
	Probe func(context.Context) (localapi.Probe, error)
}

// Get returns one tenant, or fault.NotFound.
func (o *Operator) Get(ctx context.Context, tenant string) (User, error) {
	acct, sandbox, err := o.find(ctx, tenant)
	if err != nil {
		return User{}, err
	}
	status, err := o.jobs.Status(ctx)
	if err != nil {
		return User{}, err
	}
	return o.user(ctx, tenant, acct, sandbox, status)
}

// user joins what the three owners know of a tenant, and names what does not fit together.
func (o *Operator) user(ctx context.Context, name string, acct *account.Tenant, sandbox *jail.Sandbox, status job.HostStatus) (User, error) {
	counts := status.PerTenant[name]
	user := User{Tenant: name, Sandbox: sandbox, ActiveJobs: counts.Active, RetainedJobs: counts.Retained}
	if sandbox != nil {
		user.Warning = sandbox.Network.Warning()
	}
	if acct == nil {
		user.Problem = fmt.Sprintf("it has a sandbox but no account: run `playground user create %s` again, or `playground user destroy %s`", name, name)
		return user, nil
	}
	switch info, err := o.accounts.Info(ctx, name); {
	case err == nil:
		user.Token = &info
	case !errors.Is(err, fault.NotFound):
		return User{}, err
	}
	switch {
	case sandbox == nil:
		user.Problem = fmt.Sprintf("its sandbox is missing: run `playground user destroy %s`", name)
	case sandbox.ID != acct.SandboxID:
		user.Problem = fmt.Sprintf("its sandbox is not the one it was created with: run `playground user destroy %s`", name)
	}
	return user, nil
}

// account returns fault.NotFound unless the tenant has an account.
func (o *Operator) account(ctx context.Context, tenant string) error {
	if err := tenancy.ValidName(tenant); err != nil {
		return err
	}
	_, err := o.accounts.Get(ctx, tenant)
	return err
}

// Attach opens the tenant's sandbox, as one more handle.
func (o *Operator) Attach(ctx context.Context, tenant string) (User, error) {
	if err := o.account(ctx, tenant); err != nil {
		return User{}, err
	}
	if _, err := o.jails.Open(ctx, tenant, jail.OpenOptions{}); err != nil {
		return User{}, fmt.Errorf("cannot attach tenant %q: %w", tenant, err)
	}
	return o.Get(ctx, tenant)
}

// Detach gives one handle back. The last one takes the kernel object away, so it is refused while commands run.
func (o *Operator) Detach(ctx context.Context, tenant string) (User, error) {
	if err := o.account(ctx, tenant); err != nil {
		return User{}, err
	}
	sandbox, err := o.jails.Get(ctx, tenant)
	if err != nil {
		return User{}, err
	}
	if sandbox.Handles <= 1 {
		if err := o.idle(ctx, tenant, "look at them: playground user list (tenant %s)"); err != nil {
			return User{}, err
		}
	}
	if _, err := o.jails.Close(ctx, tenant); errors.Is(err, fault.NotOpen) {
		// Not jaild's own words: they name a tool, which an operator does not have.
		return User{}, fault.New(fault.NotOpen, "tenant %q is not attached", tenant).WithHint("nothing is to be done; see who is: playground user list")
	} else if err != nil {
		return User{}, fmt.Errorf("cannot detach tenant %q: %w", tenant, err)
	}
	return o.Get(ctx, tenant)
}

// Token describes the tenant's newest token, without its secret.
func (o *Operator) Token(ctx context.Context, tenant string) (account.TokenInfo, error) {
	if err := o.account(ctx, tenant); err != nil {
		return account.TokenInfo{}, err
	}
	return o.accounts.Info(ctx, tenant)
}

// ResetToken revokes the tenant's tokens and mints a new one.
func (o *Operator) ResetToken(ctx context.Context, tenant string) (NewToken, error) {
	if err := o.account(ctx, tenant); err != nil {
		return NewToken{}, err
	}
	token, info, err := o.accounts.Reset(ctx, tenant)
	return NewToken{Token: token, Info: info}, err
}

// RevokeToken revokes the tenant's tokens. They fail from now on; what runs already goes on.
func (o *Operator) RevokeToken(ctx context.Context, tenant string) error {
	if err := o.account(ctx, tenant); err != nil {
		return err
	}
	return o.accounts.Revoke(ctx, tenant)
}

// Status reports the suite. A daemon that cannot be reached is part of the answer, not an error.
func (o *Operator) Status(ctx context.Context) (Status, error) {
	s := Status{Version: o.about.Version, Isolation: o.about.Isolation, Daemons: []Daemon{}}
	accounts, err := o.accounts.List(ctx)
	if err != nil {
		return Status{}, err
	}
	s.Tenants = len(accounts)
	for _, check := range o.about.Daemons {
		s.Daemons = append(s.Daemons, check.daemon(ctx))
	}
	host, err := o.jobs.Status(ctx)
	switch {
	case err == nil:
		s.ActiveJobs, s.RetainedJobs, s.Lost, s.Draining = host.Active, host.Retained, host.Lost, host.Draining
	case !errors.Is(err, fault.Unavailable):
		return Status{}, err
	default: // there is nobody to ask for more
		return s, nil
	}
	if s.Usage, err = o.jobs.Usage(ctx); err != nil {
		s.UsageError = err.Error()
	}
	return s, nil
}

func (c Check) daemon(ctx context.Context) Daemon {
	probe, err := c.Probe(ctx)
	if err != nil {
		return Daemon{Name: c.Name, State: Down, Error: err.Error(), Hint: fault.HintOf(err)}
	}
	uptime := max(0, time.Since(probe.Since))
	return Daemon{Name: c.Name, State: Up, Pid: int(probe.PID), Since: probe.Since, UptimeS: int64(uptime / time.Second)}
}
