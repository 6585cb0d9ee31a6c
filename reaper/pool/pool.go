// Package pool keeps supervisors ready (package supervisor): each a process that is a reaper already and waits for the one job
// of its life, so that starting a command costs no more than a message and a fork.
package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"playground/fault"
	"playground/reaper/supervisor"
	"playground/seqpacket"
)

// readyTimeout bounds a supervisor's start; it takes some milliseconds.
const readyTimeout = 15 * time.Second

// A Pool starts supervisors and keeps some ready. All methods may be called at once.
type Pool struct {
	command []string
	warm    int
	stderr  *os.File

	// starting is read-locked while a supervisor is started, so that Quiet can keep the list of processes still.
	starting sync.RWMutex
	fillers  sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	idle    []*Supervisor
	filling int
	closed  bool
}

// New returns a Pool of the given command that keeps warm supervisors ready once the first was taken. Their messages for
// the operator go to stderr.
func New(command []string, warm int, stderr *os.File) *Pool {
	return &Pool{command: command, warm: warm, stderr: stderr}
}

// Take returns a supervisor that is ready for its job; a ready one if there is one.
func (p *Pool) Take(ctx context.Context) (*Supervisor, error) {
	defer p.Fill()
	for {
		s, err := p.takeIdle()
		if err != nil {
			return nil, err
		}
		if s == nil {
			break
		}
		select {
		case <-s.done: // somebody killed it while it waited
			s.Close()
		default:
			return s, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return p.start()
}

// takeIdle returns the supervisor that has waited longest, nil if none waits.
func (p *Pool) takeIdle() (*Supervisor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.Unavailable, "no command can be started: the daemon is stopping")
	}
	if len(p.idle) == 0 {
		return nil, nil
	}
	s := p.idle[0]
	p.idle = p.idle[1:]
	return s, nil
}

// Fill starts supervisors until as many are ready as the pool keeps. It does not wait for them. One that cannot be started
// is tried again, and its error told, by the next Take.
func (p *Pool) Fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; !p.closed && len(p.idle)+p.filling < p.warm; p.filling++ {
		p.fillers.Go(func() {
			s, err := p.start()
			p.mu.Lock()
			p.filling--
			keep := err == nil && !p.closed
			if keep {
				p.idle = append(p.idle, s)
			}
			p.mu.Unlock()
			if err == nil && !keep {
				s.Close()
			}
		})
	}
}

// Quiet calls f while no supervisor is being started.
func (p *Pool) Quiet(f func()) {
	p.starting.Lock()
	defer p.starting.Unlock()
	f()
}

// Close ends the supervisors that wait for a job. Those that have one are not touched.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	p.fillers.Wait()
	for _, s := range idle {
		s.Close()
		<-s.done
	}
}

// start starts a supervisor and waits until it is ready.
func (p *Pool) start() (*Supervisor, error) {
	s, err := p.spawn()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot start a command's supervisor").
			WithHint("install Playground completely, or set host.libexec_dir")
	}
	if err := s.awaitReady(); err != nil {
		s.Close()
		s.kill()
		return nil, fault.Wrap(fault.Unavailable, err, "cannot use a command's supervisor").WithHint("run `playground doctor`")
	}
	return s, nil
}

func (p *Pool) spawn() (*Supervisor, error) {
	p.starting.RLock()
	defer p.starting.RUnlock()
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path:        p.command[0],
		Args:        p.command,
		Env:         []string{"GOMAXPROCS=1"},
		Dir:         "/",
		Stderr:      p.stderr,
		ExtraFiles:  []*os.File{theirs.File()},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // signals from a terminal are for the daemon
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	s := &Supervisor{Pid: cmd.Process.Pid, cmd: cmd, conn: ours, done: make(chan struct{})}
	go func() {
		cmd.Wait() // how it ended says nothing that its words do not
		close(s.done)
	}()
	return s, nil
}

// A Supervisor is one process that is, or will be, above one job.
type Supervisor struct {
	Pid int // names the branch of what it leaves when it is lost

	cmd  *exec.Cmd
	conn *seqpacket.Conn
	done chan struct{}
}

func (s *Supervisor) awaitReady() error {
	s.conn.SetDeadline(time.Now().Add(readyTimeout))
	defer s.conn.SetDeadline(time.Time{})
	data, err := s.receive(make([]byte, 8192))
	if err != nil {
		return fmt.Errorf("it said nothing: %w", err)
	}
	var ready supervisor.Ready
	if err := json.Unmarshal(data, &ready); err != nil {
		return fmt.Errorf("internal error: malformed message of supervisor: %w", err)
	}
	if ready.Error != "" {
		return errors.New(ready.Error)
	}
	return nil
}

// receive returns the next message; a supervisor sends no descriptors.
func (s *Supervisor) receive(buf []byte) ([]byte, error) {
	data, files, err := s.conn.Recv(buf)
	for _, f := range files {
		f.Close()
	}
	return data, err
}

// Start gives it its job with the three standard files, which stay open here.
func (s *Supervisor) Start(start supervisor.Start, stdio []*os.File) error {
	return s.send(start, stdio...)
}

// End asks it to end its job.
func (s *Supervisor) End() error { return s.send(supervisor.Order{End: true}) }

func (s *Supervisor) send(message any, files ...*os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return s.conn.Send(data, files...)
}

// Words passes on what it says, until it is gone; then the channel is closed. It must be read to its end.
func (s *Supervisor) Words() <-chan supervisor.Word {
	words := make(chan supervisor.Word, 4)
	go func() {
		defer close(words)
		buf := make([]byte, seqpacket.MaxData)
		for {
			data, err := s.receive(buf)
			if err != nil {
				return
			}
			var word supervisor.Word
			if json.Unmarshal(data, &word) == nil {
				words <- word
			}
		}
	}()
	return words
}

// Done is closed when it has ended and was waited for: only then are its descendants, if it left any, on this process's list.
func (s *Supervisor) Done() <-chan struct{} { return s.done }

// Close lets go of it: without a job it ends, with one it ends that first.
func (s *Supervisor) Close() { s.conn.Close() }

// kill ends a supervisor that was never given a job.
func (s *Supervisor) kill() {
	s.cmd.Process.Kill()
	<-s.done
}
