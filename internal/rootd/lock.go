package rootd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"playground/fault"
)

// How a daemon waits for the one before it, which may take its whole budget for a stop. daemon(8) of FreeBSD 13 does not
// wait for its child, so a restart starts the new daemon while the old one still ends its jobs.
const (
	lockWait   = 60 * time.Second
	lockPeriod = 100 * time.Millisecond
)

// eventWaiting says why nothing else happens.
const eventWaiting = "waiting_for_previous"

// lock takes the daemon's lock in the state folder, so that a kernel object never has two owners. The lock ends with the
// process, however that ends; the file stays, because removing it would let a third daemon lock a new one.
func lock(ctx context.Context, dir, name string, wait time.Duration, log zerolog.Logger) (*os.File, error) {
	// The folder is root's, so nobody has put a link there; O_NOFOLLOW makes sure.
	path := filepath.Join(dir, name+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	told := false
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("cannot lock %q: %w", path, err), file.Close())
		}
		if !told {
			told = true
			log.Warn().Str("lock", path).Msg(eventWaiting)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fault.New(fault.Busy, "another %s still runs: it holds %q", name, path).
				WithHint("stop it first, or give this one a state_dir of its own"), file.Close())
		case <-time.After(lockPeriod):
		}
	}
}
