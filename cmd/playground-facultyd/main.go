// Command playground-facultyd decides which faculty workers run: programs of the operator that serve MCP from inside tenants'
// sandboxes. What it starts is run, and proved gone, by playground-reaperd. It answers root and the transport's user on a local
// socket.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"playground/config"
	"playground/daemon"
	"playground/faculty"
	"playground/fault"
	"playground/internal/rootd"
	"playground/job"
	"playground/localapi/facultyapi"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localapi/serviceapi"
)

// Log event names.
const (
	eventWorker  = "worker"          // one was started, was not, or has ended
	eventTrouble = "faculty_trouble" // what no caller asked for: definitions that are not valid, a log that cannot be written
)

func main() {
	unix.Umask(0o077)
	os.Exit(rootd.MainChecked("playground-facultyd", config.Config.FacultySocket, check, os.Args[1:], os.Stdout, os.Stderr, serve))
}

// check is what -t looks at beside the configuration: whether workers are defined, and whether the host is fit for them.
func check(c config.Config) error {
	if c.Faculty.Definitions == "" {
		return fault.New(fault.Invalid, "faculty.definitions names no file: there are no faculty workers").
			WithHint("set it, or do not start playground-facultyd")
	}
	if _, err := faculty.Load(c.Faculty.Definitions, config.PrivateFile); err != nil {
		return err
	}
	return fit(context.Background(), c)
}

func serve(ctx context.Context, h rootd.Host) error {
	if h.Config.Faculty.Definitions == "" {
		return check(h.Config)
	}
	if err := fit(ctx, h.Config); err != nil {
		return err
	}
	if err := daemon.Undumpable(); err != nil {
		return err
	}
	jails := jailapi.NewClient(h.Config.JailSocket())
	defer jails.Disconnect()
	runner := reaper{jobapi.NewClient(h.Config.ReaperSocket()), serviceapi.NewClient(h.Config.ReaperSocket())}
	defer runner.disconnect()
	workers := faculty.NewManager(faculty.Options{
		Load: func() ([]faculty.Definition, error) {
			return faculty.Load(h.Config.Faculty.Definitions, config.PrivateFile)
		},
		Token:  h.Config.WorkerToken,
		Jails:  jails,
		Reaper: runner,
		Dir:    h.Config.FacultyDir(),
		Path:   h.Config.Sandbox.Path,
		Note:   func(id, text string) { h.Log.Info().Str("worker", id).Str("what", text).Msg(eventWorker) },
		Failed: func(id string, err error) {
			h.Log.Error().Str("worker", id).Err(err).Str("hint", fault.HintOf(err)).AnErr("cause", errors.Unwrap(err)).Msg(eventTrouble)
		},
	})
	socket, err := h.Serve(h.Config.FacultySocket(), facultyapi.Routes(workers, facultyapi.Access{Callers: h.Callers, Operators: h.Own}), 0)
	if err != nil {
		return err
	}
	// The workers come first, so that they are ended after the last request.
	return daemon.Run(ctx, h.Log, daemon.NewTask("workers", workers.Run), socket)
}

// A reaper is playground-reaperd as package faculty sees it: commands on one half of its socket, services on the other.
type reaper struct {
	jobs     *jobapi.Client
	services *serviceapi.Client
}

var _ faculty.Reaper = reaper{}

func (r reaper) disconnect() {
	r.jobs.Disconnect()
	r.services.Disconnect()
}

// Exec implements faculty.Reaper.
func (r reaper) Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error) {
	return r.jobs.Exec(ctx, spec, head, tail)
}

// Start implements faculty.Reaper.
func (r reaper) Start(ctx context.Context, spec job.ServiceSpec) (job.Service, error) {
	return r.services.Start(ctx, spec)
}

// Poll implements faculty.Reaper.
func (r reaper) Poll(ctx context.Context, id string, cursor int64, wait time.Duration) (job.Page, error) {
	return r.services.Poll(ctx, id, cursor, wait)
}

// Stop implements faculty.Reaper.
func (r reaper) Stop(ctx context.Context, id string) (job.Result, error) {
	return r.services.Stop(ctx, id)
}

// Services implements faculty.Reaper.
func (r reaper) Services(ctx context.Context) ([]faculty.Service, error) {
	all, err := r.services.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]faculty.Service, len(all))
	for i, s := range all {
		list[i] = faculty.Service{Service: s.Service, Pid: s.Pid, Usage: s.Usage}
	}
	return list, nil
}
