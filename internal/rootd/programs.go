package rootd

import (
	"os"
	"path/filepath"
)

// Supervise is where the helper program lies: "supervise" once installed, with its full name beside a build's daemons.
func Supervise(libexecDir string) string { return program(libexecDir, "supervise") }

// Worker is where the program of work-loop workers lies.
func Worker(libexecDir string) string { return program(libexecDir, "worker") }

func program(libexecDir, name string) string {
	path := filepath.Join(libexecDir, name)
	if _, err := os.Stat(path); err != nil {
		return filepath.Join(libexecDir, "playground-"+name)
	}
	return path
}
