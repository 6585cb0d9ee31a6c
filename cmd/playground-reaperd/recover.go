package main

import (
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"playground/job"
	"playground/reaper"
)

// journal is where unproved ends are written down: beside the sockets, which a boot empties as it ends every process.
func journal(runDir string) reaper.Journal {
	return reaper.Journal(filepath.Join(runDir, "unproved"))
}

// recoverJournal looks after what an earlier process was ending when it died. What has not ended within limit is a lost proof like any
// other: it goes on record, before the first command is admitted.
func recoverJournal(j reaper.Journal, limit time.Duration, lost job.LostStore, log zerolog.Logger) error {
	left, err := j.Recover(limit)
	if err != nil || len(left) == 0 {
		return err
	}
	record, err := lost.Load()
	if err != nil {
		return err
	}
	if record == nil {
		record = &job.Lost{Since: time.Now().Round(0), Reason: "an earlier playground-reaperd ended before it had proved what it was ending"}
	}
	record.Pids = append(record.Pids, left...)
	log.Error().Interface("pids", left).Msg(eventProofLost)
	return lost.Save(record)
}
