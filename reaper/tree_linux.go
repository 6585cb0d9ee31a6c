package reaper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/job"
	"playground/procfs"
	"playground/racct"
	"playground/reaper/command"
	"playground/reaper/jobinit"
	"playground/seqpacket"
)

// hammerAfter is how long the init has to end its job by itself before the whole namespace is killed from outside.
const hammerAfter = time.Second

// A tree is one running job: its init, its pipes.
type tree struct {
	conn     *seqpacket.Conn
	pidfd    *os.File
	isolated bool
	cgroup   *racct.Cgroup // nil where none is delegated
	files    command.Files
	journal  Journal
	entry    string // in the journal
}

// write writes the job down before it begins.
func (t *tree) write(j Journal) error {
	if j == "" {
		return nil
	}
	pid, err := t.pid()
	if err != nil {
		return err
	}
	t.journal = j
	t.entry, err = j.add(pid)
	return err
}

// abandon ends a job that was not told what to run.
func (t *tree) abandon() {
	t.conn.Close()
	t.hammer()
	t.files.Close()
	go func() {
		if t.awaitDeath() == nil {
			t.journal.remove(t.entry) // else the next process looks after it
		}
		if t.cgroup != nil {
			t.cgroup.Remove()
		}
		t.pidfd.Close()
	}()
}

// finish waits for the end, brings it about when ctx ends, and proves it.
func (t *tree) finish(ctx context.Context, opts Options, endOthers func()) (job.Result, error) {
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
			proved = t.heard(word, &e)
		case <-e.cancelled(ctx):
			e.outcome = command.OutcomeOf(ctx)
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
		case <-e.press:
			e.press = nil
			endOthers()
		case <-e.late:
			return t.lost(e, dead), nil
		case <-dead:
			proved = true
		}
	}
	if !last.Free && words != nil {
		last = lastOf(words, last)
	}
	t.drain()
	if last.Refused != "" {
		return job.Result{}, fault.New(fault.Invalid, "%s", last.Refused)
	}
	return t.result(e, last), nil
}

// heard takes in what the init says, and reports whether that was the proof.
func (t *tree) heard(word jobinit.End, e *ending) bool {
	e.begin()
	switch {
	case word.Free && t.empty():
		return true
	case word.Free:
		t.hammer() // then its death is the proof
	case t.isolated && e.hammer == nil:
		e.hammer = time.After(hammerAfter)
	}
	return false
}

// lastOf returns the init's last word, which may still be in the socket when the init is gone.
func lastOf(words <-chan jobinit.End, last jobinit.End) jobinit.End {
	for word := range words {
		last = word
	}
	return last
}

// empty reports whether the kernel shows that the job's namespace has no process but its init, which waits meanwhile. The
// pidfd, still alive afterwards, says that the pid was the init's all the time.
func (t *tree) empty() bool {
	pid, err := t.pid()
	if err != nil {
		return false
	}
	childless, err := procfs.Childless(pid)
	return err == nil && childless && t.isolated && !t.dead()
}

// An ending is the state of bringing a job to its end.
type ending struct {
	grace, deadline time.Duration
	outcome         job.Outcome // set when we ended it
	since           time.Time   // the end's beginning
	kill, hammer    <-chan time.Time
	press, late     <-chan time.Time // half of the deadline, all of it
	lateTimer       *time.Timer
}

func (e *ending) begin() {
	if e.since.IsZero() {
		e.since = time.Now()
		e.lateTimer = time.NewTimer(e.deadline)
		e.late = e.lateTimer.C
		e.press = time.After(e.deadline / 2)
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
	if err := raw.Read(readable); err == nil || errors.Is(err, os.ErrClosed) {
		return err
	}
	// The poller would not have it, for want of memory or of the user's quota: look now and then.
	for {
		dead := false
		if err := raw.Control(func(fd uintptr) { dead = readable(fd) }); err != nil || dead {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dead reports whether the init has ended, or cannot be asked.
func (t *tree) dead() bool {
	raw, err := t.pidfd.SyscallConn()
	if err != nil {
		return true
	}
	dead := true
	err = raw.Control(func(fd uintptr) { dead = readable(fd) })
	return err != nil || dead
}

func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
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
	t.journal.remove(t.entry)
	t.files.Drain()
	t.conn.Close()
	t.pidfd.Close()
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
			res.Hints = append(res.Hints, "Playground did not send this signal: if the command did not either, the host may be out of memory")
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
