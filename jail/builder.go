package jail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"playground/fault"
)

// A sandbox with a Source is for one build and is thrown away after it: it sees a folder of the state folder's sources/,
// which an operator put there, read-only at SourcePath, may not write to the host's pile, and keeps none of its own.

// SourcePath is where a builder sees its source.
const SourcePath = "/workspace/src"

// SourceFolder is where operators put what builders may see, below the state folder: one folder for each, named by a ULID in
// small letters.
const SourceFolder = "sources"

// source is the host path of a builder's source, "" for every other sandbox.
func (s *store) source(rec record) string {
	if rec.Source == "" {
		return ""
	}
	return filepath.Join(s.dir, SourceFolder, rec.Source)
}

// checkSource refuses what is not the plain name of a folder that is there: no path of the caller's is ever mounted.
func (s *store) checkSource(name string) error {
	if name == "" {
		return nil
	}
	if _, err := ulid.ParseStrict(name); err != nil {
		return fault.New(fault.Invalid, "source %.64q is not the name of a folder in %s", name, SourceFolder)
	}
	info, err := os.Lstat(s.source(record{Source: name}))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "source %q does not exist", name)
	case err != nil:
		return err
	case !info.IsDir():
		return fault.New(fault.Invalid, "source %q is not a folder", name)
	}
	return nil
}
