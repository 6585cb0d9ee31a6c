package racct

import "golang.org/x/sys/unix"

// HostMemory returns the host's memory in bytes, 0 where it cannot be told: sysinfo(2).
func HostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
