package suite

import (
	"io"
	"os"
	"strings"

	"playground/fault"
)

const (
	maxLog    = 16 << 20 // a larger log is set aside at the next start of its daemon
	tailLines = 12
	tailBytes = 16 << 10
)

// openLog opens a daemon's log for appending. One older log is kept.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "cannot set the old log aside")
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot open the log")
	}
	return log, nil
}

// tail returns the last lines of the log that were written after offset.
func tail(path string, offset int64) []string {
	log, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil
	}
	from := max(offset, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(log, from, info.Size()-from))
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-tailLines):]
}
