package job

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"playground/fault"
	"playground/ring"
)

// errOutputFull is the cause of ending a command early because nothing it could still print would be kept.
var errOutputFull = errors.New("output limit reached")

// An Execution is the end of a synchronous command and what was kept of its output.
type Execution struct {
	Result `json:"result"`
	Stdout ring.Captured `json:"stdout"`
	Stderr ring.Captured `json:"stderr"`
}

// Exec runs a command and returns when its clean-up has ended; if ctx ends before, the command is cancelled first. Of
// each stream it keeps the first head and the last tail bytes. With a tail of 0 the command is ended as soon as either
// stream has more than head bytes, which shows as Captured.Truncated; a caller that does not care for output must keep
// some all the same, or the first byte ends the command. The error is a refusal to start; every end of a command
// that was started is an Execution.
func (m *Manager) Exec(ctx context.Context, spec Spec, head, tail int) (Execution, error) {
	if err := m.check(&spec); err != nil {
		return Execution{}, err
	}
	if most := m.limits.captureBytes(); head < 0 || tail < 0 || head > most || tail > most-head {
		return Execution{}, fault.New(fault.Invalid, "cannot keep %d and %d bytes of output, the limit is %d", head, tail, most)
	}
	limit, err := timeout(spec.Timeout, m.limits.ExecDefault, m.limits.ExecMax,
		"use job_exec for a command that takes longer, and job_poll for its output")
	if err != nil {
		return Execution{}, err
	}
	spec.Timeout = limit
	if ctx.Err() != nil {
		return Execution{}, context.Cause(ctx)
	}
	// The caller's ctx is not the run's: a caller that goes away must look like a cancel to the Runner.
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &run{tenant: spec.Tenant, cancel: cancel}
	if err := m.admit(r); err != nil {
		cancel(err)
		return Execution{}, err
	}
	stop := context.AfterFunc(ctx, func() { cancel(ErrCancelled) })
	defer stop()

	capture := ring.NewCapture(head, tail)
	res, err := m.run(runCtx, r, spec, &captureOutput{capture, cancel}, func(s ring.Stream) int64 {
		return capture.Stream(s).Total
	})
	if err != nil {
		return Execution{}, err
	}
	return Execution{Result: res, Stdout: capture.Stream(ring.Stdout), Stderr: capture.Stream(ring.Stderr)}, nil
}

// captureOutput cancels the run once its Capture is full.
type captureOutput struct {
	capture *ring.Capture
	cancel  context.CancelCauseFunc
}

// Write implements Output.
func (o *captureOutput) Write(s ring.Stream, p []byte) {
	o.capture.Write(s, p)
	select {
	case <-o.capture.Full():
		o.cancel(errOutputFull)
	default:
	}
}

// runJob is the goroutine of one job.
func (m *Manager) runJob(ctx context.Context, r *run, spec Spec) {
	// A refused start is in the job's result already.
	_, _ = m.run(ctx, r, spec, r.log, r.log.Total)
}

// run calls the Runner for an admitted run and ends the run in every case: its slot is freed even if the Runner panics
// or takes its goroutine with it. What such a Runner left behind is not known, so that its proof is lost. The error is
// that of a refused start; the Result says the same for a job's poll.
func (m *Manager) run(ctx context.Context, r *run, spec Spec, out Output, total func(ring.Stream) int64) (res Result, err error) {
	stop := func() {}
	if r.service == "" { // a service may run for ever
		ctx, stop = context.WithTimeoutCause(ctx, spec.Timeout, ErrTimedOut)
	}
	res = Result{Outcome: Failed, Error: "the command's supervisor was lost"}
	reason := "the runner ended without a result"
	defer func() {
		if p := recover(); p != nil {
			reason = fmt.Sprintf("the runner panicked: %v\n%s", p, debug.Stack())
		}
		stop()
		res.StdoutBytes, res.StderrBytes = total(ring.Stdout), total(ring.Stderr)
		res.DurationMS = time.Since(r.started).Milliseconds()
		m.end(r, res, reason)
	}()
	ran, err := m.runner.Run(ctx, spec, out)
	reason = "the clean-up was not proved"
	if err != nil {
		ran, err = refused(ctx, err)
	}
	res = ran
	return res, err
}

// refused returns the result of a start that the Runner refused, which leaves no process unless err says so. One whose
// time was over, or that was cancelled, before it could start has just that outcome and no error.
func refused(ctx context.Context, err error) (Result, error) {
	res := Result{Outcome: Failed, Cleanup: Cleanup{Proven: !errors.Is(err, fault.ProofLost)}}
	switch cause := context.Cause(ctx); {
	case !res.Cleanup.Proven:
	case errors.Is(cause, ErrCancelled):
		res.Outcome = Cancelled
		return res, nil
	case errors.Is(cause, ErrTimedOut):
		res.Outcome = TimedOut
		return res, nil
	}
	// Only a fault's text is known to be safe for a tenant.
	res.Error = "the command could not be started"
	if e, ok := errors.AsType[*fault.Error](err); ok {
		res.Error = e.Message
		if e.Hint != "" {
			res.Hints = []string{e.Hint}
		}
	}
	return res, err
}

// end frees a run's slot and gives its result to polls. A lost proof closes admission before the slot is free, and is on
// record before anybody who waits for the run goes on.
func (m *Manager) end(r *run, res Result, reason string) {
	if !res.Cleanup.Proven {
		m.lose(r, res.Cleanup.Pids, reason)
	}
	m.mu.Lock()
	delete(m.runs, r)
	if r.service == "" {
		m.tallyLocked(r.tenant).active--
	} else {
		m.tallyLocked(r.tenant).services--
		m.serving--
	}
	m.forgetTallyLocked(r.tenant)
	r.state, r.result, r.ended = Terminal, &res, time.Now()
	if r.log != nil {
		// Under the lock, so that a job that is seen as ended has all its output.
		r.log.Close()
		if r.service == "" {
			m.sweepByLocked(r.ended.Add(m.limits.TTL))
		}
	}
	m.mu.Unlock()
	r.cancel(nil) // frees the context
	close(r.done)
}
