package confine

import (
	"os"

	"golang.org/x/sys/unix"
)

// An expectation is what a worker must look like from outside.
type expectation struct {
	orders Orders
	start  Start
	image  unix.Stat_t
	files  [4]uint64 // inodes of the descriptors 0 to 3
}

// uid and gid are the worker's, as the host sees them.
func (e expectation) uid() int {
	if e.start.UID != 0 {
		return e.start.UID
	}
	return os.Geteuid()
}

func (e expectation) gid() int {
	if e.start.UID != 0 {
		return e.start.GID
	}
	return os.Getegid()
}

// identify returns an open file's inode.
func identify(f *os.File) (uint64, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if ctlErr := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }); ctlErr != nil {
		return 0, ctlErr
	}
	return st.Ino, err
}
