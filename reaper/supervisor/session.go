package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/reaper/proof"
	"playground/seqpacket"
)

// A System is the operating system below one supervisor.
type System interface {
	// Start starts the command in the job's jail, in a session of its own. The error is in words for the tenant.
	Start(s Start, stdio []*os.File) (pid int, err error)
	// Kernel is what the end is brought about with.
	Kernel(s Start) (proof.Kernel, error)
	// Terminate sends SIGTERM to all of the job and does not wait.
	Terminate()
	// Children gets a value when a child may have ended.
	Children() <-chan os.Signal
	// Reconcile brings back limits that somebody took away.
	Reconcile(s Start)
	// Started returns when a process was started, in the platform's unit; 0 if there is none.
	Started(pid int) uint64
}

const (
	// lookInterval is how often the dead are looked for without a signal: those of an ended nested reaper come without one.
	lookInterval = time.Second
	// reconcileInterval bounds how long a job runs without its limits after "service rctl restart".
	reconcileInterval = 15 * time.Second
	// againAfter is how often a clean-up that could not be proved in time is said to go on.
	againAfter = time.Minute
)

// Serve takes one job from the connection and returns when its clean-up is proved, however long that takes. It returns nil
// at once when the connection ends before there is a job.
func Serve(conn *seqpacket.Conn, sys System) error {
	data, files, err := conn.Recv(make([]byte, seqpacket.MaxData))
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	s := &session{conn: conn, sys: sys}
	if err := json.Unmarshal(data, &s.start); err != nil || len(files) != 3 {
		return fmt.Errorf("internal error: malformed start message: %v", err)
	}
	if s.kernel, err = sys.Kernel(s.start); err != nil {
		return err
	}
	s.leader, err = sys.Start(s.start, files)
	for _, f := range files {
		f.Close() // or the reader would never see the end of the output
	}
	if err != nil {
		s.word.Refused = err.Error()
	} else {
		s.run()
	}
	return s.end()
}

// A session is one job, used by one goroutine.
type session struct {
	conn   *seqpacket.Conn
	sys    System
	kernel proof.Kernel
	start  Start

	leader int  // 0 once it was collected
	ending bool // it was asked to end: what dies by a signal now counts as killed
	word   Word
}

// run returns when the job must end: the command has ended, it was cancelled and its grace is over, or nobody listens.
func (s *session) run() {
	orders := make(chan bool, 1)
	go listen(s.conn, orders)
	look, reconcile := time.NewTicker(lookInterval), time.NewTicker(reconcileInterval)
	defer look.Stop()
	defer reconcile.Stop()
	var grace <-chan time.Time
	for s.leader != 0 {
		select {
		case <-s.sys.Children():
		case <-look.C:
		case <-reconcile.C:
			s.sys.Reconcile(s.start)
			continue
		case cancelled := <-orders:
			if !cancelled { // the connection ended: nobody can want the output any more
				return
			}
			s.ending = true
			s.sys.Terminate()
			grace = time.After(s.start.Grace)
		case <-grace:
			return
		}
		s.collect()
	}
	s.word.Leader = true
	s.say(Word{Leader: true, Status: s.word.Status})
}

// listen passes on the first order, or false when the connection ends.
func listen(conn *seqpacket.Conn, orders chan<- bool) {
	buf := make([]byte, 1024)
	for {
		data, files, err := conn.Recv(buf)
		for _, f := range files {
			f.Close() // no descriptor may stay: it could be a folder's
		}
		if err != nil {
			orders <- false
			return
		}
		var order Order
		if json.Unmarshal(data, &order) == nil && order.End {
			orders <- true
			return
		}
	}
}

// collect takes what has died while the job runs, of both kinds that wait4(2) tells apart.
func (s *session) collect() {
	for _, other := range []bool{false, true} {
		for {
			pid, status, err := s.kernel.Wait(-1, other)
			if err != nil || pid <= 0 {
				break
			}
			if s.ending && status.Signaled() {
				s.word.Killed++
			}
			s.reaped(pid, status)
		}
	}
}

func (s *session) reaped(pid int, status syscall.WaitStatus) {
	if pid == s.leader {
		s.leader = 0
		s.word.Leader, s.word.Status = true, uint32(status)
	}
}

// end brings the job's end about and reports it, and goes on after the deadline until it is proved.
func (s *session) end() error {
	e := proof.New(s.kernel, s.reaped)
	killed := s.word.Killed
	report := e.Run(s.kernel.Now().Add(s.start.Deadline))
	for {
		s.word.Final, s.word.Proven, s.word.Killed = true, report.Proven, killed+report.Killed
		s.word.Survivors, s.word.Elapsed = report.Survivors, report.Elapsed
		s.word.Pids = nil
		for _, pid := range report.Pids[:min(len(report.Pids), maxPids)] {
			s.word.Pids = append(s.word.Pids, Process{pid, s.sys.Started(pid)})
		}
		s.say(s.word)
		if report.Proven {
			return nil
		}
		fmt.Fprintf(os.Stderr, "playground-supervise: clean-up of jail %s is not proved: %d processes, jail %v, pids %v, refused: %v\n",
			s.start.Jail, report.Survivors, report.Jail, s.word.Pids, report.Doubts)
		report = e.Run(s.kernel.Now().Add(againAfter))
	}
}

// maxPids bounds the list of survivors in one message.
const maxPids = 256

// say tells whoever started this; that they are gone is no reason to stop.
func (s *session) say(w Word) {
	data, err := json.Marshal(w)
	if err == nil {
		err = s.conn.Send(data)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		fmt.Fprintln(os.Stderr, "playground-supervise: cannot report:", err)
	}
}
