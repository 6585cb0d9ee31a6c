package reaper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"playground/job"
	"playground/procfs"
)

// add writes down an init before it is told what to run.
func (j Journal) add(pid int) (entry string, err error) {
	if j == "" {
		return "", nil
	}
	start, ok := procfs.StartTime(pid)
	if !ok {
		return "", fmt.Errorf("cannot find process %d", pid)
	}
	entry = filepath.Join(string(j), fmt.Sprintf("%d-%d", pid, start))
	f, err := os.OpenFile(entry, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	return entry, f.Close()
}

// remove crosses an init out.
func (j Journal) remove(entry string) {
	if entry != "" {
		os.Remove(entry) // one that stays costs a look at a process that is gone
	}
}

// Note writes down a process that this one started and will end. What it returns crosses it out, once the end is proved.
func (j Journal) Note(pid int) (func(), error) {
	entry, err := j.add(pid)
	return func() { j.remove(entry) }, err
}

// Recover looks after what an earlier process left in the journal: it waits until all of it has ended, as inits do whose owner
// is gone, and returns what has not within limit.
func (j Journal) Recover(limit time.Duration) ([]job.Leftover, error) {
	if err := os.MkdirAll(string(j), 0o700); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(limit)
	for {
		left, err := j.left()
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// left crosses out what has ended, and returns the rest.
func (j Journal) left() ([]job.Leftover, error) {
	entries, err := os.ReadDir(string(j))
	if err != nil {
		return nil, err
	}
	var left []job.Leftover
	for _, e := range entries {
		var p job.Leftover
		if _, err := fmt.Sscanf(e.Name(), "%d-%d", &p.Pid, &p.Start); err == nil && !Gone([]job.Leftover{p}) {
			left = append(left, p)
			continue
		}
		if err := os.Remove(filepath.Join(string(j), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return left, nil
}
