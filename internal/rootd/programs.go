package rootd

import (
	"os"
	"path/filepath"
)

// Supervise is where the helper program lies: "supervise" once installed, with its full name beside a build's daemons.
func Supervise(libexecDir string) string {
	path := filepath.Join(libexecDir, "supervise")
	if _, err := os.Stat(path); err != nil {
		return filepath.Join(libexecDir, "playground-supervise")
	}
	return path
}
