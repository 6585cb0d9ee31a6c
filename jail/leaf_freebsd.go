package jail

import (
	"context"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// CreateLeaf makes a job's jail and returns its number, which is always positive and which the kernel chooses. The error is
// unix.ENOENT where the parent is gone or dying, and unix.EEXIST where the name is in use.
func CreateLeaf(l LeafSpec) (jid int, err error) {
	params, err := l.params()
	if err != nil {
		return 0, err
	}
	return freebsd{}.createJail(l.FullName(), params)
}

// Remove ends every process of a jail and of its child jails. It does not wait: see StateOf and WaitGone. A jail that is
// gone or dying already is no error.
func Remove(jid int) error { return freebsd{}.removeJail(jid) }

// StateOf reports whether the jail with this number exists. The state is Unknown if, and only if, the error is not nil.
func StateOf(jid int) (State, error) { return freebsd{}.stateOf(jid) }

func (freebsd) stateOf(jid int) (State, error) {
	if jid <= 0 {
		return Unknown, fault.New(fault.Internal, "internal error: jail number %d", jid)
	}
	info, err := getJail(intPair("jid", int32(jid)), strconv.Itoa(jid), jailDying)
	if errors.Is(err, unix.ENOENT) {
		return Gone, nil
	}
	if err != nil {
		return Unknown, err
	}
	return info.State, nil
}

// Lookup finds a living jail by its full name. A dying one has lost its name to whoever wants it: the state is Gone then,
// without an error.
func Lookup(name string) (jid int, state State, err error) {
	info, err := freebsd{}.lookup(name)
	if err != nil || info.State == Gone {
		return 0, info.State, err
	}
	return info.JID, info.State, nil
}

func (freebsd) lookup(name string) (Info, error) {
	info, err := getJail(stringPair("name", name), name, 0)
	if errors.Is(err, unix.ENOENT) {
		return Info{State: Gone}, nil
	}
	info.Name = name
	return info, err
}

// WaitGone waits until the kernel knows nothing of the jail, at most for the given time; then the error is fault.Busy.
func WaitGone(ctx context.Context, jid int, timeout time.Duration) error {
	return waitGone(ctx, StateOf, jid, timeout)
}

// Jails lists every jail of the host, dying ones included. Filter by Path or Name: not all are ours.
func Jails() ([]Info, error) { return freebsd{}.jails(true) }
