package workloop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"playground/workloop/doors"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

const (
	maxClaim   = 256 << 10       // bytes of a worker's standard output
	claimDrain = 2 * time.Second // for the output of a worker that is reaped
	closeDrain = 30 * time.Second
)

// An ending is how the loop of a run ended, as far as it can be seen from outside.
type ending struct {
	claim   loop.Claim
	claimed bool   // there is a claim that can be read
	exit    *Exit  // of the worker; nil in process, or where it is not known
	problem string // what went wrong with the process; "" for a clean end
}

// supervise drives a run to its end and writes the outcome. It is the only place where a run ends.
func (e *Engine) supervise(r *run, h *hold, spec loop.Spec) {
	defer h.done()
	defer e.forget(r.thread)
	defer close(r.finished)
	var end ending
	if r.plan.transport == tier.Sandboxed {
		end = r.driveWorker(h.worker, spec)
	} else {
		e.notify(Notice{Event: NoticeInProcess, Thread: r.thread, Principal: r.plan.principal, Actor: r.plan.actor})
		end = r.driveHere(spec)
	}
	cause := context.Cause(r.ops)
	r.close()
	r.account.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), closeDrain)
	defer cancel()
	if err := r.tools.Close(ctx); err != nil {
		e.notify(Notice{Event: NoticeError, Thread: r.thread, Err: err})
	}
	h.free() // the worker is reaped, and what comes next may start when it sees the outcome
	e.conclude(r, r.weigh(end, cause))
}

// watch waits for done. It calls kill when the run must not go on: after the wall clock, a stop or a question, if the loop has not
// ended within the grace; at once when the daemon stops or the run is cut off.
func (r *run) watch(done <-chan struct{}, kill func()) {
	var wall, grace <-chan time.Time
	if left := r.wallClock(); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		wall = timer.C
	}
	stopping, parking, closing := r.stopping, r.parking, r.ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-wall:
			wall = nil
			r.endOps(errWallClock)
		case <-stopping:
			stopping = nil
		case <-parking:
			parking = nil
		case <-grace:
			grace = nil
			kill()
			continue
		case <-closing:
			closing, grace = nil, nil
			kill()
			continue
		}
		if grace == nil {
			timer := time.NewTimer(r.e.o.StopGrace)
			defer timer.Stop()
			grace = timer.C
		}
	}
}

// driveHere runs the loop in this process.
func (r *run) driveHere(spec loop.Spec) (end ending) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.e.ctx))
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.e.notify(Notice{Event: NoticeError, Thread: r.thread, Err: errPanic(p)})
				end = ending{problem: "the loop failed inside the daemon"}
			}
		}()
		end = ending{claim: loop.Run(ctx, spec, r), claimed: true}
	}()
	r.watch(done, func() {
		r.endOps(errKilled)
		cancel(errKilled)
	})
	return end
}

// driveWorker hands the run to a confined worker, serves its doors, and returns when it is reaped.
func (r *run) driveWorker(w *Worker, spec loop.Spec) (end ending) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.e.ctx))
	defer cancel()
	handoff, err := r.handoff(spec)
	if err != nil {
		w.discard()
		return ending{problem: "the run could not be handed over"}
	}
	r.mu.Lock()
	r.pid = w.PID
	r.mu.Unlock()
	r.e.notify(Notice{Event: NoticeSandboxed, Thread: r.thread, Principal: r.plan.principal, Actor: r.plan.actor, PID: w.PID, Layers: w.Layers})

	var all sync.WaitGroup
	all.Go(func() { _ = doors.Serve(ctx, w.Doors, doors.NewHandler(r.find)) })
	all.Go(func() {
		_, _ = w.Stdin.Write(handoff) // a worker that does not read shows by its end
		_ = w.Stdin.Close()
	})
	said := make(chan []byte, 1)
	all.Go(func() {
		text, _ := io.ReadAll(io.LimitReader(w.Stdout, maxClaim+1))
		if len(text) > maxClaim {
			w.Kill()
		}
		said <- text
	})
	done := make(chan struct{})
	var exit Exit
	var unknown error
	all.Go(func() {
		defer close(done)
		exit, unknown = w.Wait(ctx)
	})
	r.watch(done, w.Kill)
	text := drain(said, w.Stdout)
	r.mu.Lock()
	r.credential = nil // revoked with the reaping
	r.mu.Unlock()
	cancel()
	_ = w.Doors.Close()
	_ = w.Stdin.Close()
	_ = w.Stdout.Close()
	all.Wait()
	end.claim, end.claimed = readClaim(text)
	switch {
	case unknown != nil:
		end.problem = "how the worker ended is not known"
	case !exit.Clean():
		end.exit, end.problem = &exit, exit.text()
	default:
		end.exit = &exit
	}
	return end
}

// drain returns what the worker said. Whoever holds its output open beyond its end is not waited for.
func drain(said <-chan []byte, stdout io.Closer) []byte {
	timer := time.NewTimer(claimDrain)
	defer timer.Stop()
	select {
	case text := <-said:
		return text
	case <-timer.C:
		_ = stdout.Close()
		return <-said
	}
}

// readClaim reads a worker's last line.
func readClaim(text []byte) (c loop.Claim, ok bool) {
	if len(text) > maxClaim {
		return c, false
	}
	text = bytes.TrimSpace(text)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if json.Unmarshal(text, &c) != nil || c.Outcome == "" {
		return loop.Claim{}, false
	}
	return c, true
}

// find finds the run of a bearer at the run's own doors: this one, or none.
func (r *run) find(bearer string) (loop.Kernel, doors.Bounds, bool) {
	if !r.matches(bearer) {
		return nil, doors.Bounds{}, false
	}
	return r, doors.Bounds{Thread: r.thread, Kinds: workerKinds(), Reads: r.plan.reads}, true
}
