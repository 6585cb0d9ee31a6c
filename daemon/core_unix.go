//go:build linux || freebsd

package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// noCore sets the core file limit to 0, hard and soft. It is inherited, which is meant: what the daemons start has no
// business writing cores on the host either.
func noCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("cannot forbid core files: %w", err)
	}
	return nil
}
