// Package daemon is the process around a daemon's tasks: it starts them in order, tells the service manager when all are
// ready, stops them in reverse order, and builds the loggers. A daemon stays in the foreground; daemon(8) or systemd
// keeps it. Tasks are not recovered from a panic: a root daemon that met a bug must die and start again from what is on
// disk.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"playground/version"
)

// A Task is a part of a daemon that runs until its context ends.
type Task interface {
	Name() string
	// Run does the work. It returns soon after ctx ends, and nil if that was the reason.
	Run(ctx context.Context) error
	// Ready is closed when the task can be used. A nil channel means at once.
	Ready() <-chan struct{}
}

// NewTask makes a Task of run, which calls ready when the task can be used.
func NewTask(name string, run func(ctx context.Context, ready func()) error) Task {
	return &task{name: name, run: run, ready: make(chan struct{})}
}

type task struct {
	name  string
	run   func(context.Context, func()) error
	ready chan struct{}
}

func (t *task) Name() string           { return t.name }
func (t *task) Ready() <-chan struct{} { return t.ready }

func (t *task) Run(ctx context.Context) error {
	told := false
	return t.run(ctx, func() {
		if !told {
			told = true
			close(t.ready)
		}
	})
}

// Log events, in the message's place.
const (
	EventStarting   = "starting"
	EventReady      = "ready"
	EventStopping   = "stopping"
	EventStopped    = "stopped"
	EventTaskReady  = "task_ready"
	EventTaskFailed = "task_failed"
	EventNotify     = "notify_failed"
	EventHardExit   = "hard_exit"
)

// stopBudget bounds the whole stop: rc.shutdown(8) kills what is left after 90 seconds, and says less about it.
const stopBudget = 50 * time.Second

// Run starts the tasks, each when the ones before it are ready, and keeps them until ctx ends, a task fails, or SIGINT,
// SIGTERM or SIGHUP comes. Then it stops them one by one, the last one first. A second signal ends the process at once.
// The service manager is told READY=1 and STOPPING=1 on NOTIFY_SOCKET. A task that returns nil is done and stops nobody.
// Run returns the first failure, and nil after an orderly stop.
func Run(ctx context.Context, logger zerolog.Logger, tasks ...Task) error {
	signals := make(chan os.Signal, 4)
	stop := watch(signals)
	defer stop()
	l := loop{logger: logger, signals: signals, exit: os.Exit, failed: make(chan error, len(tasks))}
	return l.run(ctx, tasks)
}

// CatchBrokenPipes keeps the process alive when the reader of its standard output or error has gone away, from now on; Run
// does so only while it runs. daemon(8) of FreeBSD 13 is such a reader: it ends before its child.
func CatchBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// watch sends the signals that stop a daemon to c, until the returned function is called.
func watch(c chan os.Signal) (stop func()) {
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) asked for that
		signal.Notify(c, syscall.SIGHUP)
	}
	// SIGPIPE must not kill a daemon whose log reader went away first. It is caught and dropped, because an ignored
	// signal would stay ignored in every child: there, "yes | head" would never end.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return func() {
		signal.Stop(c)
		signal.Stop(pipe)
	}
}

// loop is one Run.
type loop struct {
	logger  zerolog.Logger
	signals <-chan os.Signal
	exit    func(code int)
	failed  chan error // one slot per task, so that no task waits to report
	running []*running
}

// running is a started task.
type running struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed after err is set
	err    error
}

func (l *loop) run(ctx context.Context, tasks []Task) error {
	began := time.Now()
	l.logger.Info().Str("version", version.String()).Int("pid", os.Getpid()).Msg(EventStarting)
	reason, err := l.start(ctx, tasks)
	if reason == "" {
		l.notify(sd.SdNotifyReady, false)
		l.logger.Info().Dur("dur_ms", time.Since(began)).Msg(EventReady)
		reason, err = l.wait(ctx, nil)
	}
	l.logger.Err(err).Str("reason", reason).Msg(EventStopping)
	l.notify(sd.SdNotifyStopping, true)
	err = errors.Join(err, l.stop())
	for _, r := range l.running {
		// The first failure is returned; the others would be lost.
		if isDone(r.done) && r.err != nil && !errors.Is(err, r.err) {
			l.logger.Error().Str("task", r.name).Err(r.err).Msg(EventTaskFailed)
			err = errors.Join(err, r.err)
		}
	}
	l.logger.Info().Msg(EventStopped)
	return err
}

// start starts the tasks in order. An empty reason means that all are ready.
func (l *loop) start(ctx context.Context, tasks []Task) (reason string, err error) {
	for _, t := range tasks {
		// The task's context does not end with ctx: all would stop at once and not in order.
		taskCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{name: t.Name(), cancel: cancel, done: make(chan struct{})}
		l.running = append(l.running, r)
		go func() {
			defer close(r.done)
			err := t.Run(taskCtx)
			if err == nil || (taskCtx.Err() != nil && errors.Is(err, context.Canceled)) {
				return
			}
			r.err = fmt.Errorf("%s: %w", r.name, err)
			l.failed <- r.err
		}()
		ready := t.Ready()
		if ready == nil {
			continue
		}
		if reason, err := l.wait(ctx, merge(ready, r.done)); reason != "" {
			return reason, err
		}
		l.logger.Debug().Str("task", r.name).Msg(EventTaskReady)
	}
	return "", nil
}

// merge returns a channel that is closed once one of the two is. A task that ended without error before it was ready
// must not hold up the others.
func merge(a, b <-chan struct{}) <-chan struct{} {
	either := make(chan struct{})
	go func() { // ends with the task at the latest, which Run waits for
		defer close(either)
		select {
		case <-a:
		case <-b:
		}
	}()
	return either
}

// wait waits for next, which has no reason, or for a reason to stop.
func (l *loop) wait(ctx context.Context, next <-chan struct{}) (reason string, err error) {
	select {
	case err := <-l.failed: // a failure goes before everything else
		return "task failed", err
	default:
	}
	select {
	case err := <-l.failed:
		return "task failed", err
	case s := <-l.signals:
		return "signal " + s.String(), nil
	case <-ctx.Done():
		return context.Cause(ctx).Error(), nil
	case <-next:
		select {
		case err := <-l.failed: // it ended, and with an error
			return "task failed", err
		default:
			return "", nil
		}
	}
}

// stop ends the tasks in reverse order and waits for each.
func (l *loop) stop() error {
	budget := time.NewTimer(stopBudget)
	defer budget.Stop()
	for _, r := range slices.Backward(l.running) {
		r.cancel()
		select {
		case <-r.done:
		case s := <-l.signals:
			l.logger.Error().Str("task", r.name).Str("signal", s.String()).Msg(EventHardExit)
			l.exit(1)
			return fmt.Errorf("second signal while %s was stopping", r.name)
		case <-budget.C:
			return fmt.Errorf("%s did not stop within %v", r.name, stopBudget)
		}
	}
	return nil
}

// isDone reports whether c is closed.
func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// notify tells the service manager. There may be none, and a daemon works without; a broken one is worth a warning.
func (l *loop) notify(state string, last bool) {
	if _, err := sd.SdNotify(last, state); err != nil {
		l.logger.Warn().Err(err).Str("state", state).Msg(EventNotify)
	}
}
