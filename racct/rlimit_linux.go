package racct

import "golang.org/x/sys/unix"

// An Rlimit is one setrlimit(2) value, soft and hard alike.
type Rlimit struct {
	Name     string
	Resource int
	Value    uint64
}

// Rlimits returns the part of the limits that setrlimit(2) can hold. RLIMIT_NPROC counts the threads of the whole tenant
// (of one user in one user namespace), so it is the bound on threads; RLIMIT_DATA bounds the private writable memory of
// each process. A cgroup, where one is delegated, bounds the job as a whole.
func Rlimits(l Limits) []Rlimit {
	all := []Rlimit{
		{"RLIMIT_NPROC", unix.RLIMIT_NPROC, uint64(l.Threads)},
		{"RLIMIT_NOFILE", unix.RLIMIT_NOFILE, uint64(l.OpenFiles)},
		{"RLIMIT_DATA", unix.RLIMIT_DATA, uint64(l.SwapBytes)},
		{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, 64 << 10},
	}
	// No core: a file would be written where nobody expects it, and of a handler (core_pattern "|...") only 1 keeps the kernel
	// (fs/coredump.c), because 0 is not looked at for a pipe.
	set := []Rlimit{{"RLIMIT_CORE", unix.RLIMIT_CORE, 1}}
	for _, r := range all {
		if r.Value > 0 {
			set = append(set, r)
		}
	}
	return set
}
