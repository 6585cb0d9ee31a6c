package suite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"playground/config"
	"playground/fault"
)

// ConfigName is the configuration file's name in a state folder.
const ConfigName = "playground.toml"

// maxSocket is the room for a socket's path in the strictest sockaddr_un (FreeBSD, 104 bytes with the closing NUL).
const maxSocket = 103

// makeState makes the state folder and what lies in it, and returns its absolute path.
func makeState(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "cannot find the state folder")
	}
	if longest := filepath.Join(dir, "run", "playground-facultyd.notify"); len(longest) > maxSocket {
		return "", fault.New(fault.Invalid, "the state folder's path %q is too long for sockets below it", dir).
			WithHint("name a folder whose path has at most %d bytes with --state", maxSocket-len(longest)+len(dir))
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		// A sandbox's processes run under mapped uids, which must be able to walk to its storage, though not to list it.
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "cannot make the state folder").WithHint("name another with --state")
	}
	if err := own(dir); err != nil {
		return "", err
	}
	// MkdirAll leaves the mode of an old folder and applies the umask to a new one.
	if err := os.Chmod(dir, mode); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "cannot set the state folder's mode")
	}
	if err := walkable(dir); err != nil {
		return "", err
	}
	for name, mode := range map[string]os.FileMode{"run": 0o750, "log": 0o700, "data": mode} {
		if err := os.MkdirAll(filepath.Join(dir, name), mode); err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "cannot make a part of the state folder")
		}
	}
	return dir, nil
}

// own refuses a folder of somebody else: its owner could exchange everything in it.
func own(dir string) error {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot look at the state folder %q", dir)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fault.New(fault.Denied, "the state folder %q belongs to uid %d, not to you", dir, stat.Uid).
			WithHint("run this as that user, or name another folder with --state")
	}
	return nil
}

// walkable refuses, for root, a folder below one that other users cannot enter, such as /root: sandboxes run under mapped
// uids.
func walkable(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "cannot look at the state folder's parents")
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fault.New(fault.Invalid, "the state folder %q lies below %q, which sandboxes of a root daemon cannot enter", dir, parent).
				WithHint("name a folder elsewhere: --state %s", RootState)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

// RootState is the state folder that root gets without --state: root's own home is closed to mapped uids.
const RootState = "/var/lib/playground"

// takeLock makes this process the folder's only user. The lock goes with the process, whatever ends it.
func takeLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "up.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot open the lock file")
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		text, _ := io.ReadAll(io.LimitReader(lock, 32)) // only for the hint
		_ = lock.Close()
		return nil, fault.New(fault.Busy, "playground up already runs from %q", dir).
			WithHint("use it, stop it (process %s), or name another folder with --state", strings.TrimSpace(string(text)))
	}
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(lock, os.Getpid())
	}
	if err != nil {
		_ = lock.Close()
		return nil, fault.Wrap(fault.Unavailable, err, "cannot take the lock %q", path)
	}
	return lock, nil
}

// configure writes the configuration if there is none, reads it, and refuses options that contradict it: an operator's
// file is never overwritten, and no daemon runs with values that the file does not show.
func (s *Suite) configure(o Options) (config.Config, error) {
	file, err := os.OpenFile(s.ConfigPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case err == nil:
		if err := writeConfig(file, s.Dir, o); err != nil {
			return config.Config{}, errors.Join(err, os.Remove(s.ConfigPath))
		}
	case !errors.Is(err, fs.ErrExist):
		return config.Config{}, fault.Wrap(fault.Unavailable, err, "cannot write the configuration")
	}
	s.fresh = file != nil
	c, err := config.Load(s.ConfigPath)
	if err != nil {
		if file != nil { // a refused option must not stay behind as a broken file
			err = errors.Join(err, os.Remove(s.ConfigPath))
		}
		return config.Config{}, err
	}
	if o.Listen != "" && o.Listen != c.HTTP.Listen {
		return c, s.contradicts("--listen", o.Listen, "http.listen", c.HTTP.Listen)
	}
	if o.Isolation != "" && o.Isolation != "auto" && o.Isolation != string(c.Sandbox.Isolation) {
		return c, s.contradicts("--isolation", o.Isolation, "sandbox.isolation", string(c.Sandbox.Isolation))
	}
	return c, nil
}

func (s *Suite) contradicts(flag, wanted, key, is string) error {
	return fault.New(fault.Invalid, "%s=%s contradicts %s = %q of %s", flag, wanted, key, is, s.ConfigPath).
		WithHint("change the file, or name another folder with --state")
}

// writeConfig writes the first configuration of a state folder.
func writeConfig(file *os.File, dir string, o Options) error {
	listen, isolation := o.Listen, o.Isolation
	if listen == "" {
		listen = config.Default(runtime.GOOS).HTTP.Listen
	}
	if isolation == "" {
		isolation = "auto"
	}
	text := fmt.Sprintf(`# Written once by "playground up"; change it as you like, it is never overwritten.
# etc/playground.toml.sample of the source tree documents every key.

[host]
state_dir = %q
run_dir = %q
libexec_dir = %q

[http]
listen = %q

[sandbox]
isolation = %q

[work]
# The operator's own runs may use bash and files with the rights of this user, who could do the same without them.
host_tools = %t
# The first of the user ids that workers have where this runs as root. No other suite of this host may use them.
worker_uid_base = %d
`, filepath.Join(dir, "data"), filepath.Join(dir, "run"), o.Bin, listen, isolation, os.Geteuid() != 0, workerIDs())
	var err error
	if o.Edit != nil {
		text, err = o.Edit(dir, text)
	}
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot write the configuration")
	}
	return nil
}

// workerIDs are likely no other suite's: one that found another's worker under an id of its own would refuse to begin a run.
func workerIDs() int { return 500_000 + os.Getpid()%1000*config.WorkerIDs }
