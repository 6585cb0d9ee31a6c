package jail

import (
	"context"
	"net/netip"
	"time"

	"playground/fault"
)

// A hostKernel is what a FreeBSD kernel does for jails. There is one besides that of the tests.
type hostKernel interface {
	createJail(name string, params []param) (jid int, err error)
	removeJail(jid int) error
	stateOf(jid int) (State, error)
	// lookup finds a living jail; State is Gone where there is none.
	lookup(name string) (Info, error)
	jails(dying bool) ([]Info, error)

	// mountTable is in the order of mounting.
	mountTable() ([]mounted, error)
	nmount(fstype, target string, pairs []pair) error
	// statfs describes the mount that a path, links followed, lies on.
	statfs(path string) (mounted, error)
	// unmount goes by fsid. The error is unix.EBUSY while the mount is used, and unix.ENOENT if it is gone.
	unmount(m mounted, force bool) error
	// ruleset makes sure that a devfs ruleset exists; devices refuses a jail's /dev that shows too much.
	ruleset(number int) error
	devices(root string) error
	// alias adds an address to the loopback interface or removes it. Either may be done already.
	alias(ctx context.Context, addr netip.Addr, add bool) error
}

// Polling begins close to what a removal takes, 30 microseconds and the death of the processes, and backs off.
const (
	pollFirst = 200 * time.Microsecond
	pollMost  = 50 * time.Millisecond
)

// waitGone waits until the kernel knows nothing of the jail, at most for the given time; then the error is fault.Busy.
func waitGone(ctx context.Context, stateOf func(jid int) (State, error), jid int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		state, err := stateOf(jid)
		if err != nil || state == Gone {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Busy, "jail %d is still %v: something holds a reference to it", jid, state)
		case <-time.After(pause):
		}
	}
}
