package reaper

import (
	"time"

	"playground/job"
)

// Recover has nothing to do: what an earlier process left is found by its name in the kernel.
func (j Journal) Recover(time.Duration) ([]job.Leftover, error) { return nil, nil }
