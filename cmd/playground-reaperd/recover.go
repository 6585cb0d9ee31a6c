package main

import (
	"path/filepath"
	"slices"
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
	add(record, left)
	named(log.Error(), left).Msg(eventProofLost)
	return lost.Save(record)
}

// add puts what is left on record, once: every start finds it again.
func add(record *job.Lost, left []job.Leftover) {
	for _, l := range left {
		if !slices.Contains(record.Pids, l) {
			record.Pids = append(record.Pids, l)
		}
	}
}

// named says in a line of the log what was left. A jail, whose number is below zero in the record, must not look like a process:
// kill(1) would take -1 for every one.
func named(line *zerolog.Event, left []job.Leftover) *zerolog.Event {
	processes, jails := []job.Leftover{}, []int(nil)
	for _, l := range left {
		if l.Pid < 0 {
			jails = append(jails, -l.Pid)
			continue
		}
		processes = append(processes, l)
	}
	if len(jails) > 0 {
		line = line.Ints("jails", jails)
	}
	return line.Interface("pids", processes)
}
