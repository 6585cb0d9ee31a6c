package suite

import (
	"io/fs"
	"os"
	"path/filepath"

	"playground/fault"
)

// Remove removes a state folder that no suite runs from, with the piles in it, which root's daemons make append-only: plain
// os.RemoveAll, and rm(1), would be refused.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (entry.IsDir() || entry.Type().IsRegular()) {
			clearAppendOnly(path)
		}
		return nil // what cannot be read cannot be mended here; RemoveAll says so
	})
	if walkErr == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot remove the state folder")
	}
	return nil
}
