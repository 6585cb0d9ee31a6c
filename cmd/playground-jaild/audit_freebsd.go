package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// sfAppend is SF_APPEND (sappnd) of sys/stat.h.
const sfAppend = 0x40000

// appendOnly sets sappnd, keeping the other flags. At every securelevel root may set it on a file that has no such flag yet
// (ufs_setattr of ufs_vnops.c, zfs_freebsd_setattr of zfs_vnops_os.c).
func appendOnly(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot read the file's flags: %w", err)
	}
	if st.Flags&sfAppend != 0 {
		return nil
	}
	if err := unix.Fchflags(fd, int(st.Flags|sfAppend)); err != nil {
		return fmt.Errorf("cannot set sappnd: %w", err)
	}
	return nil
}
