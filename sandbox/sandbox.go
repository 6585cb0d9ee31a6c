// Package sandbox is what the agent's tools call: sessions, commands, jobs and file exchange of one tenant, over the two
// root daemons that own them. It holds no state. Every call names its tenant, as authenticated, and a session id is only
// ever compared with that tenant's own: it is a name, not a capability, and a foreign id reads exactly like an unknown one.
//
// File exchange runs small shell scripts in the sandbox (see read.go and write.go), so that a file is opened with the
// tenant's own rights, inside the tenant's own view of the file system, and never by a daemon.
package sandbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
)

// Jails is the owner of tenants' sandboxes (jaild).
type Jails interface {
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant string) (jail.Sandbox, error)
	Get(ctx context.Context, tenant string) (jail.Sandbox, error)
}

// Jobs is the owner of everything that runs (reaperd).
type Jobs interface {
	Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error)
	Start(ctx context.Context, spec job.Spec) (job.Status, error)
	Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error)
	Cancel(ctx context.Context, tenant, id string) (job.Status, error)
}

// Options are a Provider's fixed values.
type Options struct {
	Prefix    string // of session ids: "<prefix>-<tenant>"
	FileBytes int    // the largest file that read returns and write takes; 0 = 3 MiB
}

// A Command is one command line for a sandbox.
type Command struct {
	Text    string
	Cwd     string
	Stdin   []byte        // nil = no input
	Timeout time.Duration // 0 = the host's default
}

// A Provider serves all tenants. It is safe for concurrent use.
type Provider struct {
	jails   Jails
	jobs    Jobs
	options Options
}

// New returns a Provider over the two daemons.
func New(jails Jails, jobs Jobs, options Options) *Provider {
	if options.FileBytes <= 0 {
		options.FileBytes = 3 << 20
	}
	return &Provider{jails: jails, jobs: jobs, options: options}
}

// FileBytes returns the largest file that Read returns and Write takes.
func (p *Provider) FileBytes() int { return p.options.FileBytes }

// Session returns the id of the tenant's session, open or not.
func (p *Provider) Session(tenant string) string { return p.options.Prefix + "-" + tenant }

// Open opens the tenant's session, or adds a handle to it.
func (p *Provider) Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error) {
	if err := checkCwd(options.Cwd); err != nil {
		return jail.Sandbox{}, err
	}
	if err := options.Validate(); err != nil { // jaild refuses the same, a round trip later
		return jail.Sandbox{}, err
	}
	sandbox, err := p.jails.Open(ctx, tenant, options)
	return sandbox, daemonError(err)
}

// Close gives back one handle of the tenant's session.
func (p *Provider) Close(ctx context.Context, tenant, session string) (jail.Sandbox, error) {
	if err := p.check(tenant, session); err != nil {
		return jail.Sandbox{}, err
	}
	sandbox, err := p.jails.Close(ctx, tenant)
	return sandbox, daemonError(err)
}

// Exec runs a command to its end. The execution holds the first head and the last tail bytes of each output stream.
func (p *Provider) Exec(ctx context.Context, tenant, session string, command Command, head, tail int) (job.Execution, error) {
	spec, err := p.spec(tenant, session, command)
	if err != nil {
		return job.Execution{}, err
	}
	execution, err := p.jobs.Exec(ctx, spec, head, tail)
	return execution, daemonError(err)
}

// JobStart starts a command as a job and returns without waiting for it.
func (p *Provider) JobStart(ctx context.Context, tenant, session string, command Command) (job.Status, error) {
	spec, err := p.spec(tenant, session, command)
	if err != nil {
		return job.Status{}, err
	}
	status, err := p.jobs.Start(ctx, spec)
	return status, daemonError(err)
}

// JobPoll returns the job's output from cursor on, after waiting up to wait for news.
func (p *Provider) JobPoll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error) {
	page, err := p.jobs.Poll(ctx, tenant, id, cursor, wait)
	return page, daemonError(err)
}

// JobCancel starts to end the job. It is idempotent.
func (p *Provider) JobCancel(ctx context.Context, tenant, id string) (job.Status, error) {
	status, err := p.jobs.Cancel(ctx, tenant, id)
	return status, daemonError(err)
}

// spec checks a command and makes it the job's: a login shell, as a person at a terminal would get.
func (p *Provider) spec(tenant, session string, command Command) (job.Spec, error) {
	if err := p.check(tenant, session); err != nil {
		return job.Spec{}, err
	}
	if command.Text == "" {
		return job.Spec{}, fault.New(fault.Invalid, "the command is empty").WithHint("give shell text, such as: ls -la")
	}
	if strings.IndexByte(command.Text, 0) >= 0 {
		return job.Spec{}, fault.New(fault.Invalid, "the command holds a NUL byte").
			WithHint("write the bytes to a file with write, or let the command make them: printf '\\000'")
	}
	if err := checkCwd(command.Cwd); err != nil {
		return job.Spec{}, err
	}
	return job.Spec{
		Tenant:  tenant,
		Command: []byte(command.Text),
		Mode:    job.Login,
		Cwd:     command.Cwd,
		Stdin:   command.Stdin,
		Timeout: command.Timeout,
	}, nil
}

// check refuses every session but the caller's own, with one text.
func (p *Provider) check(tenant, session string) error {
	if tenant == "" || session != p.Session(tenant) {
		return unknownSession()
	}
	return nil
}

// daemonError makes an error of the root daemons fit for a tenant. A session that is not open reads like an unknown one,
// because the next step is the same. Texts that the daemons write for the operator (they name sockets, programs and
// folders of the host) are kept for the log only; the tenant learns what to do.
func daemonError(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	switch e.Kind {
	case fault.NotOpen:
		return unknownSession()
	case fault.Invalid:
		if hint := NextStep(e.Message); hint != "" && e.Hint == "" {
			return fault.New(e.Kind, "%s", e.Message).WithHint("%s", hint)
		}
	case fault.Unavailable, fault.Denied, fault.Unsupported:
		// A cause means that it arose on this side of the socket: a daemon that does not answer.
		if e.Err == nil && !strings.Contains(e.Message, "/") {
			return err
		}
		hidden := fault.New(fault.Unavailable, "the sandbox service cannot do this now").
			WithHint("try again in a moment; if it lasts, ask the operator to run: playground doctor")
		hidden.Err = err
		return hidden
	}
	return err
}

// NextStep is what to do about a command that was not started, as far as its error is one of a tenant's own making; "" if not.
func NextStep(text string) string {
	if strings.HasPrefix(text, "cannot enter folder") {
		return "give a cwd that is a folder, or make it: exec with cwd / and mkdir -p; a cwd given to open_session holds until another open_session gives one"
	}
	return ""
}

func unknownSession() error {
	return fault.New(fault.NotFound, "unknown session").
		WithHint("call open_session; it returns the session id to use")
}

func checkCwd(cwd string) error {
	if strings.IndexByte(cwd, 0) >= 0 {
		return fault.New(fault.Invalid, "cwd holds a NUL byte, which no path can").WithHint("give the path of a folder")
	}
	return nil
}
