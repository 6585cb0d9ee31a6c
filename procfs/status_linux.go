package procfs

import (
	"os"
	"path/filepath"
	"strings"
)

// A Status is what /proc/PID/status says of a process or a thread: its lines by name.
type Status map[string]string

// StatusOf reads a status; process is a folder below /proc, "PID" or "PID/task/TID".
func StatusOf(process string) (Status, error) {
	data, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return nil, err
	}
	s := make(Status, 64)
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			s[name] = value
		}
	}
	return s, nil
}

// Words returns a line's words, separated by single spaces; "" if there is no such line.
func (s Status) Words(name string) string { return strings.Join(strings.Fields(s[name]), " ") }
