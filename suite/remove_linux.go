package suite

import (
	"os"

	"golang.org/x/sys/unix"
)

// appendOnly is FS_APPEND_FL of linux/fs.h.
const appendOnly = 0x20

// clearAppendOnly takes the append-only attribute off, as "chattr -a" does. It fails silently: the removal that follows
// tells.
func clearAppendOnly(path string) {
	// A tenant's files are below too: do not follow a link, do not wait for a fifo.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&appendOnly != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^appendOnly)
	}
}
