// Package sandboxtest stands in for the two root daemons in tests of what lies above them. It runs commands with the
// real /bin/sh as the test's own user, without any isolation, so it must never be imported by a program.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/ring"
)

// Jails is a fake jaild.
type Jails struct {
	Prefix string

	mu       sync.Mutex // guards handles and options
	handles  map[string]int
	options  map[string]jail.OpenOptions
	closeErr error
}

// FailClose makes the next closes fail with err; nil ends that.
func (j *Jails) FailClose(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closeErr = err
}

// Open implements sandbox.Jails.
func (j *Jails) Open(_ context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handles == nil {
		j.handles, j.options = map[string]int{}, map[string]jail.OpenOptions{}
	}
	j.handles[tenant]++
	j.options[tenant] = options
	return j.sandboxLocked(tenant), nil
}

// Close implements sandbox.Jails.
func (j *Jails) Close(_ context.Context, tenant string) (jail.Sandbox, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closeErr != nil {
		return jail.Sandbox{}, j.closeErr
	}
	if j.handles[tenant] == 0 {
		return jail.Sandbox{}, notOpen()
	}
	j.handles[tenant]--
	return j.sandboxLocked(tenant), nil
}

// Get implements sandbox.Jails.
func (j *Jails) Get(_ context.Context, tenant string) (jail.Sandbox, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sandboxLocked(tenant), nil
}

// Handles returns how often the tenant's session is open.
func (j *Jails) Handles(tenant string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.handles[tenant]
}

// Options returns what the last Open gave.
func (j *Jails) Options(tenant string) jail.OpenOptions {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.options[tenant]
}

func (j *Jails) sandboxLocked(tenant string) jail.Sandbox {
	return jail.Sandbox{
		Tenant:     tenant,
		Name:       j.Prefix + "-" + tenant,
		Persona:    tenant + " assistant",
		Network:    jail.NetworkNone,
		Isolation:  jail.IsolationNone,
		AppendOnly: jail.AppendOnly{Reason: "a test"},
		Attached:   j.handles[tenant] > 0,
		Handles:    j.handles[tenant],
	}
}

func notOpen() error { return fault.New(fault.NotOpen, "the session is not open") }

// Jobs is a fake reaperd over the real shell. Root holds one working directory a tenant.
type Jobs struct {
	Jails *Jails // nil = every tenant's session counts as open
	Root  string
	// Fake, if set, answers an Exec in the shell's place when its bool says so.
	Fake func(job.Spec) (job.Execution, error, bool)

	mu    sync.Mutex // guards what follows
	jobs  map[string]*running
	next  int
	specs []job.Spec
	wg    sync.WaitGroup
}

type running struct {
	tenant string
	log    *ring.Log
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards state and result
	state  job.State
	result *job.Result
}

// Specs returns all specs given to Exec and Start.
func (j *Jobs) Specs() []job.Spec {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]job.Spec(nil), j.specs...)
}

// Shutdown cancels all jobs and waits for them.
func (j *Jobs) Shutdown() {
	j.mu.Lock()
	for _, r := range j.jobs {
		r.cancel(job.ErrCancelled)
	}
	j.mu.Unlock()
	j.wg.Wait()
}

// Exec implements sandbox.Jobs.
func (j *Jobs) Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error) {
	if err := j.admit(spec); err != nil {
		return job.Execution{}, err
	}
	if j.Fake != nil {
		if execution, err, ok := j.Fake(spec); ok {
			return execution, err
		}
	}
	capture := ring.NewCapture(head, tail)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-capture.Full():
			cancel(job.ErrCancelled)
		case <-done:
		}
	}()
	result, err := j.run(ctx, spec, capture)
	if err != nil {
		return job.Execution{}, err
	}
	execution := job.Execution{Result: result, Stdout: capture.Stream(ring.Stdout), Stderr: capture.Stream(ring.Stderr)}
	execution.StdoutBytes, execution.StderrBytes = execution.Stdout.Total, execution.Stderr.Total
	return execution, nil
}

