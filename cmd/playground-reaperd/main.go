// Command playground-reaperd owns everything that runs: it admits commands, runs them in the tenants' sandboxes, keeps the
// output of jobs, and proves that nothing of an ended one is left. It answers root and the transport's user on a local
// socket, so that jobs outlive the transport.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"playground/config"
	"playground/daemon"
	"playground/fault"
	"playground/internal/rootd"
	"playground/job"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localapi/serviceapi"
	"playground/localapi/workerapi"
	"playground/reaper"
)

// Log event names.
const (
	eventProofLost  = "proof_lost"
	eventProofFound = "proof_found"
)

// stopTimeout bounds proving the clean-up of everything at a stop.
const stopTimeout = 50 * time.Second

func main() {
	unix.Umask(0o077)
	os.Exit(rootd.Main("playground-reaperd", config.Config.ReaperSocket, os.Args[1:], os.Stdout, os.Stderr, serve))
}

func serve(ctx context.Context, h rootd.Host) error {
	if err := daemon.Undumpable(); err != nil {
		return err
	}
	if err := os.MkdirAll(h.Config.Host.StateDir, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot make the state folder").WithHint("set host.state_dir to a folder this user may make")
	}
	lost := reaper.LostFile(filepath.Join(h.Config.Host.StateDir, "lost-proof.json"))
	if err := recoverJournal(journal(h.Config.Host.RunDir), h.Config.Jobs.ProofDeadline, lost, h.Log); err != nil {
		return err
	}
	if err := sweep(h.Config, lost, h.Log); err != nil {
		return err
	}
	runner := reaper.NewRunner(jailapi.NewClient(h.Config.JailSocket()), reaper.Options{
		TermGrace:     h.Config.Jobs.TermGrace,
		ProofDeadline: h.Config.Jobs.ProofDeadline,
		Supervise:     rootd.Supervise(h.Config.Host.LibexecDir),
		Warm:          h.Config.Jobs.Warm,
		Log:           os.Stderr,
		Journal:       journal(h.Config.Host.RunDir),
	})
	defer runner.Close()
	limitJobs(runner, h.Log)
	manager := job.NewManager(runner, h.Config.JobLimits(), lost)
	access := jobapi.Access{Callers: h.Callers, Operators: h.Own}
	routes := append(jobapi.Routes(manager, newHost(runner, h.Config), access), serviceapi.Routes(services{manager, runner}, h.Own)...)
	workers, workerRoutes := newWorkers(h, manager)
	socket, err := h.Serve(h.Config.ReaperSocket(), append(routes, workerRoutes...), jobapi.BodyBytes(h.Config.JobLimits()))
	if err != nil {
		return err
	}
	// The jobs come first, so that they are ended after the last request.
	jobs := daemon.NewTask("jobs", func(ctx context.Context, ready func()) error {
		ready()
		return errors.Join(watchProof(ctx, manager, h.Log), shutDown(manager, workers))
	})
	return daemon.Run(ctx, h.Log, jobs, socket)
}

func shutDown(manager *job.Manager, workers *workerapi.Service) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var err error
	if workers != nil {
		err = workers.Close(ctx)
	}
	return errors.Join(err, manager.Shutdown(ctx))
}

// watchProof says when a proof is lost, and looks until what was left has ended after all.
func watchProof(ctx context.Context, manager *job.Manager, log zerolog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-manager.LostC():
		}
		record := manager.Lost()
		if record == nil {
			continue
		}
		named(log.Error(), record.Pids).Str("tenant", record.Tenant).Str("job", record.JobID).Msg(eventProofLost)
		for manager.Lost() != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			if record = manager.Lost(); record != nil && !record.Unknown && reaper.Gone(record.Pids) && manager.Proved(record) == nil {
				log.Info().Msg(eventProofFound)
			}
		}
	}
}
