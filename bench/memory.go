package bench

import (
	"context"
	"errors"
	"time"
)

// A Footprint is the resident memory of the suite at one moment, in MB of 10^6 bytes.
type Footprint struct {
	When      string  `json:"when"`
	Total     float64 `json:"total_mb"` // of every process: daemons, holders, inits, jobs
	Processes int     `json:"processes"`
	// Shared says that Total counts shared pages once for each process, because this user may not see how they are
	// shared; the true sum is lower.
	Shared  bool           `json:"counts_shared_pages_more_than_once"`
	Daemons []DaemonMemory `json:"daemons"`
	Rest    float64        `json:"rest_mb"` // holders, inits and jobs
}

// A DaemonMemory is one daemon's part.
type DaemonMemory struct {
	Name     string  `json:"name"`
	Resident float64 `json:"rss_mb"`
	Part     float64 `json:"pss_mb"` // shared pages divided by their users
}

// A process is one line of the process table.
type process struct {
	name     string
	resident float64
	part     float64
	exact    bool // part is known
}

// settle is how long a number needs to become steady after a change.
const settle = 1500 * time.Millisecond

// footprint adds what the suite takes now. On a platform that does not tell, it adds nothing.
func (r *Report) footprint(ctx context.Context, when string) error {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	all, err := family()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	f := Footprint{When: when, Processes: len(all)}
	for _, p := range all {
		f.Total += p.part
		f.Shared = f.Shared || !p.exact
		switch p.name {
		case "playground-jaild", "playground-reaperd", "playgroundd":
			f.Daemons = append(f.Daemons, DaemonMemory{Name: p.name, Resident: p.resident, Part: p.part})
		default:
			f.Rest += p.part
		}
	}
	r.Memory = append(r.Memory, f)
	return nil
}
