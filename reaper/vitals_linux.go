package reaper

import (
	"cmp"
	"maps"
	"slices"

	"playground/procfs"
	"playground/racct"
)

// Vitals returns what the kernel says of running services, by id.
func (r *Runner) Vitals() map[string]Vitals {
	r.mu.Lock()
	trees := maps.Clone(r.services)
	r.mu.Unlock()
	all := make(map[string]Vitals, len(trees))
	for id, t := range trees {
		if init, err := t.pid(); err == nil { // else it has just ended
			all[id] = vitalsOf(init)
		}
	}
	return all
}

// mostCounted is more processes than a tenant may have.
const mostCounted = 1 << 16

// vitalsOf looks below a job's init. The oldest child is the program: the init started it first, and what loses its parent and
// falls to the init is younger.
func vitalsOf(init int) Vitals {
	children := procfs.Children(init)
	type child struct {
		pid   int
		start uint64
	}
	var oldest []child
	v := Vitals{Usage: racct.Usage{"maxproc": 0, "nthr": 0, "memoryuse": 0, "cputime": 0}}
	for _, pid := range children {
		if start, ok := procfs.StartTime(pid); ok {
			oldest = append(oldest, child{pid, start})
		}
	}
	if len(oldest) > 0 {
		first := slices.MinFunc(oldest, func(a, b child) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
		v.Pid = first.pid
	}
	// A tree that forks faster than it is counted must not keep the count from ending.
	for pids, left := children, mostCounted; len(pids) > 0 && left > 0; left-- {
		pid := pids[0]
		pids = append(pids[1:], procfs.Children(pid)...)
		use, ok := procfs.UsageOf(pid)
		if !ok {
			continue // it has ended meanwhile
		}
		v.Usage["maxproc"]++
		v.Usage["nthr"] += use.Threads
		v.Usage["memoryuse"] += use.ResidentBytes
		v.Usage["cputime"] += use.CPUSeconds
	}
	return v
}
