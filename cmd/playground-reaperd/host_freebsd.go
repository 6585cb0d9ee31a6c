package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/confine/keeper"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/localapi/jobapi"
	"playground/reaper"
)

// limitJobs does nothing: every leaf jail has its rctl rules.
func limitJobs(*reaper.Runner, zerolog.Logger) {}

// A host is what the socket offers beside commands.
type host struct {
	runner *reaper.Runner
	cfg    config.Config
	since  time.Time

	mu sync.Mutex // one clean at a time
}

var _ jobapi.Host = (*host)(nil)

// newHost must be called before the first command is run: what is older was an earlier daemon's.
func newHost(runner *reaper.Runner, cfg config.Config) *host {
	return &host{runner: runner, cfg: cfg, since: time.Now()}
}

// Clean implements jobapi.Host.
func (h *host) Clean(context.Context) (jobapi.Cleaned, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	swept, err := h.runner.Clean(h.cfg.Host.Prefix, h.since, h.cfg.Jobs.ProofDeadline)
	removed, left, workerErr := keeper.Sweep(h.cfg.Host.Prefix, h.since, h.cfg.Jobs.ProofDeadline)
	return jobapi.Cleaned{Jails: append(swept.Jails, removed...), Limits: swept.Limits, Left: append(swept.Left, left...)}, errors.Join(err, workerErr)
}

// Usage implements jobapi.Host.
func (h *host) Usage(context.Context) (jobapi.Usage, error) {
	all, err := h.runner.Usage()
	if err != nil {
		return nil, err
	}
	usage := make(jobapi.Usage, len(all))
	for tenant, one := range all {
		usage[tenant] = one
	}
	return usage, nil
}

// Log event names.
const (
	eventSwept       = "leftovers_removed"
	eventSweepFailed = "sweep_failed"
)

// sweep clears away what an earlier process left, before the first command is admitted, and says so. What cannot be proved empty
// is a lost proof like any other.
func sweep(cfg config.Config, lost job.LostStore, log zerolog.Logger) error {
	var swept reaper.Swept
	var err error
	if cfg.Sandbox.Isolation == jail.IsolationJail { // otherwise no command is run at all
		swept, err = reaper.Sweep(cfg.Host.Prefix, cfg.Jobs.ProofDeadline)
	}
	removed, left, workerErr := keeper.Sweep(cfg.Host.Prefix, time.Now(), cfg.Jobs.ProofDeadline)
	swept.Jails, swept.Left, err = append(swept.Jails, removed...), append(swept.Left, left...), errors.Join(err, workerErr)
	if len(swept.Jails)+len(swept.Limits) > 0 {
		log.Warn().Strs("jails", swept.Jails).Strs("limits", swept.Limits).Msg(eventSwept)
	}
	if err != nil {
		// Without jails left, such as a kernel that keeps no accounts of them: every command is refused then, and that says why.
		log.Error().Err(err).Str("hint", fault.HintOf(err)).Msg(eventSweepFailed)
	}
	if len(swept.Left) > 0 {
		return recordLeft(swept.Left, lost, log)
	}
	return nil
}

// recordLeft puts jails that may hold something on record, by number. One that has gone meanwhile holds nothing.
func recordLeft(names []string, lost job.LostStore, log zerolog.Logger) error {
	record, err := lost.Load()
	if err != nil {
		return err
	}
	if record == nil {
		record = &job.Lost{Since: time.Now().Round(0), Reason: "an earlier playground-reaperd left jails that are not proved empty"}
	}
	var left []job.Leftover
	infos, err := jail.Jails()
	if err != nil {
		record.Unknown = true
	}
	for _, info := range infos {
		if slices.Contains(names, info.Name) {
			left = append(left, job.Leftover{Pid: -info.JID})
		}
	}
	if len(left) == 0 && !record.Unknown {
		return nil
	}
	add(record, left)
	log.Error().Strs("jails", names).Msg(eventProofLost)
	return lost.Save(record)
}
