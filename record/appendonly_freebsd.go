package record

import (
	"os"

	"golang.org/x/sys/unix"
)

// sfAppend is SF_APPEND (sappnd) of sys/stat.h.
const sfAppend = 0x40000

// lockAppendOnly sets sappnd, keeping the other flags, and says whether it is set and what that is worth. Only root may set it. The
// owner's own uappnd would be no help: the owner can clear it, and zfs does not have it.
func lockAppendOnly(f *os.File) (kept Enforcement, set bool) {
	fd := int(f.Fd())
	flags, ok := fileFlags(fd)
	if !ok {
		return Enforcement{Reason: "the file's flags cannot be read"}, false
	}
	if flags&sfAppend == 0 {
		unix.Fchflags(fd, int(flags|sfAppend))
		if flags, ok = fileFlags(fd); !ok || flags&sfAppend == 0 {
			return Enforcement{Reason: "only root may set sappnd (chflags(1))"}, false
		}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return Enforcement{Reason: "sappnd is set; what it is worth is not known, because the filesystem cannot be asked"}, true
	}
	level, err := unix.SysctlUint32("kern.securelevel")
	if err != nil {
		return Enforcement{Reason: "sappnd is set; what it is worth is not known, because the securelevel cannot be read"}, true
	}
	return flagWorth(unix.ByteSliceToString(fstypeBytes(st)), int(int32(level))), true
}

func fileFlags(fd int) (uint32, bool) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Flags, err == nil
}

func fstypeBytes(st unix.Statfs_t) []byte {
	name := make([]byte, len(st.Fstypename))
	for i, b := range st.Fstypename {
		name[i] = byte(b)
	}
	return name
}
