package reaper

import (
	"cmp"

	"playground/racct"
	"playground/reaper/bsdproc"
	"playground/reaper/leaf"
)

// Vitals returns what the kernel says of running services, by id.
func (r *Runner) Vitals() map[string]Vitals {
	leaves := r.leaves.Services()
	if len(leaves) == 0 {
		return nil
	}
	processes, _ := bsdproc.Processes() // without them the rest is still worth telling
	all := make(map[string]Vitals, len(leaves))
	for id, service := range leaves {
		v := Vitals{Pid: programOf(service, processes)}
		if usage, err := racct.UsageOf(service.Jail); err == nil {
			v.Usage = usage
		}
		all[id] = v
	}
	return all
}

// programOf returns the process id of a service's program, 0 if it is not there: the oldest child of the supervisor in the leaf.
// It was started first, and what loses its parent and falls to the supervisor is younger.
func programOf(service leaf.Leaf, processes []bsdproc.Process) int {
	var program bsdproc.Process
	for _, p := range processes {
		if p.Parent != service.Supervisor || p.Jail != service.JID {
			continue
		}
		if program.Pid == 0 || cmp.Or(cmp.Compare(p.Start, program.Start), cmp.Compare(p.Pid, program.Pid)) < 0 {
			program = p
		}
	}
	return program.Pid
}
