package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"playground/confine"
	"playground/fault"
	"playground/jail"
	"playground/racct"
	"playground/reaper/bsdproc"
)

// A ground is what a worker stands on: a jail of its own, its limits, and its ids.
type ground struct {
	uid, gid, jid int
	name          string // of the jail
	rules         []racct.Rule
}

// supported says why no worker can be confined here, or nil. Its memory and its threads are bounded by rctl(8) alone: the kernel
// enforces RLIMIT_SWAP only where vm.overcommit says so (swap_pager.c), and no rlimit counts threads.
func supported() error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Unsupported, "workers cannot be confined: only root may make jails").
			WithHint("run the daemons as root: service playground start")
	}
	return racct.Enabled()
}

// prepare makes a jail with limits. Those of rctl(8) come first, so that nothing ever runs without them.
func (k *Keeper) prepare(slot int, b confine.Bounds) (ground, error) {
	g := ground{uid: k.uid(slot), gid: k.uid(slot), name: jail.NewWorkerName(k.opts.Prefix)}
	var err error
	g.rules, err = racct.Rules(g.name, racct.Limits{
		Processes: 1, Threads: b.Threads, OpenFiles: 4 * b.Files, SwapBytes: b.DataBytes, MemoryBytes: b.DataBytes,
	})
	if err == nil {
		err = racct.Add(g.rules...)
	}
	if err != nil {
		return g, err
	}
	if g.jid, err = jail.CreateWorker(g.name); err != nil {
		return g, errors.Join(err, unlimit(g.name))
	}
	return g, nil
}

func unlimit(name string) error {
	if racct.Enabled() != nil {
		return nil
	}
	all, err := racct.All(name)
	if err != nil {
		return err
	}
	return racct.Remove(all)
}

// upkeep brings back limits that somebody took away, as "service rctl restart" does.
func (g ground) upkeep() error {
	_, err := racct.Reconcile(g.rules)
	return err
}

// look denies root in the jail, and looks at it. It is called once the worker has given root up.
func (g ground) look() (string, error) { return jail.DenyRoot(g.jid) }

// leftover is what stands for all that may be left of a worker: its jail, by a number below zero.
func (g ground) leftover() []confine.Leftover { return []confine.Leftover{{PID: -g.jid}} }

// left removes the jail, which ends what is in it, and looks for what is there still, and beside it. The last look takes its limits
// away.
func (w *Worker) left() ([]confine.Leftover, error) {
	left, err := emptied(w.ground.jid)
	if err == nil && len(left) == 0 && w.proc != nil {
		left, err = w.proc.Left()
	}
	if err != nil || len(left) > 0 {
		return left, err
	}
	return nil, unlimit(w.ground.name)
}

// emptied removes a jail and lists what runs in it. Nothing does if the kernel knows no such jail, or if it is dying and two looks
// at the process table show nothing, between which everything that was being created has ended.
func emptied(jid int) ([]confine.Leftover, error) {
	if err := bsdproc.RemoveJail(jid); err != nil {
		return nil, err
	}
	const gap = 50 * time.Millisecond
	for range 2 {
		state, _, err := bsdproc.JailOf(jid)
		if err != nil {
			return nil, err
		}
		if state == bsdproc.JailGone {
			return nil, nil
		}
		list, err := bsdproc.Processes()
		if err != nil {
			return nil, err
		}
		var left []confine.Leftover
		for _, p := range list {
			if p.Jail == jid && p.State != bsdproc.Zombie {
				left = append(left, confine.Leftover{PID: p.Pid, Start: p.Start})
			}
		}
		if len(left) > 0 || state != bsdproc.JailDying {
			return left, errAlive(left, state)
		}
		time.Sleep(gap)
	}
	return nil, nil
}

func errAlive(left []confine.Leftover, state bsdproc.JailState) error {
	if len(left) > 0 {
		return nil
	}
	return fmt.Errorf("the jail is %s after its removal", state)
}

// Sweep removes workers' jails, and their limits, that an earlier daemon left: those with this prefix that were made before since.
// It returns what was removed, and what is not proved empty, within the deadline.
func Sweep(prefix string, since time.Time, deadline time.Duration) (removed, left []string, err error) {
	infos, err := jail.Jails()
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, info := range infos {
		made, ours := jail.WorkerMade(prefix, info.Name)
		if !ours || !made.Before(since.Truncate(time.Millisecond)) {
			continue
		}
		if err := sweepOne(info, deadline); err != nil {
			errs = append(errs, fmt.Errorf("jail %q: %w", info.Name, err))
			left = append(left, info.Name)
			continue
		}
		removed = append(removed, info.Name)
	}
	slices.Sort(removed)
	return removed, left, errors.Join(errs...)
}

func sweepOne(info jail.Info, deadline time.Duration) error {
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		left, err := emptied(info.JID)
		if err == nil && len(left) == 0 {
			return unlimit(info.Name)
		}
		if time.Now().After(end) {
			return errors.Join(err, fault.New(fault.ProofLost, "%d processes are left", len(left)))
		}
		for _, l := range left {
			l.End()
		}
	}
}
