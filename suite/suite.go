// Package suite runs the daemons of a host from one state folder, as "playground up" does: an ordinary user needs
// no service manager and no root. It writes a first configuration, starts the daemons in order and waits for each one's
// READY=1 (sd_notify(3)), starts one that dies again, and stops them in reverse order.
//
// No daemon outlives the process that runs a Suite: each asks the kernel for SIGTERM at its parent's death (prctl(2)
// PR_SET_PDEATHSIG, procctl(2) PROC_PDEATHSIG_CTL).
package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"playground/config"
)

// Options say what to run and where.
type Options struct {
	State     string // the state folder; made if missing
	Listen    string // host:port for MCP; empty = what the configuration says
	Isolation string // "auto", "namespaces", "none", ...; empty = what the configuration says
	Bin       string // the folder that holds the daemons
	// Edit, unless it is nil, returns another text for the configuration that a new state folder gets. It may write files into
	// the folder, dir.
	Edit func(dir, text string) (string, error)
	// Say takes one line of news for the operator. It may be called by several goroutines at once.
	Say func(line string)
}

// A Suite is a state folder that this process holds the lock of.
type Suite struct {
	Dir        string        // the state folder
	ConfigPath string        // its configuration file
	Config     config.Config // as read when the Suite was opened

	say      func(string)
	lock     *os.File
	bin      string
	kill     chan struct{} // closed: end the daemons at once
	killOnce sync.Once
	lost     atomic.Bool // at the first start, a daemon waited for "playground ack"
	fresh    bool        // this start wrote the configuration
}

// Open prepares the state folder and takes its lock. The caller must Close the Suite.
func Open(o Options) (*Suite, error) {
	s := &Suite{say: o.Say, bin: o.Bin, kill: make(chan struct{})}
	if s.say == nil {
		s.say = func(string) {}
	}
	var err error
	if s.Dir, err = makeState(o.State); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(s.Dir); err != nil {
		return nil, err
	}
	s.ConfigPath = filepath.Join(s.Dir, ConfigName)
	if s.Config, err = s.configure(o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the state folder's lock back. It must not be called while Run runs.
func (s *Suite) Close() {
	_ = s.lock.Close() // closing gives the lock back whatever close(2) says
}

// Kill makes a running Run end its daemons with SIGKILL instead of waiting for them. It may be called more than once.
func (s *Suite) Kill() { s.killOnce.Do(func() { close(s.kill) }) }

// LogDir returns the folder of the daemons' logs.
func (s *Suite) LogDir() string { return filepath.Join(s.Dir, "log") }

// A program is a daemon, with the longest time its stop may take: reaperd has to prove every job's end, and no wait may be
// endless.
type program struct {
	name  string
	grace time.Duration
}

// programs are the daemons in the order of their start. Who decides about faculty workers runs only where some are defined.
func (s *Suite) programs() []program {
	list := []program{{"playground-jaild", 20 * time.Second}, {"playground-reaperd", time.Minute}}
	if s.Config.Faculty.Definitions != "" {
		list = append(list, program{"playground-facultyd", time.Minute})
	}
	return append(list, program{"playgroundd", 30 * time.Second})
}

// Serving reports, once Run has called ready, whether all daemons serve: one may wait for "playground ack".
func (s *Suite) Serving() bool { return !s.lost.Load() }

// Run starts the daemons, calls ready once all of them are, keeps them alive until ctx ends, and stops them. It returns
// nil after a stop that was asked for, and when it returns no daemon runs.
func (s *Suite) Run(ctx context.Context, ready func()) error {
	started := false
	defer func() {
		if s.fresh && !started { // a first try that failed must not hold the next one to its options
			os.Remove(s.ConfigPath)
		}
	}()
	starter := newStarter()
	defer starter.close()
	var running []*keeper
	defer func() {
		for i := len(running) - 1; i >= 0; i-- {
			running[i].stop()
		}
	}()
	for _, program := range s.programs() {
		k, err := s.keep(program.name, program.grace, starter)
		if err != nil {
			return err
		}
		running = append(running, k)
		switch err := k.firstStart(ctx); {
		case errors.Is(err, errProofLost):
			s.lost.Store(true)
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	started = true
	ready()
	<-ctx.Done()
	s.say("stopping")
	return nil
}

// keep makes the keeper of one daemon and starts its work.
func (s *Suite) keep(name string, grace time.Duration, starter *starter) (*keeper, error) {
	notify, err := listenNotify(filepath.Join(s.Config.Host.RunDir, name+".notify"))
	if err != nil {
		return nil, err
	}
	k := &keeper{
		name: name, path: filepath.Join(s.bin, name), args: []string{"-c", s.ConfigPath},
		log: filepath.Join(s.LogDir(), name+".log"), grace: grace,
		say: s.say, kill: s.kill, start: starter.start, notify: notify,
		quit: make(chan struct{}), done: make(chan struct{}), first: make(chan error, 1),
	}
	go k.run()
	return k, nil
}
