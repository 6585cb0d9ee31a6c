package jail

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freebsd is the hostKernel of a real host. Its other methods are in the files of their subjects.
type freebsd struct{}

// Flags of unmount(2) that package unix does not have.
const (
	mntForce  = 0x80000
	mntByFsid = 0x8000000
)

// mountTable lists the host's mounts in the order they were made. It asks no filesystem, so that a dead server stops nothing.
func (freebsd) mountTable() ([]mounted, error) {
	for {
		n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
		if err != nil {
			return nil, fmt.Errorf("cannot read the mount table: %w", err)
		}
		buf := make([]unix.Statfs_t, n+16)
		if n, err = unix.Getfsstat(buf, unix.MNT_NOWAIT); err != nil {
			return nil, fmt.Errorf("cannot read the mount table: %w", err)
		}
		if n == len(buf) {
			continue // there may be more
		}
		table := make([]mounted, n)
		for i := range table {
			table[i] = fromStatfs(&buf[i])
		}
		return table, nil
	}
}

func fromStatfs(st *unix.Statfs_t) mounted {
	return mounted{
		fsid: st.Fsid.Val, fstype: cString(st.Fstypename[:]), from: cString(st.Mntfromname[:]), on: cString(st.Mntonname[:]), flags: st.Flags,
	}
}

func (freebsd) nmount(fstype, target string, pairs []pair) error {
	_, err := vectorCall(unix.SYS_NMOUNT, "mount "+fstype+" on", target, pairs, 0)
	return err
}

func (freebsd) statfs(path string) (mounted, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return mounted{}, err
	}
	return fromStatfs(&st), nil
}

func (freebsd) unmount(m mounted, force bool) error {
	flags := mntByFsid
	if force {
		flags |= mntForce
	}
	return unix.Unmount(m.fsidName(), flags)
}
