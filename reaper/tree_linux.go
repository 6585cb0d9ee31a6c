package reaper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/job"
	"playground/procfs"
	"playground/racct"
	"playground/reaper/jobinit"
	"playground/ring"
	"playground/seqpacket"
)

const (
	pipeBytes = 256 << 10 // F_SETPIPE_SZ: fewer wake-ups for a command that writes much
	readBytes = 128 << 10
	// drainTime bounds reading what is left in the pipes once every process is gone. Only a write end that the job passed
	// to another job of its tenant can keep them open that long.
	drainTime = 200 * time.Millisecond
	// hammerAfter is how long the init has to end its job by itself before the whole namespace is killed from outside.
	hammerAfter = time.Second
)

// A tree is one running job: its init, its pipes.
type tree struct {
	conn     *seqpacket.Conn
	pidfd    *os.File
	isolated bool
	cgroup   *racct.Cgroup // nil where none is delegated
	stdin    *os.File      // our ends; stdin is nil without input
	outputs  [2]*os.File
	readers  sync.WaitGroup
}

// pipes makes the job's standard files and returns its ends, to be closed once they are sent.
func (t *tree) pipes(stdin []byte) ([]*os.File, error) {
	var theirs []*os.File
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, null)
	} else {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		// The job's end stays blocking; ours is watched by the poller.
		theirs, t.stdin = append(theirs, os.NewFile(uintptr(r), "stdin")), nonblocking(w, "stdin")
	}
	for i, name := range []string{"stdout", "stderr"} {
		r, w, err := pipe()
		if err != nil {
			return theirs, err
		}
		unix.FcntlInt(uintptr(r), unix.F_SETPIPE_SZ, pipeBytes) // refused over the user's share: smaller pipes work too
		theirs, t.outputs[i] = append(theirs, os.NewFile(uintptr(w), name)), nonblocking(r, name)
	}
	return theirs, nil
}

func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], err
}

func nonblocking(fd int, name string) *os.File {
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// pump feeds the input and copies the output until the pipes end or are closed.
func (t *tree) pump(stdin []byte, out job.Output) {
	if t.stdin != nil {
		t.readers.Go(func() {
			t.stdin.Write(stdin) // a command that reads only a part of it is no error
			t.stdin.Close()
		})
	}
	for i, stream := range []ring.Stream{ring.Stdout, ring.Stderr} {
		f := t.outputs[i]
		t.readers.Go(func() {
			buf := make([]byte, readBytes)
			for {
				n, err := f.Read(buf)
				if n > 0 {
					out.Write(stream, buf[:n])
				}
				if err != nil {
					return
				}
			}
		})
	}
}

// abandon ends a job that was not told what to run.
func (t *tree) abandon() {
	t.conn.Close()
	t.hammer()
	if t.cgroup != nil {
		t.awaitDeath()
		t.cgroup.Remove()
	}
	t.closeFiles()
}

func (t *tree) closeFiles() {
	for _, f := range []*os.File{t.pidfd, t.stdin, t.outputs[0], t.outputs[1]} {
		if f != nil {
			f.Close()
		}
	}
}

// finish waits for the end, brings it about when ctx ends, and proves it.
func (t *tree) finish(ctx context.Context, opts Options) (job.Result, error) {
	words := make(chan jobinit.End, 2)
	go t.listen(words)
	dead := make(chan struct{})
	go func() {
		if t.awaitDeath() == nil {
			close(dead)
		}
	}()

	e := ending{grace: opts.TermGrace, deadline: opts.ProofDeadline}
	defer e.stopTimers()
	var last jobinit.End
	for proved := false; !proved; {
		select {
		case word, ok := <-words:
			if !ok {
				words = nil
				continue
			}
			last = word
			e.begin()
			if t.isolated && e.hammer == nil {
				e.hammer = time.After(hammerAfter)
			}
		case <-e.cancelled(ctx):
			e.outcome = outcomeOf(ctx)
			e.begin()
			t.signal(unix.SIGTERM)
			e.kill = time.After(e.grace)
		case <-e.kill:
			t.signal(unix.SIGKILL)
			e.kill = nil
			if t.isolated {
				e.hammer = time.After(hammerAfter)
			}
		case <-e.hammer:
			t.hammer()
			e.hammer = nil
		case <-e.late:
			return t.lost(e, dead), nil
		case <-dead:
			proved = true
		}
	}
	if words != nil {
		for word := range words { // the init's last word may still be in the socket
			last = word
		}
	}
	t.drain()
	if last.Refused != "" {
		return job.Result{}, fault.New(fault.Invalid, "%s", last.Refused)
	}
	return t.result(e, last), nil
}

// An ending is the state of bringing a job to its end.
type ending struct {
	grace, deadline time.Duration
	outcome         job.Outcome // set when we ended it
	since           time.Time   // the end's beginning
	kill, hammer    <-chan time.Time
	late            <-chan time.Time
	lateTimer       *time.Timer
}

func (e *ending) begin() {
	if e.since.IsZero() {
		e.since = time.Now()
		e.lateTimer = time.NewTimer(e.deadline)
		e.late = e.lateTimer.C
	}
}

func (e *ending) stopTimers() {
	if e.lateTimer != nil {
		e.lateTimer.Stop()
	}
}

// cancelled is ctx's end, once, and only while the leader has not ended by itself.
func (e *ending) cancelled(ctx context.Context) <-chan struct{} {
	if !e.since.IsZero() {
		return nil
	}
	return ctx.Done()
}

// listen passes on what the init says until it is gone.
func (t *tree) listen(words chan<- jobinit.End) {
	defer close(words)
	buf := make([]byte, 8192)
	for {
		data, files, err := t.conn.Recv(buf)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return
		}
		var word jobinit.End
		if json.Unmarshal(data, &word) == nil {
			words <- word
		}
	}
}

