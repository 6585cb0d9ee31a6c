// Package racct says what one job may use. On FreeBSD the limits become rctl(8) rules on the job's own leaf jail (rules on a
// tenant's jail do not bind its children); on Linux they become a cgroup v2 where one is delegated, and rlimits.
package racct

// Limits bound one job. Zero means no limit. The defaults are those of the configuration.
type Limits struct {
	Processes       int64 `json:"processes"`         // FreeBSD maxproc
	Threads         int64 `json:"threads"`           // FreeBSD nthr; Linux pids.max and RLIMIT_NPROC count threads
	OpenFiles       int64 `json:"open_files"`        // FreeBSD openfiles per job; Linux RLIMIT_NOFILE per process
	SwapBytes       int64 `json:"swap_bytes"`        // FreeBSD swapuse: private writable memory
	MemoryBytes     int64 `json:"memory_bytes"`      // resident memory; the job is killed above it
	CPUPercent      int64 `json:"cpu_percent"`       // of one core: 200 is two cores
	Pseudoterminals int64 `json:"pseudoterminals"`   // FreeBSD pseudoterminals
	WriteBytesPerS  int64 `json:"write_bytes_per_s"` // FreeBSD writebps throttle
}
