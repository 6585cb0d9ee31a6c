package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"playground/fault"
	"playground/suite"
)

// A stage is a running suite in a folder of its own.
type stage struct {
	suite  *suite.Suite
	cancel context.CancelFunc
	ended  chan error
}

// startStage starts the suite and returns when it is ready. Change, unless it is nil, makes another configuration of the one
// that a new state folder gets; it may write files into the folder.
func startStage(ctx context.Context, o Options, change func(dir, text string) (string, error)) (*stage, error) {
	state, err := stateFolder(o.State)
	if err != nil {
		return nil, err
	}
	listen, err := freePort()
	if err != nil {
		return nil, errors.Join(err, suite.Remove(state))
	}
	opened, err := suite.Open(suite.Options{State: state, Listen: listen, Bin: o.Bin, Edit: change})
	if err != nil {
		return nil, errors.Join(err, suite.Remove(state))
	}
	// The suite ends when stop says so and not with ctx: a job that is being measured then must not look like a failure.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stage{suite: opened, cancel: cancel, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() { s.ended <- opened.Run(running, func() { close(ready) }) }()
	select {
	case <-ready:
		return s, nil
	case err = <-s.ended:
		s.ended <- nil // stop takes it
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, s.stop())
}

// stop ends the suite and removes its folder.
func (s *stage) stop() error {
	s.cancel()
	err := <-s.ended
	s.suite.Close()
	return errors.Join(err, suite.Remove(s.suite.Dir))
}

// logs returns the ends of the daemons' logs.
func (s *stage) logs() string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(s.suite.LogDir(), "*.log")) // the pattern is sound
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err == nil {
			fmt.Fprintf(&b, "-- %s\n%s\n", filepath.Base(path), text[max(0, len(text)-1500):])
		}
	}
	return b.String()
}

// stateFolder makes the folder. It refuses one that is there already, because it will remove it.
func stateFolder(dir string) (string, error) {
	if dir != "" {
		if err := os.Mkdir(dir, 0o711); err != nil {
			return "", fault.Wrap(fault.Invalid, err, "cannot make the state folder").WithHint("name one that does not exist: it is removed at the end")
		}
		return dir, nil
	}
	base := os.TempDir()
	if len(base) > 40 { // the sockets' paths would be too long
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "playground-bench-")
	if err != nil {
		return "", fmt.Errorf("cannot make a temporary folder: %w", err)
	}
	return dir, nil
}

// freePort returns an address of this machine that nobody listens on now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
