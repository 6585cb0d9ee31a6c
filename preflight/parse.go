package preflight

import (
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupDir finds a process's cgroup v2 folder from its /proc/PID/mountinfo and /proc/PID/cgroup, see proc(5) and
// cgroups(7), and the root of that tree. Both are empty where there is none.
func cgroupDir(mountinfo, membership string) (dir, root string) {
	var path string
	found := false
	for line := range strings.Lines(membership) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path, found = p, true
		}
	}
	if !found {
		return "", ""
	}
	for line := range strings.Lines(mountinfo) {
		mount, kind, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !ok || len(fields) < 5 || !strings.HasPrefix(kind, "cgroup2 ") {
			continue
		}
		// The mount may show only a part of the tree, which the path begins with.
		rel := path
		if fields[3] != "/" {
			rel, ok = strings.CutPrefix(path, fields[3])
			if !ok {
				continue
			}
		}
		return filepath.Join(fields[4], rel), fields[4]
	}
	return "", ""
}

// field returns the value of "NAME: value" in a file of /proc.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// available returns the memory that /proc/meminfo calls available, or 0.
func available(meminfo string) uint64 {
	kib, err := strconv.ParseUint(strings.TrimSuffix(field(meminfo, "MemAvailable"), " kB"), 10, 64)
	if err != nil || kib > 1<<50 {
		return 0
	}
	return kib << 10
}
