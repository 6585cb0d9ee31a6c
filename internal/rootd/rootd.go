// Package rootd is what the root daemons' programs have in common: flags, configuration, log, who may call, and the socket.
// They have no TCP, and no parser of hostile bytes beyond small JSON bodies from root and the transport's user.
package rootd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/daemon"
	"playground/fault"
	"playground/launch"
	"playground/localapi"
)

// A Host is a root daemon's surroundings.
type Host struct {
	Config   config.Config
	Log      zerolog.Logger
	Security daemon.SecurityLog
	Callers  localapi.Access // root, the daemon's own uid, and the transport's
	Own      localapi.Access // root and the daemon's own uid

	transportGID int // group of the sockets; -1 = as made
}

// Main parses the flags every daemon has and, unless they ask for something shorter, calls serve. socket is where it will
// listen. Main returns the exit status: 0 ok, 1 failure, 2 usage.
func Main(name string, socket func(config.Config) string, args []string, stdout, stderr io.Writer, serve func(context.Context, Host) error) int {
	return MainChecked(name, socket, func(config.Config) error { return nil }, args, stdout, stderr, serve)
}

// MainChecked is Main for a daemon with files of its own, which check looks at for -t.
func MainChecked(name string, socket func(config.Config) string, check func(config.Config) error, args []string, stdout, stderr io.Writer, serve func(context.Context, Host) error) int {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	flags := daemon.Flags(fs)
	ready := fs.Duration("ready", 0, "wait at most this `duration` until the running daemon answers, and exit")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", name, fs.Arg(0))
		return 2
	}
	if flags.Version {
		fmt.Fprintln(stdout, daemon.Banner(name))
		return 0
	}
	cfg, err := config.Load(flags.Config)
	if err == nil && flags.Test {
		err = check(cfg)
	}
	if err == nil && flags.Test {
		fmt.Fprintf(stdout, "%s: %s is correct\n", name, flags.Config)
		return 0
	}
	switch {
	case err != nil:
	case *ready > 0:
		err = waitReady(context.Background(), name, socket(cfg), *ready)
	default:
		err = start(name, cfg, stderr, serve)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		if hint := fault.HintOf(err); hint != "" {
			fmt.Fprintf(stderr, "hint: %s\n", hint)
		}
		return 1
	}
	return 0
}

func start(name string, cfg config.Config, stderr io.Writer, serve func(context.Context, Host) error) error {
	daemon.CatchBrokenPipes()
	log, err := daemon.Logger(stderr, cfg.Log.Level, name)
	if err != nil {
		return err
	}
	if err := makeStateDir(cfg.Host.StateDir); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot make the state folder").WithHint("set host.state_dir to a folder this user may make")
	}
	held, err := lock(context.Background(), cfg.Host.StateDir, name, lockWait, log)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }() // nothing was written
	own := []uint32{0, uint32(os.Geteuid())}
	h := Host{Config: cfg, Log: log, Security: daemon.Security(log), Own: localapi.Uids(own...), Callers: localapi.Uids(own...), transportGID: -1}
	if os.Geteuid() == 0 {
		// Without that user (a developer's machine) the transport runs as root too.
		if u, err := user.Lookup(cfg.Host.DaemonUser); err == nil {
			uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
			gid, gidErr := strconv.Atoi(u.Gid)
			if uidErr != nil || gidErr != nil {
				return fmt.Errorf("cannot use user %q: its ids are not numbers", cfg.Host.DaemonUser)
			}
			h.Callers, h.transportGID = localapi.Uids(append(own, uint32(uid))...), gid
		}
	}
	uid := uint32(os.Geteuid())
	h.Security.Record(daemon.Started, daemon.SecurityFields{UID: &uid})
	return serve(context.Background(), h)
}

// eventRequestFailed is a log event's name.
const eventRequestFailed = "request_failed"

// Serve returns the task that answers the routes on the socket at path.
func (h Host) Serve(path string, routes []localapi.Route, maxBody int64) (daemon.Task, error) {
	if err := h.makeRunDir(); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot make the folder for sockets").WithHint("set host.run_dir to a folder this user may make")
	}
	listener, err := localapi.Listen(path, 0o660)
	if err != nil {
		return nil, err
	}
	if h.transportGID >= 0 {
		if err := os.Chown(path, -1, h.transportGID); err != nil {
			listener.Close()
			return nil, fmt.Errorf("cannot give the socket to the transport's group: %w", err)
		}
	}
	return daemon.HTTPTask("socket", h.server(routes, maxBody), net.Listener(listener)), nil
}

// makeRunDir makes the folder for sockets. The transport's group may reach them and cannot make any: whoever put a socket in
// jaild's place while that is down could tell reaperd, which trusts it, what to run where.
func (h Host) makeRunDir() error {
	dir := h.Config.Host.RunDir
	if h.transportGID < 0 {
		return os.MkdirAll(dir, 0o750)
	}
	return launch.RunDir(dir, h.transportGID)
}

func (h Host) server(routes []localapi.Route, maxBody int64) *http.Server {
	return localapi.Server(localapi.Handler(routes, localapi.Options{MaxBody: maxBody, OnError: h.logError}))
}

// logError keeps what went wrong for the operator: refusals of strangers as security events, own faults as errors.
func (h Host) logError(r *http.Request, err error) {
	switch kind := fault.KindOf(err); kind {
	case fault.Denied:
		peer := localapi.PeerOf(r.Context())
		h.Security.Record(daemon.Denied, daemon.SecurityFields{UID: &peer.UID, Action: r.Pattern, Reason: err.Error()})
	case fault.Internal, fault.Unavailable, fault.ProofLost:
		h.Log.Error().Str("route", r.Pattern).Str("kind", string(kind)).Err(err).AnErr("cause", errors.Unwrap(err)).Msg(eventRequestFailed)
	}
}
