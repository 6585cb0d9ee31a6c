package main

import (
	"time"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/confine"
	"playground/confine/keeper"
	"playground/fault"
	"playground/internal/rootd"
	"playground/job"
	"playground/localapi"
	"playground/localapi/workerapi"
)

// eventNoWorkers says that no work-loop worker can be started, and why.
const eventNoWorkers = "workers_unavailable"

// newWorkers returns the service of work-loop workers and its route. It opens their program now, so that replacing the file changes
// nothing before a restart. Without the program commands are run all the same; a start of a worker says why it is refused.
func newWorkers(h rootd.Host, manager *job.Manager) (*workerapi.Service, []localapi.Route) {
	workers, err := keeper.New(workerOptions(h.Config, manager, h.Log))
	if err != nil {
		h.Log.Error().Err(err).Str("hint", fault.HintOf(err)).Msg(eventNoWorkers)
		return nil, workerapi.Refusing(err, h.Callers)
	}
	service := workerapi.NewService(workers)
	return service, service.Routes(h.Callers)
}

func workerOptions(cfg config.Config, manager *job.Manager, log zerolog.Logger) keeper.Options {
	return keeper.Options{
		Program:  rootd.Worker(cfg.Host.LibexecDir),
		Bounds:   confine.Bounds{DataBytes: cfg.Work.Worker.MemoryBytes, CPUSeconds: int64(cfg.Work.Worker.CPU / time.Second)},
		UIDBase:  cfg.Work.Worker.UIDBase,
		Prefix:   cfg.Host.Prefix,
		Deadline: cfg.Jobs.ProofDeadline,
		Admit: func() error {
			if manager.Lost() == nil {
				return nil
			}
			return fault.New(fault.ProofLost, "starts are refused: it is not proved that all processes of an earlier command are gone").
				WithHint("the operator must look at what is left and then run: playground ack")
		},
		Note: journal(cfg.Host.RunDir).Note,
		Lost: func(left []confine.Leftover, reason string) {
			pids := make([]job.Leftover, len(left))
			for i, l := range left {
				pids[i] = job.Leftover{Pid: l.PID, Start: l.Start}
			}
			manager.LoseOther(pids, "a work-loop worker: "+reason)
		},
		Seen: func(e keeper.Event) { logWorker(log, e) },
	}
}

// logWorker writes one line of a worker's life. Workers are found by these lines, not by their names among processes.
func logWorker(log zerolog.Logger, e keeper.Event) {
	line := log.Info()
	if e.Kind == keeper.Refused {
		line = log.Error().Err(e.Err)
	}
	line = line.Str("run", e.Run)
	if e.PID != 0 {
		line = line.Int("pid", e.PID)
	}
	switch e.Kind {
	case keeper.Started:
		line = line.Dur("took", e.Took)
	case keeper.Ended:
		line = line.Err(e.Err).Int("exit", e.Exit.Status).Str("signal", e.Exit.Signal).Bool("proven", e.Exit.Cleanup.Proven)
		if e.Text != "" {
			line = line.Str("stderr", e.Text)
		}
	}
	line.Msg(string(e.Kind))
}
