package suite

import "golang.org/x/sys/unix"

// sfAppend is SF_APPEND of sys/stat.h.
const sfAppend = 0x00040000

// clearAppendOnly takes the system's append-only flag off, as "chflags nosappnd" does. It fails silently: the removal that
// follows tells. A securelevel above 0 forbids it.
func clearAppendOnly(path string) {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) == nil && stat.Flags&sfAppend != 0 {
		_ = unix.Chflags(path, int(stat.Flags&^sfAppend))
	}
}
