package reaper

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/racct"
	"playground/reaper/leaf"
	"playground/reaper/proof"
)

// Swept is what an earlier daemon had left.
type Swept struct {
	Jails  []string // leaf jails that were removed, proved empty
	Limits []string // names of jails whose limits were removed
	Left   []string // leaf jails that are not proved empty; their limits stay
}

// Sweep removes the leaf jails, and the limits, of jobs that an earlier daemon left under tenants' jails "<prefix>-...". It must
// be called while no job runs: it takes every leaf for a leftover. Supervisors of that daemon do the same by themselves, so
// what is already dying is waited for as well. It returns within the deadline, what was done also with an error.
func Sweep(prefix string, deadline time.Duration) (Swept, error) {
	return sweep(deadline, func(name string) bool { return leaf.IsName(prefix, name) })
}

// Clean is Sweep while commands run: it takes only those leaves for leftovers that were made before since, this daemon's start,
// and that this Runner does not run. The second holds where the host's clock went back meanwhile.
func (r *Runner) Clean(prefix string, since time.Time, deadline time.Duration) (Swept, error) {
	return sweep(deadline, func(name string) bool {
		if !leaf.IsName(prefix, name) || !leaf.MadeBefore(name, since) {
			return false
		}
		_, runs := r.leaves.Running()[name]
		return !runs
	})
}

// sweep removes the leaves, and the limits, of those names that are leftovers.
func sweep(deadline time.Duration, leftover func(name string) bool) (Swept, error) {
	infos, err := jail.Jails()
	if err != nil {
		return Swept{}, err
	}
	var swept Swept
	var errs []error
	var mu sync.Mutex // guards swept and errs
	var wg sync.WaitGroup
	for _, info := range infos {
		if !leftover(info.Name) {
			continue
		}
		wg.Go(func() {
			proven, err := sweepJail(info, deadline)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if proven {
				swept.Jails = append(swept.Jails, info.Name)
			} else {
				swept.Left = append(swept.Left, info.Name)
			}
		})
	}
	wg.Wait()
	swept.Limits, err = sweepLimits(leftover, swept.Left)
	slices.Sort(swept.Jails)
	slices.Sort(swept.Left)
	if len(swept.Left) > 0 {
		errs = append(errs, fault.New(fault.ProofLost, "%d jails of an earlier daemon's jobs are not proved empty: %v", len(swept.Left), swept.Left))
	}
	return swept, errors.Join(append(errs, err)...)
}

func sweepJail(info jail.Info, deadline time.Duration) (proven bool, err error) {
	kernel, err := proof.NewHost(info.Name, info.JID)
	if err != nil {
		return false, fmt.Errorf("cannot remove jail %q: %w", info.Name, err)
	}
	report := proof.NewJail(kernel).Run(time.Now().Add(deadline))
	if !report.Proven && len(report.Doubts) > 0 {
		err = fmt.Errorf("jail %q: the kernel refused: %v", info.Name, report.Doubts)
	}
	return report.Proven, err
}

// sweepLimits removes limits of leaves that do not exist any more, but for those of the jails that may still hold something.
func sweepLimits(leftover func(name string) bool, left []string) ([]string, error) {
	rules, err := racct.JailRules()
	if err != nil {
		return nil, err
	}
	var names []string
	var errs []error
	for _, r := range rules {
		if !leftover(r.Jail) || slices.Contains(left, r.Jail) || slices.Contains(names, r.Jail) {
			continue
		}
		names = append(names, r.Jail)
		all, err := racct.All(r.Jail)
		if err == nil {
			err = racct.Remove(all)
		}
		errs = append(errs, err)
	}
	slices.Sort(names)
	return names, errors.Join(errs...)
}
