package jail

import (
	"context"
	"errors"
	"time"
)

var errTODO = errors.New("internal error: not written yet")

// CreateLeaf makes a job's jail and returns its number, which is always positive. The kernel chooses the number.
func CreateLeaf(l LeafSpec) (jid int, err error) { return 0, errTODO }

// Remove ends every process of a jail and of its child jails. It does not wait: see StateOf and WaitGone. A jail that is
// gone or dying already is no error.
func Remove(jid int) error { return errTODO }

// StateOf reports whether the jail with this number exists. The state is Unknown if, and only if, the error is not nil.
func StateOf(jid int) (State, error) { return Unknown, errTODO }

// Lookup finds a living jail by its full name. Dying ones have lost their name: the state is Gone then, without an error.
func Lookup(name string) (jid int, state State, err error) { return 0, Unknown, errTODO }

// WaitGone waits until the kernel knows nothing of the jail, at most for the given time; then it is fault.Busy.
func WaitGone(ctx context.Context, jid int, timeout time.Duration) error { return errTODO }

// Jails lists every jail of the host, dying ones included.
func Jails() ([]Info, error) { return nil, errTODO }
