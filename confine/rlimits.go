package confine

// An rlimit is one resource limit, soft and hard alike.
type rlimit struct {
	name     string // as /proc/PID/limits says it on Linux, as limits(1) does on FreeBSD
	resource int
	value    uint64
}

// linuxRlimits are the limits of a worker on Linux (asm-generic/resource.h). Its threads count as processes.
func linuxRlimits(b Bounds) []rlimit {
	return []rlimit{
		{"Max cpu time", 0, uint64(b.CPUSeconds)},
		{"Max file size", 1, 0},
		{"Max data size", 2, uint64(b.DataBytes)},
		{"Max core file size", 4, 0},
		{"Max processes", 6, uint64(b.Threads)},
		{"Max open files", 7, uint64(b.Files)},
		{"Max locked memory", 8, 0},
		{"Max address space", 9, uint64(b.AddressBytes)},
		{"Max pending signals", 11, uint64(b.Threads) + 32},
		{"Max msgqueue size", 12, 0},
		{"Max nice priority", 13, 0},
		{"Max realtime priority", 14, 0},
	}
}

// freebsdRlimits are the limits of a worker on FreeBSD (sys/resource.h). Address space is not among them: the runtime reserves
// more than it uses, and swap is what the kernel charges for memory that is written to. That one is enforced only where
// vm.overcommit has bit 1 set (tuning(7)), so that rctl(8) limits the jail's as well. NPROC counts processes, not threads.
func freebsdRlimits(b Bounds) []rlimit {
	return []rlimit{
		{"cputime", 0, uint64(b.CPUSeconds)},
		{"filesize", 1, 0},
		{"coredumpsize", 4, 0},
		{"memorylocked", 6, 0},
		{"maxproc", 7, 1},
		{"openfiles", 8, uint64(b.Files)},
		{"pseudo-terminals", 11, 0},
		{"swapuse", 12, uint64(b.DataBytes)},
		{"kqueues", 13, 4},
	}
}
