package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"playground/jail"
	"playground/suite"
	"playground/version"
)

// UpOptions are the flags of "playground up".
type UpOptions struct {
	State     string
	Listen    string
	Isolation string
}

// Up runs the whole suite from one state folder until a signal comes in; a second signal kills the daemons.
func (e *Env) Up(ctx context.Context, o UpOptions, signals <-chan os.Signal) error {
	standard, stateErr := e.StateDir()
	if o.State == "" {
		if stateErr != nil {
			return stateErr
		}
		o.State = standard
	}
	s, err := suite.Open(suite.Options{State: o.State, Listen: o.Listen, Isolation: o.Isolation, Bin: e.Bin, Say: e.sayer()})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(e.Stderr, "playground %s, state folder %s\n", version.String(), s.Dir)
	if s.Config.Sandbox.Isolation == jail.IsolationNone {
		fmt.Fprint(e.Stderr, noIsolation)
	}
	if err := check(ctx, s.Config).Refusal("this host cannot run the suite"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watcher sync.WaitGroup
	over := make(chan struct{})
	watcher.Go(func() { watchSignals(signals, over, cancel, s.Kill) })
	err = s.Run(ctx, func() {
		if s.Serving() {
			e.whatNext(s, s.Dir == standard)
			return
		}
		fmt.Fprintf(e.Stdout, "\nThe suite does not serve yet. Look at %s, then, in another terminal:\n  %s ack\n\n", s.LogDir(), e.command(s, s.Dir == standard))
	})
	close(over)
	watcher.Wait()
	if err == nil {
		fmt.Fprintln(e.Stderr, "stopped; nothing is left running")
	}
	return err
}

// noIsolation is what every start without isolation says.
const noIsolation = `
  *** NO ISOLATION ***  sandbox.isolation is "none": commands of tenants run as your own user, with your files.
  *** Use it for demonstrations only, never with a client or a model that you do not trust.

`

// sayer returns a function that prints one line of news at a time, with the time of day.
func (e *Env) sayer() func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(e.Stderr, "%s  %s\n", time.Now().Format("15:04:05"), line)
	}
}

// watchSignals turns the first signal into a stop and the second into a kill, until over is closed.
func watchSignals(signals <-chan os.Signal, over <-chan struct{}, stop, kill func()) {
	for _, act := range []func(){stop, kill} {
		select {
		case <-signals:
			act()
		case <-over:
			return
		}
	}
}

// command is how to call this program for the suite; a second terminal finds the standard state folder by itself.
func (e *Env) command(s *suite.Suite, standard bool) string {
	command := filepath.Join(e.Bin, "playground")
	if !standard {
		command += " -c " + s.ConfigPath
	}
	return command
}

// whatNext says where things are and what to type.
func (e *Env) whatNext(s *suite.Suite, standard bool) {
	command := e.command(s, standard)
	url := "http://" + s.Config.HTTP.Listen + "/mcp"
	fmt.Fprintf(e.Stdout, `
The suite is up.
  MCP endpoint    %s
  configuration   %s
  logs            %s

Next, in another terminal:
  %s user create alice      make a tenant; prints its token, once
  %s status                 see what runs
  %s doctor                 check this host

Then give an MCP client the endpoint and the token, for example:
  claude mcp add --transport http playground %s --header "Authorization: Bearer TOKEN"
or, on this machine and without a token:
  %s mcp --tenant alice

Ctrl-C stops everything.
`, url, s.ConfigPath, s.LogDir(), command, command, command, url, command)
}
