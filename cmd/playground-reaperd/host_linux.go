package main

import (
	"context"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/job"
	"playground/localapi/jobapi"
	"playground/reaper"
)

// limitJobs bounds jobs by cgroups where the host lets this daemon; `playground doctor` says what else would.
func limitJobs(runner *reaper.Runner, log zerolog.Logger) {
	if err := runner.UseCgroups(); err != nil {
		log.Info().Str("reason", err.Error()).Msg("cgroups_not_used")
	}
}

// A host is what the socket offers beside commands.
type host struct{}

var _ jobapi.Host = host{}

func newHost(*reaper.Runner, config.Config) host { return host{} }

// Clean implements jobapi.Host.
func (host) Clean(context.Context) (jobapi.Cleaned, error) {
	return jobapi.Cleaned{Reason: "on Linux the kernel ends a command together with its process namespace, which ends with the daemon " +
		"that it belongs to; what does not end in time is on record as a lost proof"}, nil
}

// Usage implements jobapi.Host: rctl(8) is FreeBSD's.
func (host) Usage(context.Context) (jobapi.Usage, error) { return nil, nil }

// sweep has nothing to do: see Clean.
func sweep(config.Config, job.LostStore, zerolog.Logger) error { return nil }
