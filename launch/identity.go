package launch

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// An Identity is whom the daemon runs as.
type Identity struct {
	Name   string
	UID    int
	GID    int
	Groups []int // all of its groups; the first one is GID
}

// Lookup finds a user and its groups. Root, and a member of root's group, are refused.
func Lookup(name string) (Identity, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Identity{}, fault.Wrap(fault.NotFound, err, "cannot run as user %q", name).
			WithHint("pw useradd %s -d /nonexistent -s /usr/sbin/nologin, or set host.daemon_user", name)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return Identity{}, fmt.Errorf("cannot find the groups of user %q: %w", name, err)
	}
	return identity(name, u.Uid, u.Gid, groups)
}

// identity checks the numbers and brings the groups in order. Up to FreeBSD 14, and for Go's system call always, the first
// element of setgroups(2) is the effective group and no supplementary one: a list without it would lose its first group.
func identity(name, uid, gid string, groups []string) (Identity, error) {
	who := Identity{Name: name}
	var err, groupErr error
	who.UID, err = strconv.Atoi(uid)
	who.GID, groupErr = strconv.Atoi(gid)
	if err := errors.Join(err, groupErr); err != nil {
		return who, fmt.Errorf("cannot run as user %q: %w", name, err)
	}
	who.Groups = []int{who.GID}
	for _, text := range groups {
		group, err := strconv.Atoi(text)
		if err != nil {
			return who, fmt.Errorf("cannot run as user %q: %w", name, err)
		}
		if !slices.Contains(who.Groups, group) {
			who.Groups = append(who.Groups, group)
		}
	}
	// A uid of -1 means "unchanged" to some calls.
	if who.UID <= 0 || slices.ContainsFunc(who.Groups, func(g int) bool { return g <= 0 }) {
		return who, fault.New(fault.Denied, "cannot run as user %q: it is root, or a member of root's group", name).
			WithHint("set host.daemon_user to an ordinary user")
	}
	return who, nil
}

// drop gives up root for good, and makes sure of it. On Linux rights are a thread's: these calls change all threads, which
// Setgroups of x/sys does not.
func (who Identity) drop() error {
	if err := syscall.Setgroups(who.Groups); err != nil {
		return fmt.Errorf("cannot set the groups of user %q: %w", who.Name, err)
	}
	// Real, effective and saved: none may lead back.
	if err := unix.Setresgid(who.GID, who.GID, who.GID); err != nil {
		return fmt.Errorf("cannot set the group of user %q: %w", who.Name, err)
	}
	if err := unix.Setresuid(who.UID, who.UID, who.UID); err != nil {
		return fmt.Errorf("cannot become user %q: %w", who.Name, err)
	}
	return who.verify()
}

// verify looks at what the process has become.
func (who Identity) verify() error {
	for _, call := range []func(int) error{syscall.Setuid, syscall.Seteuid, syscall.Setgid, syscall.Setegid} {
		if call(0) == nil {
			return fault.New(fault.Internal, "the process could become root again after it became user %q", who.Name)
		}
	}
	if os.Getuid() != who.UID || os.Geteuid() != who.UID || os.Getgid() != who.GID || os.Getegid() != who.GID {
		return fault.New(fault.Internal, "the process did not become user %q", who.Name)
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return fmt.Errorf("cannot read the process's groups: %w", err)
	}
	// FreeBSD lists the effective group, Linux what was set.
	for _, group := range groups {
		if !slices.Contains(who.Groups, group) {
			return fault.New(fault.Internal, "the process kept group %d, which user %q is not in", group, who.Name)
		}
	}
	return nil
}
