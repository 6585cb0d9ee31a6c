package keeper

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"playground/confine"
)

// A Worker is a confined, verified process. Whoever started it owns the three files, and may close them once they are handed on.
type Worker struct {
	PID      int
	Report   confine.Report
	Attempts []confine.Attempt
	Doors    *os.File
	Stdin    *os.File
	Stdout   *os.File

	keeper *Keeper
	run    string
	slot   int
	ground ground
	proc   *confine.Process
	forget func() // crosses it out
	lapse  error  // why its limits could not be kept in force, which ended it; nil: they were

	kill    sync.Once
	ordered chan struct{} // closed by Kill
	done    chan struct{} // closed when exit is set
	exit    confine.Exit

	// mu guards began.
	mu    sync.Mutex
	began time.Time // when the end began
}

// Kill ends the worker. It may be called at any time, and again.
func (w *Worker) Kill() {
	w.kill.Do(func() {
		w.begin()
		w.proc.Kill()
		close(w.ordered)
	})
}

// begin notes that the end has begun.
func (w *Worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() {
		w.began = time.Now()
	}
}

// Done is closed when the worker has ended and that is proved, or the proof is lost.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Exit is how it ended. It is set once Done is closed.
func (w *Worker) Exit() confine.Exit { return w.exit }

// keepText is how much of a worker's standard error is kept; the rest is read and dropped, so that it never blocks.
const keepText = 1 << 10

// watch is a worker's life after its start.
func (w *Worker) watch() {
	defer w.keeper.watches.Done()
	said := make(chan []byte, 1)
	go func() {
		head := make([]byte, keepText)
		n, _ := io.ReadFull(w.proc.Stderr, head)
		io.Copy(io.Discard, w.proc.Stderr)
		said <- head[:n]
	}()
	w.end()
	w.proc.Stderr.Close()
	e := Event{Kind: Ended, Run: w.run, PID: w.PID, Exit: w.exit, Err: w.lapse}
	if head := <-said; len(head) > 0 && w.exit.Status > 0 {
		e.Text = text(head)
	}
	w.keeper.mu.Lock()
	delete(w.keeper.workers, w)
	w.keeper.mu.Unlock()
	w.keeper.seen(e)
	close(w.done)
}

// upkeepInterval bounds how long a worker runs without limits that somebody took away.
const upkeepInterval = 15 * time.Second

// end waits for the end and proves it.
func (w *Worker) end() {
	type ended struct {
		state *os.ProcessState
		err   error
	}
	start := w.proc.Started()
	waited := make(chan ended, 1)
	go func() {
		state, err := w.proc.Wait()
		waited <- ended{state, err}
	}()
	ordered, late := w.ordered, (<-chan time.Time)(nil)
	upkeep := time.NewTicker(upkeepInterval)
	defer upkeep.Stop()
	for {
		select {
		case <-upkeep.C:
			if err := w.ground.upkeep(); err != nil {
				w.lapse = err
				w.Kill()
			}
		case <-ordered:
			ordered, late = nil, time.After(w.keeper.opts.Deadline)
		case end := <-waited:
			w.begin()
			if end.err != nil {
				w.exit = confine.Exit{Status: -1}
				w.lose([]confine.Leftover{{PID: w.PID, Start: start}}, "cannot wait for it: "+end.err.Error())
				return
			}
			w.exit = confine.ExitOf(end.state.Sys().(syscall.WaitStatus))
			w.prove()
			return
		case <-late:
			w.exit = confine.Exit{Status: -1}
			w.lose([]confine.Leftover{{PID: w.PID, Start: start}}, "it was killed and does not end")
			return
		}
	}
}

func (w *Worker) overdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.began.IsZero() && time.Since(w.began) > w.keeper.opts.Deadline
}

// prove looks for what is left until there is nothing, or the deadline has come.
func (w *Worker) prove() {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left, err := w.left()
		if err == nil && len(left) == 0 {
			w.exit.Cleanup = confine.Cleanup{Proven: true, ElapsedMS: time.Since(w.began).Milliseconds()}
			w.forget()
			w.keeper.release(w.slot, w.run)
			return
		}
		if w.overdue() {
			reason := "processes of it are left"
			if err != nil {
				reason = "cannot look for what is left of it: " + err.Error()
			}
			w.lose(left, reason)
			return
		}
		for _, l := range left {
			l.End()
		}
		time.Sleep(wait)
	}
}

// lose gives the proof up. The slot, and with it the ids, stays taken.
func (w *Worker) lose(left []confine.Leftover, reason string) {
	left = append(w.ground.leftover(), left...)
	w.exit.Cleanup = confine.Cleanup{Survivors: max(1, len(left)), ElapsedMS: time.Since(w.began).Milliseconds()}
	if w.keeper.opts.Lost != nil {
		w.keeper.opts.Lost(left, reason)
	}
}

// abandon takes back a worker that was not started completely, and is not watched.
func (w *Worker) abandon() {
	w.begin()
	if w.proc == nil { // no process was made
		w.prove()
		return
	}
	w.PID = w.proc.PID
	w.Kill()
	w.end()
	w.proc.CloseFiles()
}
