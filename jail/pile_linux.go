package jail

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	appendOnlyReason    = "the append-only attribute is set (chattr +a)"
	notAppendOnlyReason = "setting the append-only attribute needs CAP_LINUX_IMMUTABLE and a filesystem that has it"
)

// fsAppendFL is FS_APPEND_FL of linux/fs.h.
const fsAppendFL = 0x20

// setAppendOnly sets or clears the append-only attribute where the kernel lets us; appendOnly tells whether it did.
func setAppendOnly(path string, on bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return
	}
	if flags &^= fsAppendFL; on {
		flags |= fsAppendFL
	}
	unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func hasAppendFlag(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&fsAppendFL != 0
}

func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