// awaitDeath returns nil when the init has ended; the kernel makes a pidfd readable only after it has reaped all else in a
// pid namespace whose process 1 ends.
func (t *tree) awaitDeath() error {
	raw, err := t.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1
	})
}

func (t *tree) signal(sig syscall.Signal) {
	data, err := json.Marshal(jobinit.Kill{Signal: int(sig)})
	if err == nil {
		t.conn.Send(data) // an init that is gone needs no signal
	}
}

// hammer kills the init, and with it, by the kernel, its whole namespace.
func (t *tree) hammer() {
	raw, err := t.pidfd.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) { unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

// drain reads what is left in the pipes and closes everything.
func (t *tree) drain() {
	if t.stdin != nil {
		t.stdin.Close()
	}
	for _, f := range t.outputs {
		f.SetReadDeadline(time.Now().Add(drainTime))
	}
	t.readers.Wait()
	t.conn.Close()
	t.closeFiles()
}

func (t *tree) result(e ending, last jobinit.End) job.Result {
	res := job.Result{Outcome: e.outcome}
	res.Cleanup = job.Cleanup{Killed: last.Killed, Proven: t.isolated || last.Empty}
	if !e.since.IsZero() {
		res.Cleanup.ElapsedMS = time.Since(e.since).Milliseconds()
	}
	if !res.Cleanup.Proven {
		res.Cleanup.Survivors = 1 // not known to be fewer
	}
	if t.cgroup != nil {
		res.Hints = append(res.Hints, t.cgroup.Hints()...)
		t.cgroup.Remove() // one that stays is empty, and goes when the daemon starts anew
	}
	if last.DiskFull {
		res.Hints = append(res.Hints, "the disk is full")
	}
	if res.Outcome != "" {
		return res
	}
	status := syscall.WaitStatus(last.Status)
	switch {
	case !last.Leader && !last.Empty:
		res.Outcome, res.Error = job.Failed, "the command's supervisor was lost; nothing of it is left running"
	case status.Signaled():
		res.Outcome, res.Signal = job.Signalled, unix.SignalName(status.Signal())
		if status.Signal() == syscall.SIGKILL && len(res.Hints) == 0 {
			res.Hints = append(res.Hints, "killed from outside the command: the host may be out of memory")
		}
	default:
		code := status.ExitStatus()
		res.Outcome, res.ExitCode = job.Exited, &code
	}
	return res
}

// lost gives up waiting for the proof, tells what is known, and goes on watching.
func (t *tree) lost(e ending, dead <-chan struct{}) job.Result {
	res := job.Result{Outcome: e.outcome, Error: "clean-up could not be proved"}
	if res.Outcome == "" {
		res.Outcome = job.Failed
	}
	res.Cleanup = job.Cleanup{Survivors: 1, ElapsedMS: time.Since(e.since).Milliseconds()}
	if pid, err := t.pid(); err == nil {
		start, _ := procfs.StartTime(pid)
		res.Cleanup.Pids = []job.Leftover{{Pid: pid, Start: start}}
	}
	go func() {
		<-dead
		t.drain()
	}()
	return res
}

// pid returns the init's process id, as the kernel tells it of the pidfd (pidfd_open(2)).
func (t *tree) pid() (int, error) {
	raw, err := t.pidfd.SyscallConn()
	if err != nil {
		return 0, err
	}
	var data []byte
	ctlErr := raw.Control(func(fd uintptr) { data, err = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)) })
	if err = errors.Join(ctlErr, err); err != nil {
		return 0, err
	}
	return pidOf(data)
}
