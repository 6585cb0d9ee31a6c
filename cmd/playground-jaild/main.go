// Command playground-jaild owns the tenants' sandboxes, their storage and their piles. It answers root and the transport's
// user on a local socket.
package main

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"playground/config"
	"playground/daemon"
	"playground/internal/rootd"
	"playground/jail"
	"playground/localapi/jailapi"
)

func main() {
	unix.Umask(0o077)
	os.Exit(rootd.Main("playground-jaild", config.Config.JailSocket, os.Args[1:], os.Stdout, os.Stderr, serve))
}

func serve(ctx context.Context, h rootd.Host) error {
	if err := daemon.UndumpableParent(); err != nil {
		return err
	}
	manager, err := jail.NewManager(options(h.Config))
	if err != nil {
		return err
	}
	if h.Config.Sandbox.Isolation == jail.IsolationNone {
		h.Log.Warn().Msg("ISOLATION_NONE")
	}
	socket, err := h.Serve(h.Config.JailSocket(), jailapi.Routes(manager, jailapi.Access{Callers: h.Callers, Runners: h.Own}), 0)
	if err != nil {
		return err
	}
	// The sandboxes come first, so that they end last: no request finds them gone.
	sandboxes := daemon.NewTask("sandboxes", func(ctx context.Context, ready func()) error {
		ready()
		return manager.Run(ctx)
	})
	return daemon.Run(ctx, h.Log, sandboxes, socket)
}

func options(cfg config.Config) jail.Options {
	opts := jail.Options{
		Prefix:    cfg.Host.Prefix,
		StateDir:  cfg.Host.StateDir,
		Supervise: supervise(cfg.Host.LibexecDir),
		Isolation: cfg.Sandbox.Isolation,
		Network:   cfg.Sandbox.Network,
		HandleTTL: cfg.Sandbox.HandleTTL,
		PileSeed:  cfg.Sandbox.PileSeed,
		Lang:      cfg.Sandbox.Lang,
		Path:      cfg.Sandbox.Path,
		Limits:    cfg.Resources(),
		Warm:      cfg.Jobs.Warm,
		Log:       os.Stderr,
	}
	if os.Geteuid() == 0 && cfg.Sandbox.Isolation == jail.IsolationNamespaces {
		opts.UIDBase = cfg.Sandbox.UIDBase
	}
	return opts
}

// supervise is where the helper program lies: "supervise" once installed, with its full name beside a build's daemons.
func supervise(dir string) string {
	path := filepath.Join(dir, "supervise")
	if _, err := os.Stat(path); err != nil {
		return filepath.Join(dir, "playground-supervise")
	}
	return path
}
