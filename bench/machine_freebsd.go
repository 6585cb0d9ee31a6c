package bench

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"playground/jail"
)

// kernel names the running kernel.
func kernel() string {
	release, err := unix.Sysctl("kern.osrelease")
	if err != nil {
		return ""
	}
	return "FreeBSD " + release
}

// cpu names the processor.
func cpu() string {
	model, err := unix.Sysctl("hw.model")
	if err != nil {
		return ""
	}
	return model
}

// loadAverage is how busy the machine was over 1, 5 and 15 minutes: struct loadavg of sys/resource.h, three 32-bit fixed
// point numbers, 4 bytes of padding, and their scale as a long.
func loadAverage() (load [3]float64) {
	raw, err := unix.SysctlRaw("vm.loadavg")
	if err != nil || len(raw) < 24 {
		return load
	}
	scale := float64(binary.NativeEndian.Uint64(raw[16:]))
	for i := range load {
		load[i] = float64(binary.NativeEndian.Uint32(raw[4*i:])) / scale
	}
	return load
}

// sharedNetwork is how a tenant reaches what listens on the host's loopback, and is reached there.
const sharedNetwork = jail.NetworkInherit
