package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/procfs"
	"playground/seqpacket"
)

// warmIdle is how long ready inits are kept after the last start.
const warmIdle = time.Minute

// Hold is the life of a tenant's holder: "playground-supervise holder". Its process 1 keeps the tenant's namespaces and
// starts the jobs' inits inside them on request, because a multi-threaded program cannot enter a user namespace
// (setns(2)). It ends when control is closed, and the kernel ends everything in its pid namespace with it.
func Hold(control *seqpacket.Conn) error {
	if err := KeepNoOtherFiles(); err != nil {
		return err
	}
	buf := make([]byte, seqpacket.MaxData)
	data, _, err := control.Recv(buf)
	if err != nil {
		return err
	}
	h := &holder{busy: make(map[*jobInit]struct{})}
	if err := json.Unmarshal(data, &h.cfg); err != nil {
		return fmt.Errorf("internal error: malformed holder configuration: %w", err)
	}
	unix.Umask(0o022) // jaild's is for its secrets; this is what commands start with
	h.idle = time.AfterFunc(warmIdle, h.drain)
	if err := h.setUp(); err != nil {
		return errors.Join(err, send(control, Reply{Error: err.Error()}))
	}
	if err := send(control, Reply{}); err != nil {
		return err
	}
	return h.serve(control, buf)
}

// firstOther is the first descriptor after standard error and the connection, which this program has by right.
const firstOther = 4

// KeepNoOtherFiles makes every other descriptor close-on-exec: this program's own file, by which it was started, and whatever
// whoever started the daemon left open. A job that inherited one would hold a file, or a folder, of the host's.
func KeepNoOtherFiles() error {
	return os.NewSyscallError("close_range", unix.CloseRange(firstOther, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
}

func (h *holder) setUp() error {
	if h.cfg.Isolated {
		if err := buildRoot(h.cfg); err != nil {
			return err
		}
		if err := confine(); err != nil {
			return err
		}
	}
	// One init up to its ready word, so that a host that forbids what inits need is found out now and not by a job.
	first, err := h.spawn()
	if err != nil {
		return err
	}
	if err := first.awaitReady(); err != nil {
		return err
	}
	h.warm = append(h.warm, first)
	return nil
}

// serve obeys jaild until it closes the connection.
func (h *holder) serve(control *seqpacket.Conn, buf []byte) error {
	for {
		data, files, err := control.Recv(buf)
		if err != nil {
			return nil // jaild is gone, and so are we
		}
		var req Request
		if err := json.Unmarshal(data, &req); err != nil {
			return fmt.Errorf("internal error: malformed request: %w", err)
		}
		switch {
		case req.Op == OpConnect && len(files) == 1:
			conn, err := seqpacket.FromFile(files[0])
			if err != nil {
				return err
			}
			go h.serveStarts(conn)
			err = send(control, Reply{})
			if err != nil {
				return err
			}
		case req.Op == OpStop:
			busy := h.stop()
			if err := send(control, Reply{Busy: busy}); err != nil || busy == 0 {
				return err
			}
		default:
			return fmt.Errorf("internal error: unknown request %q", req.Op)
		}
	}
}

// serveStarts hands each job's connection that arrives to an init, and answers with the init's pidfd.
func (h *holder) serveStarts(conn *seqpacket.Conn) {
	defer conn.Close()
	buf := make([]byte, 256)
	for {
		_, files, err := conn.Recv(buf)
		if err != nil {
			return
		}
		reply, pidfd := Reply{}, (*os.File)(nil)
		if len(files) != 1 {
			reply.Error = "internal error: a job's connection was expected"
		} else if pidfd, err = h.start(files[0]); err != nil {
			reply.Error = err.Error()
		}
		for _, f := range files {
			f.Close()
		}
		if pidfd == nil {
			err = send(conn, reply)
		} else {
			err = send(conn, reply, pidfd)
		}
		if err != nil {
			return
		}
	}
}

// A holder keeps a pool of inits.
type holder struct {
	cfg  Config
	idle *time.Timer // drops the pool

	// mu guards what follows.
	mu       sync.Mutex
	warm     []*jobInit
	busy     map[*jobInit]struct{} // inits that have a job
	spawning int                   // starts that wait for a new init
	stopping bool                  // no more starts
	filling  bool
}

// A jobInit is a started init.
type jobInit struct {
	conn  *seqpacket.Conn
	proc  *os.Process
	pidfd *os.File // for the job's owner
	watch int      // a pidfd of our own
	used  bool     // it has had a job, and tend looks after it; guarded by the holder's mu
}

// start gives a job's connection to a ready init, or to a new one.
func (h *holder) start(job *os.File) (*os.File, error) {
	h.mu.Lock()
	if h.stopping {
		h.mu.Unlock()
		return nil, errors.New("the sandbox is closing")
	}
	var in *jobInit
	if n := len(h.warm); n > 0 {
		in, h.warm = h.warm[n-1], h.warm[:n-1]
		h.busy[in] = struct{}{}
	} else {
		h.spawning++
	}
	h.mu.Unlock()
	h.idle.Reset(warmIdle)

	if in == nil {
		var err error
		if in, err = h.cold(); err != nil {
			return nil, err
		}
	}
	if err := in.conn.Send([]byte("job"), job); err != nil {
		h.forget(in)
		in.discard()
		return nil, err
	}
	if h.first(in) {
		go h.tend(in)
	}
	go h.refill()
	return in.pidfd, nil
}

// first reports whether this is the init's first job.
func (h *holder) first(in *jobInit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !in.used
	in.used = true
	return first
}

// tend takes an init back whenever it is free, and buries it in the end.
func (h *holder) tend(in *jobInit) {
	buf := make([]byte, 4096)
	for {
		word, _, err := in.conn.Recv(buf)
		if err != nil {
			break
		}
		if string(word) == Free && !h.takeBack(in) {
			in.conn.Close() // for which it ends
		}
	}
	in.proc.Wait() // reaps it; a job's owner reads the end from the pidfd
	h.forget(in)
	in.close()
}

// keep bounds the ready inits of a tenant: as many as it may run jobs at once.
const keep = 8

// takeBack puts an init that is free again into the pool, unless that is full or closed.
func (h *holder) takeBack(in *jobInit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, in)
	if h.stopping || len(h.warm) >= keep {
		return false
	}
	h.warm = append(h.warm, in)
	return true
}

// cold starts an init for a job that found none ready.
func (h *holder) cold() (*jobInit, error) {
	in, err := h.spawn()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawning--
	if err == nil {
		h.busy[in] = struct{}{}
	}
	return in, err
}

func (h *holder) forget(in *jobInit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, in)
}

