package preflight

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

func platform(_ context.Context, o Options) []Check { return judgeFreeBSD(gather(o), o) }

// gather finds the facts out.
func gather(o Options) freebsdFacts {
	f := freebsdFacts{root: os.Geteuid() == 0, storage: statStorage(o.StateDir)}
	f.release, f.releaseErr = unix.Sysctl("kern.osrelease")
	// A 1-byte boolean, which the typed calls refuse.
	f.racct, f.racctErr = unix.SysctlRaw("kern.racct.enable")
	var jailed uint32
	jailed, f.jailedErr = unix.SysctlUint32("security.jail.jailed")
	f.jailed = jailed != 0
	var level uint32
	level, f.secureErr = unix.SysctlUint32("kern.securelevel")
	f.secure = int(int32(level)) // -1 is a level
	if memory, err := unix.SysctlUint64("hw.physmem"); err == nil {
		f.memory = memory
	}
	return f
}

func statStorage(dir string) storage {
	s, nearest := locate(dir)
	if s.err != nil {
		return s
	}
	var fs unix.Statfs_t
	if s.err = unix.Statfs(nearest, &fs); s.err == nil {
		s.freeBytes = uint64(max(fs.Bavail, 0)) * fs.Bsize // Bavail is negative in the reserve
		s.noexec = fs.Flags&unix.MNT_NOEXEC != 0
		s.fstype = unix.ByteSliceToString(fs.Fstypename[:])
	}
	return s
}
