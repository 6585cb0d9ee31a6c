package reaper

import (
	"time"

	"golang.org/x/sys/unix"

	"playground/jail"
	"playground/job"
	"playground/racct"
	"playground/reaper/bsdproc"
	"playground/reaper/proof"
)

// A host is leaf.Host on a real system.
type host struct{}

// Limit implements leaf.Host. What an administrator set for any host is lowered to what this one can bear.
func (host) Limit(jail string, l racct.Limits) ([]string, error) {
	rules, err := racct.Rules(jail, racct.Scale(l, racct.HostMemory()))
	if err == nil {
		err = racct.Add(rules...)
	}
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.String()
	}
	return texts, nil
}

// Unlimit implements leaf.Host.
func (host) Unlimit(jail string) error {
	all, err := racct.All(jail)
	if err != nil {
		return err
	}
	return racct.Remove(all)
}

// CreateLeaf implements leaf.Host.
func (host) CreateLeaf(spec jail.LeafSpec) (int, error) { return jail.CreateLeaf(spec) }

// Kernel implements leaf.Host.
func (host) Kernel(jail string, jid int) (proof.Kernel, error) { return proof.NewHost(jail, jid) }

// Started implements leaf.Host.
func (host) Started(pid int) uint64 {
	p, _, err := bsdproc.ProcessOf(pid)
	if err != nil {
		return 0
	}
	return p.Start
}

// DiskFull implements leaf.Host.
func (host) DiskFull(root string) bool {
	var st unix.Statfs_t
	return unix.Statfs(root, &st) == nil && st.Bavail*int64(st.Bsize) < 64<<10
}

// Gone reports whether all of the list has ended. A negative pid stands for the leaf jail with that number, which holds all of
// its job; a list without one proves nothing, since processes can be hidden from any list.
func Gone(pids []job.Leftover) bool {
	jails := 0
	for _, p := range pids {
		if p.Pid < 0 {
			jails++
			if !jailGone(-p.Pid) {
				return false
			}
		} else if now, ok, err := bsdproc.ProcessOf(p.Pid); err != nil || ok && now.Start == p.Start {
			return false
		}
	}
	return jails > 0
}

// jailGone reports whether nothing runs in a jail any more: it does not exist, or it is dying and two looks at the process
// table, between which everything that was being created has ended, show nothing of it.
func jailGone(jid int) bool {
	const gap = 50 * time.Millisecond
	for range 2 {
		state, _, err := bsdproc.JailOf(jid)
		if err != nil || state != bsdproc.JailDying {
			return err == nil && state == bsdproc.JailGone
		}
		list, err := bsdproc.Processes()
		if err != nil {
			return false
		}
		for _, p := range list {
			if p.Jail == jid {
				return false
			}
		}
		time.Sleep(gap)
	}
	return true
}
