// Command playground-launch stands between daemon(8) and playgroundd. As root it checks the host, opens the listening
// sockets, and then becomes the daemon's user and playgroundd, in the same process. A failed check refuses the start and says
// what mends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"playground/config"
	"playground/daemon"
	"playground/fault"
	"playground/launch"
	"playground/localapi"
	"playground/preflight"
)

func main() {
	// The first thing: see Reserve.
	slots, err := launch.Reserve(maxSockets)
	if err == nil {
		unix.Umask(0o077)
		err = run(context.Background(), slots, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
	}
	os.Exit(1)
}

const (
	name = "playground-launch"
	// maxSockets are the MCP endpoint, the operator's socket and the metrics.
	maxSockets = 3
	// defaultProgram is where the package installs the daemon.
	defaultProgram = "/usr/local/sbin/playgroundd"
)

// errUsage is a command line that was refused; the flag package has said why.
var errUsage = errors.New("bad usage")

func run(ctx context.Context, slots *launch.Slots, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(stderr)
	options := daemon.Flags(set)
	program := set.String("program", defaultProgram, "become this `file`")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage
	}
	if set.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", name, set.Arg(0))
		return errUsage
	}
	if options.Version {
		_, err := fmt.Fprintln(stdout, daemon.Banner(name))
		return err
	}
	c, err := config.Load(options.Config)
	if err != nil {
		return err
	}
	if err := gate(ctx, c, stderr); err != nil {
		return err
	}
	if options.Test {
		_, err := fmt.Fprintf(stdout, "%s: %s is correct, and this host can run the suite\n", name, options.Config)
		return err
	}
	return start(c, slots, *program, options.Config)
}

// gate refuses a host that failed a check of "playground doctor".
func gate(ctx context.Context, c config.Config, stderr io.Writer) error {
	report := preflight.Run(ctx, c.HostChecks())
	if err := report.WriteFailures(stderr); err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return fault.New(fault.Unavailable, "the start is refused: %d of %d checks of this host failed", len(failed), len(report.Checks)).
			WithHint("mend what is named above; playground doctor shows all checks")
	}
	return nil
}

// start does what needs root, and becomes the daemon.
func start(c config.Config, slots *launch.Slots, program, configPath string) error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Denied, "only root can become the user %q", c.Host.DaemonUser).WithHint("service playground start")
	}
	who, err := launch.Lookup(c.Host.DaemonUser)
	if err != nil {
		return err
	}
	configPath, err = filepath.Abs(configPath) // the working folder changes
	if err != nil {
		return fmt.Errorf("cannot find the configuration: %w", err)
	}
	folders := launch.Folders{State: c.Host.StateDir, Run: c.Host.RunDir, Own: c.TransportDir()}
	if err := folders.Make(who); err != nil {
		return err
	}
	if err := listen(c, who, slots); err != nil {
		return err
	}
	return slots.Become(who, program, "-c", configPath)
}

// listen opens the sockets. None is closed here: the daemon inherits them.
func listen(c config.Config, who launch.Identity, slots *launch.Slots) error {
	if err := listenTCP(slots, "mcp", "http.listen", c.HTTP.Listen); err != nil {
		return err
	}
	// The daemon's group may use it as a folder's guest; who may ask for what is decided by the caller's uid.
	operator, err := localapi.Listen(c.OperatorSocket(), 0o660)
	if err != nil {
		return err
	}
	if err := os.Chown(c.OperatorSocket(), 0, who.GID); err != nil {
		return fmt.Errorf("cannot give the operator's socket to the daemon's group: %w", err)
	}
	if err := pass(slots, "operator", operator); err != nil {
		return err
	}
	if c.HTTP.MetricsListen == "" {
		return nil
	}
	return listenTCP(slots, "metrics", "http.metrics_listen", c.HTTP.MetricsListen)
}

func listenTCP(slots *launch.Slots, name, key, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot listen at %s", address).
			WithHint("another program may have the port; change %s in the configuration", key)
	}
	return pass(slots, name, listener.(*net.TCPListener)) // by the network's name
}

func pass(slots *launch.Slots, name string, listener interface{ File() (*os.File, error) }) error {
	file, err := listener.File()
	if err != nil {
		return fmt.Errorf("cannot pass socket %q: %w", name, err)
	}
	return slots.Add(name, file)
}
