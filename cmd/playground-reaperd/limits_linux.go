package main

import (
	"github.com/rs/zerolog"

	"playground/reaper"
)

// limitJobs bounds jobs by cgroups where the host lets this daemon; `playground doctor` says what else would.
func limitJobs(runner *reaper.Runner, log zerolog.Logger) {
	if err := runner.UseCgroups(); err != nil {
		log.Info().Str("reason", err.Error()).Msg("cgroups_not_used")
	}
}
