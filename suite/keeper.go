package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"playground/fault"
)

// How a keeper waits.
const (
	startLimit   = 30 * time.Second // from exec to READY=1
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	steady       = time.Minute // a process that lived this long starts again with the first backoff
)

// ExitProofLost is the status of a daemon that refuses to work because a job's end was not proved. It is not a failed
// start: the rest of the suite must run, or the operator could not look at it and say "playground ack".
const ExitProofLost = 3

// A keeper keeps one daemon running.
type keeper struct {
	name, path string
	args       []string
	log        string
	grace      time.Duration // between SIGTERM and SIGKILL
	say        func(string)
	kill       <-chan struct{}
	start      func(*exec.Cmd) error
	notify     *notifySocket

	quit  chan struct{} // closed by stop
	done  chan struct{} // closed when the daemon is gone for good
	first chan error    // the outcome of the first start
	toldP bool          // the lost proof was told
}

// A process is one life of a daemon.
type process struct {
	cmd    *exec.Cmd
	began  time.Time
	offset int64 // of the log file at its start
	exited chan struct{}
}

// firstStart waits until the daemon is ready for the first time, or cannot be.
func (k *keeper) firstStart(ctx context.Context) error {
	select {
	case err := <-k.first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the daemon and waits until it is gone.
func (k *keeper) stop() {
	close(k.quit)
	<-k.done
	k.notify.close()
}

// run starts the daemon again and again until stop, or until its first start fails.
func (k *keeper) run() {
	defer close(k.done)
	backoff, started := firstBackoff, false
	for {
		began := time.Now()
		ready, err := k.live(started)
		if errors.Is(err, errQuit) {
			return
		}
		if !started && !ready && !errors.Is(err, errProofLost) {
			k.first <- err
			return
		}
		started = true
		if time.Since(began) > steady {
			backoff = firstBackoff
		}
		k.tell(err, backoff)
		if !k.sleep(backoff) {
			return
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

var (
	errQuit      = errors.New("stopped")
	errProofLost = errors.New("a job's end was not proved")
)

// tell says why the daemon is started again.
func (k *keeper) tell(err error, backoff time.Duration) {
	if !errors.Is(err, errProofLost) {
		k.say(fmt.Sprintf("%v; starting it again in %v (log: %s)", err, backoff, k.log))
		return
	}
	if k.toldP {
		return
	}
	k.toldP = true
	k.say(k.name + " does not serve: a job's end was not proved, so all starts are refused")
	k.say("  look at " + k.log + " for the processes that were left, end them, then run: playground ack")
	select { // the rest of the suite must go on: only ack is missing
	case k.first <- errProofLost:
	default:
	}
}

// sleep waits for d; false means stop.
func (k *keeper) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-k.quit:
		return false
	case <-timer.C:
		return true
	}
}

// live runs the daemon once, from start to end. It reports whether READY=1 came, and why the life ended.
func (k *keeper) live(again bool) (ready bool, err error) {
	k.notify.drain()
	p, err := k.spawn()
	if err != nil {
		return false, err
	}
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	for {
		select {
		case <-k.notify.ready:
			limit.Stop()
			ready = true
			k.sayReady(again, time.Since(p.began))
		case <-limit.C:
			k.end(p)
			return ready, k.failure(p, fmt.Sprintf("%s did not become ready within %v", k.name, startLimit))
		case <-k.quit:
			k.end(p)
			return ready, errQuit
		case <-p.exited:
			if p.cmd.ProcessState.ExitCode() == ExitProofLost {
				return ready, errProofLost
			}
			if ready {
				return ready, fmt.Errorf("%s ended: %v", k.name, p.cmd.ProcessState)
			}
			return ready, k.failure(p, fmt.Sprintf("%s ended before it was ready: %v", k.name, p.cmd.ProcessState))
		}
	}
}

func (k *keeper) sayReady(again bool, took time.Duration) {
	word := "is ready"
	if again {
		word = "is ready again"
	}
	k.toldP = false
	k.say(fmt.Sprintf("%s %s (%d ms)", k.name, word, took.Milliseconds()))
	select {
	case k.first <- nil:
	default:
	}
}

// spawn starts the daemon with its standard error appended to its log file.
func (k *keeper) spawn() (*process, error) {
	log, err := openLog(k.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	info, err := log.Stat()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot read the log's size")
	}
	p := &process{cmd: exec.Command(k.path, k.args...), began: time.Now(), offset: info.Size(), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = childEnv(k.notify.path)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // a Ctrl-C at the terminal is for us alone, so that the order of the stop is ours
		Pdeathsig: syscall.SIGTERM,
	}
	if err := k.start(p.cmd); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot start %s", k.name).
			WithHint("run `make build`; the daemons must lie beside the playground program, in %s", filepath.Dir(k.path))
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the state says it all
	}()
	return p, nil
}

// end stops a process: gently, then, after the grace or a Kill, with SIGKILL.
func (k *keeper) end(p *process) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it is gone
	grace := time.NewTimer(k.grace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return
	case <-k.kill:
	case <-grace.C:
		k.say(fmt.Sprintf("%s did not stop within %v: killing it", k.name, k.grace))
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// failure is the error of a start that did not work, with what the daemon itself said.
func (k *keeper) failure(p *process, text string) error {
	lines := tail(k.log, p.offset)
	if len(lines) == 0 {
		return fault.New(fault.Unavailable, "%s", text).WithHint("its log is %s", k.log)
	}
	return fault.New(fault.Unavailable, "%s; it said:\n    %s", text, strings.Join(lines, "\n    ")).
		WithHint("the whole log is %s", k.log)
}

// childEnv is our environment without what another service manager gave us.
func childEnv(notify string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC":
		default:
			env = append(env, entry)
		}
	}
	return append(env, "NOTIFY_SOCKET="+notify)
}
