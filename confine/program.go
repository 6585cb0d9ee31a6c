package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// imageFD is the least number of the descriptor that holds the image: a child's own begin at 0.
const imageFD = 64

// A Program is the worker's program, held open: replacing its file changes nothing until the daemon is started anew.
type Program struct {
	name  string
	fd    int
	image unix.Stat_t // when it was opened

	work chan func() // for the one thread that starts workers
	done sync.WaitGroup
}

// OpenProgram opens the program at path. Close it.
func OpenProgram(path string) (*Program, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot open the worker program %q", path).
			WithHint("install Playground completely, or set host.libexec_dir")
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, imageFD)
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("cannot hold the worker program: %w", err)
	}
	p := &Program{name: path, fd: high, work: make(chan func())}
	if err := unix.Fstat(high, &p.image); err != nil {
		unix.Close(high)
		return nil, fmt.Errorf("cannot look at the worker program: %w", err)
	}
	if p.image.Mode&unix.S_IFMT != unix.S_IFREG || p.image.Mode&0o111 == 0 {
		unix.Close(high)
		return nil, fault.New(fault.Unavailable, "the worker program %q is not an executable file", path)
	}
	// The kernel's signal at the end of a parent comes at the end of the thread that was it, so that this thread stays.
	p.done.Go(func() {
		runtime.LockOSThread()
		for f := range p.work {
			f()
		}
	})
	return p, nil
}

// onThread calls f on the thread that starts workers.
func (p *Program) onThread(f func()) {
	done := make(chan struct{})
	p.work <- func() { f(); close(done) }
	<-done
}

// Close lets go of the program. Every worker must have ended: the kernel kills what is left.
func (p *Program) Close() {
	close(p.work)
	p.done.Wait()
	unix.Close(p.fd)
}

// unchanged refuses a program that was written to since it was opened, which replacing its file does not do.
func (p *Program) unchanged() error {
	var now unix.Stat_t
	if err := unix.Fstat(p.fd, &now); err != nil {
		return fmt.Errorf("cannot look at the worker program: %w", err)
	}
	if now.Size != p.image.Size || now.Mtim != p.image.Mtim {
		return fault.New(fault.Denied, "the worker program %q was changed in place under the running daemon", p.name).
			WithHint("install it anew as a whole and restart playground-reaperd")
	}
	return nil
}

// A Start says how a worker is started.
type Start struct {
	Bounds   Bounds
	UID, GID int // of the worker; 0: an ordinary user's daemon has only its own
	JID      int // FreeBSD: the jail it enters
	// Jail looks at that jail, once the worker is in it; FreeBSD.
	Jail func() (string, error)
}

// A Process is a confined, verified worker that has been told nothing yet. Its files are the daemon's ends.
type Process struct {
	PID    int
	Report Report
	// Attempts are what the worker tried.
	Attempts []Attempt
	Doors    *os.File
	Stdin    *os.File
	Stdout   *os.File
	Stderr   *os.File

	proc *os.Process
	mark mark
}

// readyTime bounds a start; it takes some 20 ms on an idle machine.
const readyTime = 20 * time.Second

// Start starts a worker and returns once every layer was verified. Otherwise the error is of kind fault.Denied and names the layers,
// or of kind fault.Unavailable if it did not come that far. A process beside an error was killed; the caller waits for it and proves
// its end. The end of ctx ends the start.
func (p *Program) Start(ctx context.Context, s Start) (*Process, error) {
	if err := p.unchanged(); err != nil {
		return nil, err
	}
	if s.UID == 0 && os.Geteuid() == 0 {
		return nil, fault.New(fault.Internal, "internal error: root's daemon gave a worker no user id")
	}
	orders, err := p.orders(s)
	if err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "cannot start a worker")
	}
	ours, theirs, err := makeFiles()
	if err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "cannot start a worker")
	}
	w := &Process{Stdin: ours[0], Stdout: ours[1], Stderr: ours[2], Doors: ours[3]}
	expect := expectation{orders: orders, start: s, image: p.image}
	for i, f := range theirs {
		expect.files[i], err = identify(f)
	}
	if err == nil {
		w.proc, err = p.start(s, theirs)
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		w.CloseFiles()
		return nil, refusal(err)
	}
	w.PID = w.proc.Pid
	err = w.ready(ctx, expect)
	if ctx.Err() != nil { // it was killed, in whatever step that showed
		err = ctx.Err()
	}
	if err != nil {
		w.Kill()
		return w, fmt.Errorf("%w%s", err, w.lastWords())
	}
	return w, nil
}