// refill brings the pool to its size again; one at a time does it.
func (h *holder) refill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filling {
		return
	}
	h.filling = true
	defer func() { h.filling = false }()
	for len(h.warm) < h.cfg.Warm && !h.stopping {
		h.mu.Unlock()
		in, err := h.spawn()
		h.mu.Lock()
		if err != nil {
			fmt.Fprintln(os.Stderr, "playground-supervise:", err)
			return // the next start tries for itself and reports
		}
		h.warm = append(h.warm, in)
	}
}

// drain drops the ready inits of a sandbox that is not in use.
func (h *holder) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range h.warm {
		in.discard()
	}
	h.warm = nil
}

// settleTime bounds waiting for inits that have no process any more, and whose word that they are free is under way.
const settleTime = 200 * time.Millisecond

// stop refuses later starts unless jobs run, and returns their number.
func (h *holder) stop() int {
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		busy, settling := h.tryStop()
		if !settling || time.Now().After(end) {
			return busy
		}
	}
}

// tryStop is one try of stop. Settling: no init with a job has a process, so that a moment later none may be busy.
func (h *holder) tryStop() (busy int, settling bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	busy, settling = h.spawning, h.spawning == 0
	for in := range h.busy {
		if in.ended() {
			continue
		}
		busy++
		if childless, err := procfs.Childless(in.proc.Pid); err != nil || !childless {
			settling = false
		}
	}
	h.stopping = busy == 0
	return busy, settling && busy > 0
}

// spawn starts an init. In a pid namespace of its own it is process 1; /proc/self/exe is this same program, whatever the
// private root shows.
func (h *holder) spawn() (*jobInit, error) {
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir: "/",
		// One thread at a time is enough, and spares the threads' waking of each other; the init allocates next to nothing.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=8MiB", "GODEBUG=asyncpreemptoff=1"},
		Files: []*os.File{null, null, os.Stderr, theirs.File()},
		Sys:   &syscall.SysProcAttr{},
	}
	if h.cfg.Isolated {
		attr.Sys.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	proc, err := os.StartProcess("/proc/self/exe", []string{"playground-supervise", "init"}, attr)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("cannot start init: %w", err)
	}
	// One of its own for the job's owner, which sets it non-blocking; our Wait could not have that.
	pidfd, err := unix.PidfdOpen(proc.Pid, 0)
	var watch int
	if err == nil {
		watch, err = unix.PidfdOpen(proc.Pid, 0)
	}
	if err != nil {
		proc.Kill()
		proc.Wait()
		ours.Close()
		return nil, fmt.Errorf("cannot watch init: %w", err)
	}
	in := &jobInit{conn: ours, proc: proc, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), watch: watch}
	data, err := json.Marshal(InitConfig{Isolated: h.cfg.Isolated, Limits: h.cfg.Limits})
	if err == nil {
		err = ours.Send(data)
	}
	if err != nil {
		in.discard()
		return nil, fmt.Errorf("cannot prepare init: %w", err)
	}
	return in, nil
}

// awaitReady waits for the init's word that it is confined.
func (in *jobInit) awaitReady() error {
	in.conn.SetDeadline(time.Now().Add(10 * time.Second))
	defer in.conn.SetDeadline(time.Time{})
	data, _, err := in.conn.Recv(make([]byte, 4096))
	if err != nil {
		in.discard()
		return fmt.Errorf("cannot prepare init: %w", err)
	}
	var ready InitReady
	if err := json.Unmarshal(data, &ready); err != nil || ready.Error != "" {
		in.discard()
		return fmt.Errorf("cannot prepare init: %s", ready.Error)
	}
	return nil
}

// discard ends an init that has no job.
func (in *jobInit) discard() {
	in.proc.Kill()
	if in.used {
		return // tend does the rest
	}
	go func() {
		in.proc.Wait()
		in.close()
	}()
}

func (in *jobInit) close() {
	in.conn.Close()
	in.pidfd.Close()
	unix.Close(in.watch)
}

// ended reports whether the init is gone, which its owner may know before our Wait does.
func (in *jobInit) ended() bool {
	fds := []unix.PollFd{{Fd: int32(in.watch), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

func send(conn *seqpacket.Conn, v any, files ...*os.File) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return conn.Send(data, files...)
}
