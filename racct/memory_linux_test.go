package racct

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestHostMemory compares with what /proc/meminfo says in another way.
func TestHostMemory(t *testing.T) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skip(err)
	}
	fields := strings.Fields(string(data)) // MemTotal: N kB
	kib, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := HostMemory(); got != kib<<10 {
		t.Errorf("got %d bytes, /proc/meminfo says %d KiB", got, kib)
	}
}
