package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// family returns all descendants of this process: the suite, and nothing else while memory is measured.
func family() ([]process, error) {
	children := map[int][]int{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // a name may hold anything
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []process
	for queue := children[os.Getpid()]; len(queue) > 0; queue = queue[1:] {
		queue = append(queue, children[queue[0]]...)
		if p, ok := resident(queue[0]); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// resident reads one process; false if it is gone. An ordinary user may not read smaps_rollup of a process that made
// itself undumpable, as the daemons do; status is open to all.
func resident(pid int) (process, bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return process{}, false
	}
	p := process{resident: kilobytes(status, "VmRSS:")}
	p.part = p.resident
	if rollup, err := os.ReadFile(dir + "smaps_rollup"); err == nil {
		p.part, p.exact = kilobytes(rollup, "Pss:"), true
	}
	// The name of a status line is cut to 15 bytes; the command line is whole, unless it is gone with the memory.
	if line, err := os.ReadFile(dir + "cmdline"); err == nil {
		argv0, _, _ := strings.Cut(string(line), "\x00")
		p.name = filepath.Base(argv0)
	}
	return p, true
}

// kilobytes finds a "Key:  123 kB" line and returns MB.
func kilobytes(text []byte, key string) float64 {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err == nil {
				return kb * 1024 / megabyte
			}
		}
	}
	return 0
}