// Start implements sandbox.Jobs.
func (j *Jobs) Start(_ context.Context, spec job.Spec) (job.Status, error) {
	if err := j.admit(spec); err != nil {
		return job.Status{}, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{tenant: spec.Tenant, log: ring.New(4<<20, 1024), cancel: cancel, state: job.Running}
	j.mu.Lock()
	if j.jobs == nil {
		j.jobs = map[string]*running{}
	}
	j.next++
	id := fmt.Sprintf("job-%026d", j.next)
	j.jobs[id] = r
	j.mu.Unlock()
	j.wg.Go(func() {
		result, err := j.run(ctx, spec, r.log)
		if err != nil {
			result = job.Result{Outcome: job.Failed, Error: err.Error()}
		}
		result.StdoutBytes, result.StderrBytes = r.log.Total(ring.Stdout), r.log.Total(ring.Stderr)
		r.mu.Lock()
		r.state, r.result = job.Terminal, &result
		r.mu.Unlock()
		r.log.Close()
	})
	return job.Status{JobID: id, State: job.Running}, nil
}

// Poll implements sandbox.Jobs.
func (j *Jobs) Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error) {
	r, err := j.find(tenant, id)
	if err != nil {
		return job.Page{}, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		_ = r.log.Wait(waiting, cursor)
		cancel()
	}
	page, err := r.log.Read(cursor, 256<<10)
	if err != nil {
		return job.Page{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := job.Page{JobID: id, State: r.state, Chunks: page.Chunks, NextCursor: page.Next, HasMore: page.More, Gap: page.Gap, DroppedBytes: page.Dropped}
	if page.Closed && !page.More {
		answer.Result = r.result
	}
	return answer, nil
}

// Cancel implements sandbox.Jobs.
func (j *Jobs) Cancel(_ context.Context, tenant, id string) (job.Status, error) {
	r, err := j.find(tenant, id)
	if err != nil {
		return job.Status{}, err
	}
	r.mu.Lock()
	if r.state == job.Running {
		r.state = job.Cancelling
	}
	state := r.state
	r.mu.Unlock()
	r.cancel(job.ErrCancelled)
	_, end := r.log.Bounds()
	return job.Status{JobID: id, State: state, Cursor: end}, nil
}

func (j *Jobs) admit(spec job.Spec) error {
	j.mu.Lock()
	j.specs = append(j.specs, spec)
	j.mu.Unlock()
	if j.Jails != nil && j.Jails.Handles(spec.Tenant) == 0 {
		return notOpen()
	}
	return nil
}

func (j *Jobs) find(tenant, id string) (*running, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.jobs[id]
	if r == nil || r.tenant != tenant {
		return nil, fault.New(fault.NotFound, "unknown job").WithHint("start one with job_exec")
	}
	return r, nil
}

// run starts the shell in its own process group and ends the group with it.
func (j *Jobs) run(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
	home := filepath.Join(j.Root, spec.Tenant)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return job.Result{}, err
	}
	timeout := spec.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, job.ErrTimedOut)
	defer cancel()
	args := []string{"-c", string(spec.Command), "sh"}
	for _, arg := range spec.Args {
		args = append(args, string(arg))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir, cmd.Env = home, []string{"PATH=/usr/bin:/bin", "HOME=" + home}
	if filepath.IsAbs(spec.Cwd) {
		cmd.Dir = spec.Cwd
	} else if spec.Cwd != "" {
		cmd.Dir = filepath.Join(home, spec.Cwd)
	}
	if _, err := os.Stat(cmd.Dir); err != nil {
		return job.Result{Outcome: job.Failed, Error: fmt.Sprintf("cannot enter folder %q", spec.Cwd)}, nil
	}
	cmd.Stdin = bytes.NewReader(spec.Stdin)
	cmd.Stdout, cmd.Stderr = writer{out, ring.Stdout}, writer{out, ring.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return job.Result{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	stopped := !stop()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	result := end(err, stopped, context.Cause(ctx))
	result.DurationMS = time.Since(start).Milliseconds()
	result.Cleanup = job.Cleanup{Proven: true}
	return result, nil
}

func end(err error, stopped bool, cause error) job.Result {
	if stopped {
		if errors.Is(cause, job.ErrTimedOut) {
			return job.Result{Outcome: job.TimedOut}
		}
		return job.Result{Outcome: job.Cancelled}
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return job.Result{Outcome: job.Signalled, Signal: "SIG" + status.Signal().String()}
		}
		code = status.ExitStatus()
	}
	return job.Result{Outcome: job.Exited, ExitCode: &code}
}

type writer struct {
	out    job.Output
	stream ring.Stream
}

func (w writer) Write(p []byte) (int, error) {
	w.out.Write(w.stream, p)
	return len(p), nil
}
