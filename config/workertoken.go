package config

import (
	"bytes"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"playground/fault"
	"playground/tenancy"
)

// TransportUser is whom playgroundd runs as: the owner of its folder, or host.daemon_user where root has not made that yet.
func (c Config) TransportUser() int {
	self := os.Geteuid()
	if self != 0 {
		return self
	}
	if info, err := os.Stat(c.TransportDir()); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(stat.Uid)
		}
	}
	if uid, ok := c.daemonUser(); ok {
		return uid
	}
	return self // without that user it runs as root
}

// daemonUser is the id of host.daemon_user; false where there is no such user.
func (c Config) daemonUser() (int, bool) {
	u, err := user.Lookup(c.Host.DaemonUser)
	if err != nil {
		return 0, false
	}
	uid, err := strconv.Atoi(u.Uid)
	return uid, err == nil
}

// WorkerToken reads the internal token of a faculty worker from a file that is as private as PrivateFile wants it. For a process of
// root it may belong to host.daemon_user as well, so that one file serves playgroundd, which reads it as that user, and
// playground-facultyd. That user must not choose what root reads: the file has one name and holds a token, nothing else.
func (c Config) WorkerToken(path string) ([]byte, error) {
	owners := []int{0, os.Geteuid()}
	if uid, ok := c.daemonUser(); ok && os.Geteuid() == 0 {
		owners = append(owners, uid)
	}
	return workerToken(path, owners...)
}

func workerToken(path string, owners ...int) ([]byte, error) {
	// Room for more than a token, so that what is too long is told as that.
	token, err := readPrivate(path, 2*tenancy.MaxToken, reader{owners: owners, oneName: true})
	if err != nil {
		return nil, err
	}
	token = bytes.TrimRight(token, "\r\n") // which editors add
	if err := tenancy.ValidToken(token); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot use token file %q", path).WithHint("%s", fault.HintOf(err))
	}
	return token, nil
}
