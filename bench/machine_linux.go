package bench

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"playground/jail"
)

// kernel names the running kernel.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// cpu names the processor.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is how busy the machine was over 1, 5 and 15 minutes.
func loadAverage() (load [3]float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(text), &load[0], &load[1], &load[2]) // zeros say that it is not known
	}
	return load
}

// sharedNetwork is how a tenant reaches what listens on the host's loopback, and is reached there.
const sharedNetwork = jail.NetworkHost