// refusal says what to do when the host does not let a worker start.
func refusal(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return fault.Wrap(fault.Denied, err, "the host does not allow what isolates a worker").
			WithHint("run `playground doctor`: it finds the setting and prints the command that changes it")
	}
	return fault.Wrap(fault.Unavailable, err, "cannot start a worker")
}

// ready gives the orders, waits for the worker's word, and looks at every layer.
func (w *Process) ready(ctx context.Context, expect expectation) error {
	until := time.Now().Add(readyTime)
	for _, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if err := f.SetDeadline(until); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, w.Kill)
	defer stop()
	view, err := w.first(expect) // while the worker, which waits for its orders, may be looked at by its user
	if err != nil {
		return fault.Wrap(fault.Denied, err, "cannot look at a worker")
	}
	line, err := json.Marshal(expect.orders)
	if err != nil {
		return err
	}
	if _, err := w.Stdin.Write(append(line, '\n')); err != nil {
		return fault.Wrap(fault.Denied, err, "cannot give a worker its orders")
	}
	word, err := w.word()
	if err != nil {
		return fault.Wrap(fault.Denied, err, "cannot isolate a worker")
	}
	if word.Error != "" {
		return fault.New(fault.Denied, "cannot isolate a worker: %s", word.Error).WithHint("run `playground doctor`")
	}
	w.Attempts = word.Attempts
	w.Report = verify(w.PID, expect, view, word.Attempts)
	for _, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if err := f.SetDeadline(time.Time{}); err != nil {
			return err
		}
	}
	return w.Report.Err()
}

// word reads the worker's one line, and nothing may come after it.
func (w *Process) word() (Word, error) {
	buf, n := make([]byte, maxWord), 0
	for n < len(buf) {
		got, err := w.Stdout.Read(buf[n:])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Word{}, fmt.Errorf("%w: %w", ErrReport, err)
		}
		n += got
		if buf[n-1] == '\n' {
			return parseWord(buf[:n-1])
		}
	}
	return Word{}, fmt.Errorf("%w: more than %d bytes", ErrReport, maxWord)
}

// lastWords is what a worker that was killed at its start had to say, for the log.
func (w *Process) lastWords() string {
	const most = 512
	w.Stderr.SetDeadline(time.Now().Add(100 * time.Millisecond))
	text, _ := io.ReadAll(io.LimitReader(w.Stderr, most))
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it said: %q)", text)
}

// Kill ends the worker now. It may be called at any time, and again.
func (w *Process) Kill() { _ = w.proc.Kill() } // one that has ended needs no signal

// Wait waits for the worker's end, once.
func (w *Process) Wait() (*os.ProcessState, error) { return w.proc.Wait() }

// CloseFiles closes what of the daemon's ends is not closed yet.
func (w *Process) CloseFiles() {
	for _, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr, w.Doors} {
		f.Close()
	}
}

// makeFiles makes a worker's standard input, output and error and its doors: the daemon's ends and the worker's, all of them
// close-on-exec and not blocking.
func makeFiles() (ours, theirs [4]*os.File, err error) {
	var made []int
	defer func() {
		if err != nil {
			for _, fd := range made {
				unix.Close(fd)
			}
		}
	}()
	var pairs [4][2]int // reading end first
	for i := range 3 {
		if err := unix.Pipe2(pairs[i][:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return ours, theirs, err
		}
		made = append(made, pairs[i][:]...)
	}
	pairs[3], err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return ours, theirs, err
	}
	pairs[0][0], pairs[0][1] = pairs[0][1], pairs[0][0] // the worker reads its input
	for i, name := range []string{"stdin", "stdout", "stderr", "doors"} {
		ours[i] = os.NewFile(uintptr(pairs[i][0]), name)
		theirs[i] = os.NewFile(uintptr(pairs[i][1]), name)
	}
	return ours, theirs, nil
}
