package faculty

import (
	"context"
	"errors"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
)

// start brings the worker to life, or reports why not. When it reports, it is known whether the service exists. ctx may be cut
// off; life lasts as long as the loop.
func (k *keeper) start(ctx, life context.Context, def Definition) {
	service, err := k.prepareAndStart(ctx, life, def)
	if err != nil {
		problem := err.Error()
		if hint := fault.HintOf(err); hint != "" {
			problem += " (" + hint + ")"
		}
		if ctx.Err() == nil {
			k.note("not started: %s", problem)
		}
		k.tell(life, func(now time.Time) Act {
			return k.machine.Refused(now, problem)
		})
		return
	}
	k.note("started, as %s", service.ID)
	k.tell(life, func(now time.Time) Act {
		k.service, k.health, k.problem = service, nil, ""
		k.work.Go(func() { k.watch(life, service) })
		return k.machine.Started(now)
	})
}

// slow is a start that took too long, mostly because the tenant keeps its sandbox from running anything.
func slow() error {
	return fault.New(fault.Unavailable, "its sandbox was not ready within %v", startLimit).
		WithHint("look what keeps the tenant's sandbox from running a command")
}

// prepareAndStart waits for its turn, makes the sandbox ready and starts the service.
func (k *keeper) prepareAndStart(ctx, life context.Context, def Definition) (job.Service, error) {
	leave, err := k.host.places.take(ctx, def.Tenant)
	if err != nil {
		return job.Service{}, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, slow())
	defer cancel()
	sandbox, err := k.prepare(limited, def)
	if limited.Err() != nil {
		return job.Service{}, context.Cause(limited)
	}
	if err != nil {
		return job.Service{}, err
	}
	spec := job.ServiceSpec{Tenant: def.Tenant, Name: def.service(), Argv: def.argv(sandbox.Isolation), Env: def.environment(k.host.path, sandbox.Persona)}
	callCtx, cancelCall := context.WithTimeout(life, answerLimit)
	defer cancelCall()
	service, err := k.host.reaper.Start(callCtx, spec)
	for err != nil && unknown(err) {
		// Whether it runs is not known, until reaperd says so or is gone with all that it ran.
		if clearErr := k.clear(life, def); clearErr == nil || life.Err() != nil {
			break
		}
		pause(life, againAfter)
	}
	return service, err
}

// prepare ends what is left of the worker, attaches the sandbox and stages the token.
func (k *keeper) prepare(ctx context.Context, def Definition) (jail.Sandbox, error) {
	if err := k.clear(ctx, def); err != nil {
		return jail.Sandbox{}, err
	}
	token, err := k.host.token(def.TokenFile)
	if err != nil {
		return jail.Sandbox{}, err
	}
	defer clear(token)
	sandbox, err := k.attach(ctx, def)
	if err != nil {
		return sandbox, err
	}
	if err := place(def, sandbox); err != nil {
		return sandbox, err
	}
	err = stage(ctx, k.host.reaper, def, sandbox.Isolation, token)
	if errors.Is(err, fault.NotOpen) { // jaild was started anew and has forgotten our handle
		if err := k.host.marks.drop(markHandle, k.id); err != nil {
			return sandbox, err
		}
		if sandbox, err = k.attach(ctx, def); err == nil {
			err = stage(ctx, k.host.reaper, def, sandbox.Isolation, token)
		}
	}
	return sandbox, err
}

// unknown reports whether an error leaves open what reaperd did.
func unknown(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// attach makes sure that we hold a handle of the tenant's sandbox, so that nobody takes it down below the worker. One that an
// earlier process took still counts.
func (k *keeper) attach(ctx context.Context, def Definition) (jail.Sandbox, error) {
	if held, ok := k.host.marks.get(markHandle, k.id); ok {
		sandbox, err := k.host.jails.Get(ctx, def.Tenant)
		if err != nil || sandbox.ID == held { // else it is another tenant of that name
			return sandbox, err
		}
	}
	sandbox, err := k.host.jails.Open(ctx, def.Tenant, jail.OpenOptions{})
	if err != nil {
		return sandbox, err
	}
	return sandbox, k.host.marks.set(markHandle, k.id, sandbox.ID)
}

// release takes the token out of the sandbox and gives the handle back.
func (k *keeper) release(ctx context.Context, def Definition) {
	if _, ok := k.host.marks.get(markHandle, k.id); !ok {
		return
	}
	limited, cancel := context.WithTimeout(ctx, releaseLimit)
	unstage(limited, k.host.reaper, def)
	cancel()
	// With a time of its own: a sandbox in which nothing runs any more must be given back too.
	limited, cancel = context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	_, err := k.host.jails.Close(limited, def.Tenant)
	if err == nil || errors.Is(err, fault.NotFound) || errors.Is(err, fault.NotOpen) {
		err = k.host.marks.drop(markHandle, k.id)
	}
	k.say(err)
}

// clear ends what is left of the worker: of an earlier process, or of a start whose outcome nobody heard.
func (k *keeper) clear(ctx context.Context, def Definition) error {
	services, err := k.host.reaper.Services(ctx)
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.Tenant != def.Tenant || s.Name != def.service() || s.State == job.Terminal {
			continue
		}
		if _, err := k.host.reaper.Stop(ctx, s.ID); err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
