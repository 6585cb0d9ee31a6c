// Command playground-jaild owns the tenants' sandboxes, their storage and their piles. It answers root and the transport's
// user on a local socket.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"playground/config"
	"playground/daemon"
	"playground/internal/rootd"
	"playground/jail"
	"playground/localapi/jailapi"
	"playground/preflight"
	"playground/racct"
)

func main() {
	unix.Umask(0o077)
	os.Exit(rootd.Main("playground-jaild", config.Config.JailSocket, os.Args[1:], os.Stdout, os.Stderr, serve))
}

// Log event names.
const (
	eventIsolationNone = "ISOLATION_NONE"
	eventNotReattached = "not_reattached" // a session of an earlier run whose sandbox could not be made again
	eventLeftovers     = "leftovers_stay" // what belongs to no tenant and could not be cleared away
)

func serve(ctx context.Context, h rootd.Host) error {
	// Before this process is undumpable, which makes the probe of user namespaces fail.
	if err := preflight.Sandboxes(ctx, h.Config.HostChecks()).Refusal("sandboxes cannot be made on this host"); err != nil {
		return err
	}
	if err := daemon.UndumpableParent(); err != nil {
		return err
	}
	opts := options(h.Config)
	manager, err := jail.NewManager(opts)
	if err != nil {
		return err
	}
	sandboxes, templates, err := newTemplates(manager, opts)
	if err != nil {
		return err
	}
	if h.Config.Sandbox.Isolation == jail.IsolationNone {
		h.Log.Warn().Msg(eventIsolationNone)
	}
	access := jailapi.Access{Callers: h.Callers, Runners: h.Own, Operators: h.Own}
	audit := jailapi.AuditRoutes(sealer(h.Config.RecordAudit(), h.Config.TransportUser), access)
	socket, err := h.Serve(h.Config.JailSocket(), append(jailapi.Routes(sandboxes, templates, access), audit...), 0)
	if err != nil {
		return err
	}
	// The sandboxes come first, so that they end last: no request finds them gone.
	kept := daemon.NewTask("sandboxes", func(ctx context.Context, ready func()) error {
		logFailed(manager.Reattach(ctx), h.Log)
		ready() // only now is the first request answered
		return manager.Run(ctx)
	})
	return daemon.Run(ctx, h.Log, kept, socket)
}

// logFailed tells which sandboxes of open sessions could not be brought back. That stops nobody: the other tenants must not wait
// for it, and that tenant's next command tries again.
func logFailed(failed map[string]error, log zerolog.Logger) {
	for tenant, err := range failed {
		if tenant == "" {
			log.Error().Err(err).Msg(eventLeftovers)
			continue
		}
		log.Error().Str("tenant", tenant).Err(err).AnErr("cause", errors.Unwrap(err)).Msg(eventNotReattached)
	}
}

func options(cfg config.Config) jail.Options {
	opts := jail.Options{
		Prefix:    cfg.Host.Prefix,
		StateDir:  cfg.Host.StateDir,
		Supervise: rootd.Supervise(cfg.Host.LibexecDir),
		Isolation: cfg.Sandbox.Isolation,
		Network:   cfg.Sandbox.Network,
		HandleTTL: cfg.Sandbox.HandleTTL,
		PileSeed:  cfg.Sandbox.PileSeed,
		Lang:      cfg.Sandbox.Lang,
		Path:      cfg.Sandbox.Path,
		Limits:    racct.Scale(cfg.Resources(), racct.HostMemory()),
		Warm:      cfg.Jobs.Warm,
		Log:       os.Stderr,

		Storage:      cfg.Sandbox.Storage,
		Dataset:      cfg.Sandbox.Dataset,
		Template:     cfg.Sandbox.Template,
		Quota:        cfg.Sandbox.Quota,
		DevfsRuleset: cfg.Sandbox.DevfsRuleset,
		TmpBytes:     cfg.Sandbox.TmpBytes,
		Addresses:    cfg.Sandbox.Addresses,
	}
	if os.Geteuid() == 0 && cfg.Sandbox.Isolation == jail.IsolationNamespaces {
		opts.UIDBase = cfg.Sandbox.UIDBase
	}
	return opts
}
