package record

import (
	"os"

	"golang.org/x/sys/unix"
)

// fsAppendFL is FS_APPEND_FL of linux/fs.h.
const fsAppendFL = 0x20

// lockAppendOnly sets the append attribute, keeping the others, and says whether it is set and what that is worth.
func lockAppendOnly(f *os.File) (kept Enforcement, set bool) {
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return Enforcement{Reason: "the filesystem has no append attribute"}, false
	}
	if flags&fsAppendFL == 0 {
		unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|fsAppendFL)
		if flags, err = unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err != nil || flags&fsAppendFL == 0 {
			return Enforcement{Reason: "setting the append attribute needs CAP_LINUX_IMMUTABLE and a filesystem that has it"}, false
		}
	}
	return Enforcement{Enforced: true, Reason: "the append attribute is set (chattr +a); whoever has CAP_LINUX_IMMUTABLE can clear it"}, true
}
