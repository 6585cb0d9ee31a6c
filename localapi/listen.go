package localapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"playground/fault"
)

// maxPath is the longest socket path: sun_path of FreeBSD's unix(4) is 104 bytes with its NUL. Linux takes four more, but
// a state folder that works on one platform must work on the other.
const maxPath = 103

func checkPath(path string) error {
	if len(path) <= maxPath {
		return nil
	}
	return fault.New(fault.Invalid, "socket path %q has %d bytes; at most %d are possible", path, len(path), maxPath).
		WithHint("choose a shorter run_dir")
}

// Listen returns a listener at path with this mode. It takes over a socket that nobody listens on any more, and refuses
// one that is alive and anything that is not a socket. Between bind(2) and chmod(2) the umask alone rules the mode, so
// the folder must keep strangers out.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on socket %q: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		ln.Close()
		return nil, fmt.Errorf("cannot set mode of socket %q: %w", path, err)
	}
	return ln, nil
}

// removeStale makes path free, if all that is there is a dead daemon's socket. Lstat first: a file or symbolic link is
// never dialled and never removed.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at socket path: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fault.New(fault.Exists, "%q exists and is not a socket", path).
			WithHint("move it away, or choose another run_dir")
	}
	conn, err := dial(context.Background(), path)
	if err == nil {
		conn.Close()
		return fault.New(fault.Busy, "another process already listens on %q", path).
			WithHint("stop the running daemon first")
	}
	// Only a lasting refusal proves that nobody listens; a missing permission, say, does not.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fault.Wrap(fault.Busy, err, "cannot tell whether %q is in use", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove stale socket: %w", err)
	}
	return nil
}
