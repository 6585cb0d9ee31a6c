package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory returns the resident MB of all descendants of pid, each page once (Pss of proc(5)): the daemons share the text of
// one program image with their own children. It is 0 where there is no /proc as on Linux.
func memory(pid int) float64 {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is sound
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var child, parent int
		var state string
		if _, err := fmt.Sscan(string(text[:bytes.IndexByte(text, ' ')]), &child); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var total float64
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		queue = append(queue, children[queue[0]]...)
		total += resident(queue[0])
	}
	return total
}

// resident returns one process's share of memory in MB: proportional where the kernel tells us, else all of it.
func resident(pid int) float64 {
	for _, source := range []struct{ file, key string }{{"smaps_rollup", "Pss:"}, {"status", "VmRSS:"}} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, source.file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, source.key); ok {
				kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				if err == nil {
					return kb / 1000
				}
			}
		}
	}
	return 0
}
