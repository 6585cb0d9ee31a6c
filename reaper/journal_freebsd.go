package reaper

import (
	"time"

	"playground/job"
)

// Note has nothing to do: see Recover.
func (j Journal) Note(int) (func(), error) { return func() {}, nil }

// Recover has nothing to do: what an earlier process left is found by its name in the kernel.
func (j Journal) Recover(time.Duration) ([]job.Leftover, error) { return nil, nil }
