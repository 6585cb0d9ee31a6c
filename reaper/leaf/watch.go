package leaf

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/job"
	"playground/reaper/command"
	"playground/reaper/pool"
	"playground/reaper/proof"
	"playground/reaper/supervisor"
)

// A watch is over one running command.
type watch struct {
	r     *Runner
	sup   *pool.Supervisor
	files command.Files
	jail  string // the leaf's full name
	jid   int
	root  string

	ending *proof.Ending // of a lost supervisor's job

	outcome job.Outcome // set when we ended it
	since   time.Time   // the end's beginning
	late    *time.Timer // when the supervisor should have said something
	leader  bool        // the command itself is known to have ended, with status
	status  syscall.WaitStatus
	final   supervisor.Word
}

// finish waits for the end, brings it about when ctx ends, and returns when it is proved or cannot be.
func (w *watch) finish(ctx context.Context) (job.Result, error) {
	words := w.sup.Words()
	w.late = time.NewTimer(time.Hour)
	w.late.Stop()
	defer w.late.Stop()
	for {
		select {
		case word, ok := <-words:
			if !ok {
				words = nil // it is ending; Done tells when
				w.begin(slack)
				continue
			}
			w.hear(word)
			if word.Final && !word.Proven {
				return w.lost(words), nil
			}
		case <-w.cancelled(ctx):
			w.outcome = command.OutcomeOf(ctx)
			w.begin(w.r.opts.Grace + w.r.opts.Deadline + slack)
			w.sup.End() // one that is gone needs no order
		case <-w.late.C:
			return w.lost(words), nil
		case <-w.sup.Done():
			for words != nil { // its last word may still be in the socket
				word, ok := <-words
				if !ok {
					break
				}
				w.hear(word)
			}
			return w.ended()
		}
	}
}

// hear takes in one word.
func (w *watch) hear(word supervisor.Word) {
	if word.Leader {
		w.leader, w.status = true, syscall.WaitStatus(word.Status)
	}
	if word.Final {
		w.final = word
	}
	w.begin(w.r.opts.Deadline + slack)
}

// begin notes that the end has begun, and by when the supervisor should have reported it.
func (w *watch) begin(limit time.Duration) {
	if w.since.IsZero() {
		w.since = time.Now()
		w.late.Reset(limit)
	}
}

// cancelled is ctx's end, once, and only while the command has not ended by itself.
func (w *watch) cancelled(ctx context.Context) <-chan struct{} {
	if !w.since.IsZero() {
		return nil
	}
	return ctx.Done()
}

// ended is called when the supervisor was waited for. Without a proof from it, it was lost, and the proof is made here.
func (w *watch) ended() (job.Result, error) {
	w.sup.Close()
	killed := w.final.Killed
	if !w.final.Proven {
		w.begin(w.r.opts.Deadline)
		report := w.recover(w.r.opts.Deadline)
		if !report.Proven {
			return w.lost(nil), nil
		}
		killed += report.Killed
	}
	w.files.Drain()
	if w.final.Refused != "" {
		return job.Result{}, fault.New(fault.Invalid, "%s", w.final.Refused)
	}
	res := w.result()
	res.Cleanup = job.Cleanup{Killed: killed, Proven: true, ElapsedMS: time.Since(w.since).Milliseconds()}
	return res, nil
}

// result is how the command ended, without its clean-up.
func (w *watch) result() job.Result {
	res := job.Result{Outcome: w.outcome}
	if w.r.host.DiskFull(w.root) {
		res.Hints = append(res.Hints, "the disk is full")
	}
	switch {
	case res.Outcome != "":
	case !w.leader:
		res.Outcome, res.Error = job.Failed, "the command's supervisor was lost; nothing of it is left running"
	case w.status.Signaled():
		res.Outcome, res.Signal = job.Signalled, unix.SignalName(w.status.Signal())
		if w.status.Signal() == syscall.SIGKILL {
			res.Hints = append(res.Hints, "killed from outside the command: it may have used more memory than its limit")
		}
	default:
		code := w.status.ExitStatus()
		res.Outcome, res.ExitCode = job.Exited, &code
	}
	return res
}

// lost gives up waiting for the proof, tells what is known, and goes on watching. The jail comes first among what is left: all
// of the job is in it, also what no list shows.
func (w *watch) lost(words <-chan supervisor.Word) job.Result {
	res := job.Result{Outcome: w.outcome, Error: "clean-up could not be proved"}
	if res.Outcome == "" {
		res.Outcome = job.Failed
	}
	res.Cleanup = job.Cleanup{
		Killed: w.final.Killed, Survivors: max(1, w.final.Survivors), ElapsedMS: time.Since(w.since).Milliseconds(),
		Pids: []job.Leftover{{Pid: -w.jid}},
	}
	if start := w.r.host.Started(w.sup.Pid); start != 0 {
		res.Cleanup.Pids = append(res.Cleanup.Pids, job.Leftover{Pid: w.sup.Pid, Start: start})
	}
	for _, p := range w.final.Pids {
		res.Cleanup.Pids = append(res.Cleanup.Pids, job.Leftover{Pid: p.Pid, Start: p.Start})
	}
	w.r.watchers.Go(func() {
		for words != nil {
			select {
			case word, ok := <-words:
				if !ok {
					words = nil
				} else if word.Final {
					w.final = word
				}
			case <-w.r.stop:
				return
			}
		}
		w.goOn()
	})
	return res
}

// goOn waits for the supervisor's end, and finishes its work if it was lost meanwhile.
func (w *watch) goOn() {
	select {
	case <-w.sup.Done():
	case <-w.r.stop:
		return
	}
	for !w.final.Proven && !w.recover(quietTime).Proven {
		select {
		case <-time.After(5 * time.Second):
		case <-w.r.stop:
			return
		}
	}
	w.sup.Close()
	w.files.Drain()
}
