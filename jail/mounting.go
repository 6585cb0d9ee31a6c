package jail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// A mounter puts a jail's root together and takes it apart.
type mounter struct {
	host hostKernel
}

// mountAll mounts a plan below root, in order, and nothing twice: what an earlier attempt left in the right place is kept.
// After an error part of it may be mounted.
func (h mounter) mountAll(root string, plan []mount, ours func(mounted) bool) error {
	table, err := h.host.mountTable()
	if err != nil {
		return err
	}
	if stale(table, root, plan, ours) { // the plan has changed since
		if err := h.unmountOurs(root, ours, false); err != nil {
			return err
		}
		if table, err = h.host.mountTable(); err != nil {
			return err
		}
	}
	for _, m := range plan {
		target := filepath.Join(root, m.on)
		if there, ok := topAt(table, target); ok && there.matches(m, root) == nil {
			continue
		}
		if err := h.mountOne(root, m, table); err != nil {
			return err
		}
	}
	return nil
}

// mountOne makes one mount without following a link, and checks with statfs(2) that it went where it should. Before is the
// mount table without it.
func (h mounter) mountOne(root string, m mount, before []mounted) error {
	target := filepath.Join(root, m.on)
	pairs, err := m.pairs(root)
	if err != nil {
		return err
	}
	if m.file {
		err = checkMountFile(root, m.on)
	} else {
		err = makeMountPoint(root, m.on)
	}
	if err != nil {
		return err
	}
	if err := h.host.nmount(m.fstype, target, pairs); err != nil {
		return explainMount(m, err)
	}
	row, err := h.host.statfs(target)
	if err != nil {
		return fmt.Errorf("cannot check the mount on %q: %w", target, err)
	}
	if err := row.matches(m, root); err != nil {
		// The row may be another's mount, such as the host's /dev. Only a new one can be ours.
		old := slices.ContainsFunc(before, func(b mounted) bool { return b.fsid == row.fsid })
		if !old && row.fstype == m.fstype && row.from == m.source() {
			err = errors.Join(err, h.host.unmount(row, false))
		}
		return fault.Wrap(fault.Unavailable, err, "the mount on %q is not as it should be", target)
	}
	return nil
}

func explainMount(m mount, err error) error {
	e := fault.Wrap(fault.Unavailable, err, "cannot put the jail's filesystems together")
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return e.WithHint("load the module before the securelevel is raised: sysrc kld_list+=%s; at securelevel 1 or more this takes a reboot", m.fstype)
	}
	return e
}

// unmountOurs unmounts what is ours on root and below it, the last mounted first and by fsid, which no link and no other
// mount can mislead.
func (h mounter) unmountOurs(root string, ours func(mounted) bool, force bool) error {
	table, err := h.host.mountTable()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range below(table, root) {
		if !ours(m) {
			continue
		}
		if err := h.host.unmount(m, force); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("cannot unmount %q: %w", m.on, err))
		}
	}
	return errors.Join(errs...)
}

// unmountWhenFree does so for as long as something is busy, at most for the given time; that it stays busy is no error.
func (h mounter) unmountWhenFree(ctx context.Context, root string, ours func(mounted) bool, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		err := h.unmountOurs(root, ours, false)
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// settle waits until no jail, dying ones included, stands on root, and unmounts what is ours there. After the time is over it
// unmounts by force: all processes are dead by then, and what lingers is a socket or an unwaited child. A living jail or a
// mount of somebody else's is fault.Busy.
func (h mounter) settle(ctx context.Context, root string, ours func(mounted) bool, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := pollFirst; ; pause = min(2*pause, time.Second) {
		all, err := h.host.jails(true)
		if err != nil {
			return err
		}
		users := slices.DeleteFunc(all, func(j Info) bool { return j.Path != root }) // leaf jails have the same root
		if i := slices.IndexFunc(users, func(j Info) bool { return j.State == Alive }); i >= 0 {
			return fault.New(fault.Busy, "jail %q is running", users[i].Name)
		}
		table, err := h.host.mountTable()
		if err != nil {
			return err
		}
		if m, ok := foreign(table, root, ours); ok {
			return fault.New(fault.Busy, "%s is mounted on %q", m.from, m.on).WithHint("umount %s", m.on)
		}
		if len(users) == 0 {
			if err = h.unmountOurs(root, ours, false); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return h.unmountOurs(root, ours, true)
		case <-time.After(pause):
		}
	}
}
