package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"playground/fault"
)

// Folders are made by root before it drops to the daemon's user.
type Folders struct {
	State string // root's; the daemon only passes through it
	Run   string // root's; the daemon's group may reach the sockets in it, and make none: who could put another socket in the
	// place of jaild's while that is down would tell reaperd what to run where, as root
	Own string // below State; the daemon's own, and the only place it may write to
}

// Make makes the folders and sets their owners and modes.
func (f Folders) Make(who Identity) error {
	if err := f.makeRoots(who); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot prepare the folders of user %q", who.Name).
			WithHint("see host.state_dir and host.run_dir in the configuration")
	}
	return nil
}

func (f Folders) makeRoots(who Identity) error {
	if err := os.MkdirAll(f.State, 0o711); err != nil {
		return err
	}
	if err := RunDir(f.Run, who.GID); err != nil {
		return err
	}
	if err := f.reachable(); err != nil {
		return err
	}
	return makeOwn(f.Own, who)
}

// RunDir makes the folder of the sockets, or makes sure of the one that is there: it is root's, the group may reach what is in
// it, and nobody but root may put anything there. A folder that others use too, such as /var/run, stays as it is.
func RunDir(dir string, gid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
		return fmt.Errorf("%q is not root's", dir)
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o007 == 0: // ours alone
		return errors.Join(os.Chown(dir, 0, gid), os.Chmod(dir, 0o750))
	case mode&0o022 != 0:
		return fmt.Errorf("%q can be written by others than root (chmod go-w %s)", dir, dir)
	}
	return nil
}

// reachable looks for a folder on the way that keeps an ordinary user out: later, that would look like a missing database.
func (f Folders) reachable() error {
	for dir := f.State; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			// The state folder is the suite's; what is above it is the operator's.
			if dir != f.State {
				return fmt.Errorf("%q keeps ordinary users out (chmod o+x %s)", dir, dir)
			}
			if err := os.Chmod(dir, 0o711); err != nil {
				return err
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// makeOwn makes the daemon's folder. Its parent is root's, so nobody can put a link in its place between these calls.
func makeOwn(dir string, who Identity) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%q is not a folder", dir)
	}
	return errors.Join(os.Lchown(dir, who.UID, who.GID), os.Chmod(dir, 0o700))
}
