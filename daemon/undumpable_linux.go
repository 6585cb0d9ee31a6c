package daemon

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Undumpable keeps what this process holds in memory, such as tokens and tenants' output, from core files and from other
// processes of its user: no core, no ptrace, no /proc/PID/mem. Children that exec another program are not bound by it.
//
// A process of an ordinary user that starts children in new user namespaces must not call it: until such a child execs,
// its /proc/PID/uid_map would belong to root, and os/exec could not write it (EACCES). Root is not affected.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot forbid tracing of this process: %w", err)
	}
	return noCore()
}

// UndumpableParent is Undumpable for a daemon that starts children in user namespaces, which an ordinary user's must not
// call: it does nothing there.
func UndumpableParent() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return Undumpable()
}
