package rootd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"playground/fault"
	"playground/localapi"
)

// readyPeriod is how often waitReady asks.
const readyPeriod = 100 * time.Millisecond

// waitReady waits until the running daemon answers at its socket. Every answer will do, a refusal too; a socket that this user may not
// reach gives none, whatever is behind it.
func waitReady(ctx context.Context, name, socket string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := localapi.NewClient(socket)
	client.Daemon = name
	defer client.Close()
	for {
		err := client.Do(ctx, "GET", "/", nil, nil)
		if errors.Is(err, fs.ErrPermission) { // the kernel's word: a daemon's own refusal does not wrap it
			return err
		}
		if !errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "%s does not answer at %s within %v", name, socket, timeout).
				WithHint("look at its log")
		case <-time.After(readyPeriod):
		}
	}
}

// makeStateDir makes the folder that the lock lies in. Where this daemon is root the transport is an ordinary user, who
// passes through to its own folder.
func makeStateDir(dir string) error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	return makeDir(dir, mode)
}

// makeDir makes a folder with this mode, whatever the umask is. One that exists stays as it is.
func makeDir(dir string, mode os.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}
