package main

import (
	"context"
	"path/filepath"
	"sync"

	"playground/fault"
	"playground/jail"
	"playground/localapi/jailapi"
)

// newTemplates returns what the socket's routes about templates do, and the sandboxes as they go together with it.
func newTemplates(m *jail.Manager, opts jail.Options) (jailapi.Sandboxes, jailapi.Templates, error) {
	if opts.Isolation != jail.IsolationJail {
		return m, noTemplates{opts.Isolation}, nil
	}
	// The kernel's table names mounts by their real paths, and they are looked for in it.
	dir, err := filepath.EvalSymlinks(opts.StateDir)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Unavailable, err, "cannot find the state folder")
	}
	opts.StateDir = dir
	kept, err := jail.NewTemplates(opts)
	if err != nil {
		return nil, nil, err
	}
	t := &templates{kept: kept}
	return provisioner{m, &t.inUse}, t, nil
}

// noTemplates refuses: there is nothing that would be made from a template, so that making one must not seem to work.
type noTemplates struct{ isolation jail.Isolation }

func (n noTemplates) refuse() error {
	return fault.New(fault.Unsupported, "there are no templates with isolation %q: tenants use the host's own system", n.isolation).
		WithHint("templates are for FreeBSD jails; tenants can be made without one: playground user create NAME")
}

func (n noTemplates) Create(context.Context, string, string) (jail.Template, error) {
	return jail.Template{}, n.refuse()
}

func (n noTemplates) List(context.Context) ([]jail.Template, error) { return nil, n.refuse() }

func (n noTemplates) Destroy(context.Context, string) error { return n.refuse() }

// templates makes the operator's acts follow each other, and keeps a template while a sandbox is being made.
type templates struct {
	kept  *jail.Templates
	turn  sync.Mutex   // one change at a time
	inUse sync.RWMutex // read-locked while a sandbox is being made, which may be from any template
}

func (t *templates) Create(ctx context.Context, name, source string) (jail.Template, error) {
	unlock, err := t.take()
	if err != nil {
		return jail.Template{}, err
	}
	defer unlock()
	return t.kept.Create(ctx, name, source)
}

func (t *templates) List(ctx context.Context) ([]jail.Template, error) { return t.kept.List(ctx) }

func (t *templates) Destroy(ctx context.Context, name string) error {
	unlock, err := t.take()
	if err != nil {
		return err
	}
	defer unlock()
	t.inUse.Lock()
	defer t.inUse.Unlock()
	return t.kept.Destroy(ctx, name)
}

// take refuses rather than waits: a creation takes minutes, and a second one is a mistake more often than not.
func (t *templates) take() (unlock func(), err error) {
	if !t.turn.TryLock() {
		return nil, fault.New(fault.Busy, "another template is being made or destroyed").WithHint("wait for it, then run the command again")
	}
	return t.turn.Unlock, nil
}

// A provisioner is a Manager under which no template goes away while a sandbox is made from it.
type provisioner struct {
	*jail.Manager
	inUse *sync.RWMutex
}

func (p provisioner) Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error) {
	p.inUse.RLock()
	defer p.inUse.RUnlock()
	return p.Manager.Provision(ctx, spec)
}
