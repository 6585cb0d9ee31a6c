package racct

import "golang.org/x/sys/unix"

// HostMemory returns the size of the host's memory in bytes, 0 when the kernel does not say.
func HostMemory() int64 {
	n, err := unix.SysctlUint64("hw.physmem")
	if err != nil {
		return 0
	}
	return int64(n)
}
