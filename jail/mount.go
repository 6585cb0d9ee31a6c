package jail

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
)

// Mount flags as statfs(2) reports them (sys/mount.h).
const (
	mntReadOnly = 0x1
	mntNoExec   = 0x4
	mntNoSuid   = 0x8
)

// Bounds of the kernel, their NUL included.
const (
	maxMountName = 1024 // MNAMELEN
	maxFsName    = 16   // MFSNAMELEN
)

// A mount is one filesystem of a jail.
type mount struct {
	fstype   string // nullfs, devfs, tmpfs, fdescfs or zfs, which is mounted by zfs(8)
	from     string // nullfs: a host path; zfs: the dataset
	on       string // the place below the jail's root: "/dev"; "/" is the root itself
	file     bool   // nullfs of one file over another
	readOnly bool
	noSuid   bool
	ruleset  int    // devfs
	size     int64  // tmpfs, bytes
	mode     uint32 // tmpfs
}

// source is what statfs(2) must say the mount is from.
func (m mount) source() string {
	if m.fstype == "nullfs" || m.fstype == "zfs" {
		return m.from
	}
	return m.fstype
}

// pairs is the vector for nmount(2). Flags are options by name, because the call's flag word is too narrow for some.
func (m mount) pairs(root string) ([]pair, error) {
	target := filepath.Join(root, m.on)
	for _, path := range []string{target, m.source()} {
		if strings.ContainsRune(path, 0) || len(path) >= maxMountName {
			return nil, fault.New(fault.Invalid, "mount path %.64q is too long", path)
		}
	}
	list := []pair{stringPair("fstype", m.fstype), stringPair("fspath", target)}
	switch m.fstype {
	case "nullfs":
		if !filepath.IsAbs(m.from) {
			return nil, fault.New(fault.Internal, "internal error: nullfs of %q", m.from)
		}
		list = append(list, stringPair("target", m.from))
	case "devfs":
		if m.ruleset <= 0 || m.ruleset > 0xffff { // 0 would show every device
			return nil, fault.New(fault.Invalid, "devfs ruleset %d is not valid", m.ruleset).WithHint("use 1 to 65535")
		}
		list = append(list, stringPair("from", "devfs"), stringPair("ruleset", strconv.Itoa(m.ruleset)))
	case "tmpfs":
		if m.size <= 0 { // without a size it may take all memory and swap
			return nil, fault.New(fault.Invalid, "tmpfs on %q has no size", m.on)
		}
		list = append(list, stringPair("from", "tmpfs"),
			stringPair("size", strconv.FormatInt(m.size, 10)),
			stringPair("inodes", strconv.FormatInt(max(m.size/tmpfsBytesPerNode, 1024), 10)),
			stringPair("uid", "0"), stringPair("gid", "0"), stringPair("mode", strconv.FormatUint(uint64(m.mode), 8)))
	case "fdescfs":
		list = append(list, stringPair("from", "fdescfs"))
	default:
		return nil, fault.New(fault.Internal, "internal error: cannot mount a %q", m.fstype)
	}
	for name, on := range map[string]bool{"ro": m.readOnly, "nosuid": m.noSuid} {
		if on {
			list = append(list, flagPair(name))
		}
	}
	slices.SortStableFunc(list, func(a, b pair) int { return flagsLast(a) - flagsLast(b) })
	return list, nil
}

// tmpfsBytesPerNode bounds the files of a tmpfs: each takes kernel memory that its size does not count.
const tmpfsBytesPerNode = 8 << 10

func flagsLast(p pair) int {
	switch {
	case p.value != nil:
		return 0
	case p.name == "ro":
		return 2
	}
	return 1
}

// A mounted is one row of the host's mount table.
type mounted struct {
	fsid   [2]int32
	fstype string
	from   string
	on     string // host path, links resolved
	flags  uint64
}

// fsidName is the name by which unmount(2) with MNT_BYFSID finds a mount whatever lies over its path.
func (m mounted) fsidName() string { return fmt.Sprintf("FSID:%d:%d", m.fsid[0], m.fsid[1]) }

// matches reports why a row of the mount table is not the mount that was asked for, or nil.
func (m mounted) matches(want mount, root string) error {
	target := filepath.Join(root, want.on)
	switch {
	case m.on != target:
		return fmt.Errorf("it went to %q instead of %q", m.on, target)
	case m.fstype != want.fstype:
		return fmt.Errorf("it is a %s instead of a %s", m.fstype, want.fstype)
	case m.from != want.source():
		return fmt.Errorf("it is from %q instead of %q", m.from, want.source())
	case want.readOnly && m.flags&mntReadOnly == 0:
		return fmt.Errorf("it can be written")
	case want.noSuid && m.flags&mntNoSuid == 0:
		return fmt.Errorf("it honours setuid")
	}
	return nil
}

// below picks the mounts on dir and under it, the last mounted first: the order in which they can be unmounted. The table is
// in the order of mounting (getfsstat(2)).
func below(table []mounted, dir string) []mounted {
	var found []mounted
	for _, m := range slices.Backward(table) {
		if m.on == dir || strings.HasPrefix(m.on, strings.TrimSuffix(dir, "/")+"/") {
			found = append(found, m)
		}
	}
	return found
}

// topAt returns the mount that is seen at a path: the one mounted there last.
func topAt(table []mounted, path string) (mounted, bool) {
	for _, m := range slices.Backward(table) {
		if m.on == path {
			return m, true
		}
	}
	return mounted{}, false
}

// oursBelow tells the mounts that were made for the sandbox at root from those that somebody else put there. Ours are known
// without the sandbox's record, so that what a crash left can be cleared: a nullfs from the state folder, the kernel's own
// filesystems in their places, and on ZFS the sandbox's dataset.
func oursBelow(root, state, dataset string) func(mounted) bool {
	places := map[string]string{"devfs": "/dev", "fdescfs": "/dev/fd", "tmpfs": "/tmp"}
	return func(m mounted) bool {
		if m.on != root && !strings.HasPrefix(m.on, root+"/") {
			return false
		}
		switch m.fstype {
		case "nullfs":
			return strings.HasPrefix(m.from, state+"/")
		case "zfs":
			return dataset != "" && m.from == dataset && m.on == root
		}
		place, ok := places[m.fstype]
		return ok && m.on == filepath.Join(root, place)
	}
}

// stale reports whether one of our mounts below root is not of the plan: it stands in the way then.
func stale(table []mounted, root string, plan []mount, ours func(mounted) bool) bool {
	return slices.ContainsFunc(below(table, root), func(m mounted) bool {
		return ours(m) && !slices.ContainsFunc(plan, func(p mount) bool { return m.matches(p, root) == nil })
	})
}

// foreign returns the first mount below root that is not ours.
func foreign(table []mounted, root string, ours func(mounted) bool) (mounted, bool) {
	for _, m := range below(table, root) {
		if !ours(m) {
			return m, true
		}
	}
	return mounted{}, false
}
