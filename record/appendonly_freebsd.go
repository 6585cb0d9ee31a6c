package record

import (
	"os"

	"golang.org/x/sys/unix"
)

// SF_APPEND (sappnd) and UF_APPEND (uappnd) of sys/stat.h.
const (
	sfAppend = 0x40000
	ufAppend = 0x4
)

// lockAppendOnly sets sappnd, keeping the other flags, and says what that is worth. Only root may set it; the owner's own uappnd
// is better than nothing, and is not called enforcement.
func lockAppendOnly(f *os.File) Enforcement {
	fd := int(f.Fd())
	flags, ok := fileFlags(fd)
	if !ok {
		return Enforcement{Reason: "the file's flags cannot be read"}
	}
	if flags&sfAppend == 0 {
		unix.Fchflags(fd, int(flags|sfAppend))
		if flags, ok = fileFlags(fd); !ok || flags&sfAppend == 0 {
			unix.Fchflags(fd, int(flags|ufAppend))
			return Enforcement{Reason: "only root may set sappnd (chflags(1)); uappnd, which the file's owner can clear, is all there is"}
		}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return Enforcement{Reason: "sappnd is set; what it is worth is not known, because the filesystem cannot be asked"}
	}
	level, err := unix.SysctlUint32("kern.securelevel")
	if err != nil {
		return Enforcement{Reason: "sappnd is set; what it is worth is not known, because the securelevel cannot be read"}
	}
	return flagWorth(unix.ByteSliceToString(fstypeBytes(st)), int(int32(level)))
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
