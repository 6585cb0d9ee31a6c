package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// prefix is where the package's own files lie. The programs know these paths, so it is not a choice.
const prefix = "/usr/local"

// An entry is one file or folder of the package.
type entry struct {
	Path   string      // absolute
	Dir    bool        // a folder with an owner or mode of its own
	Sample bool        // X.sample, from which X is made if it is missing
	Owner  string      // a name: ids differ between hosts
	Group  string      // likewise
	Mode   fs.FileMode // permission bits; 0 means as staged
}

// Config is the file that a sample becomes.
func (e entry) Config() string { return strings.TrimSuffix(e.Path, ".sample") }

// Bounds of a list that people write.
const (
	maxPlist = 1 << 20
	maxPath  = 256
)

// parsePlist reads the subset of a ports packing list that says everything on its own line:
//
//	sbin/program
//	@(owner,group,mode) etc/rc.d/script
//	@sample(owner,group,mode) etc/program/program.conf.sample
//	@dir(owner,group,mode) /var/db/program
//	@comment words
//
// Relative paths are below prefix. Whatever else a list can say, stateful @mode lines and shell commands above all, is
// refused: a package runs as root on somebody's host, so its list must be readable at a glance. The entries come back
// sorted by path.
func parsePlist(text []byte) ([]entry, error) {
	if len(text) > maxPlist {
		return nil, fmt.Errorf("cannot read a packing list of %d bytes: more than %d", len(text), maxPlist)
	}
	var entries []entry
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "@comment ") {
			continue
		}
		e, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		entries = append(entries, e)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Path < entries[j].Path })
	return entries, checkTogether(entries)
}

// lineForm is keyword, attributes and path; only the path is always there.
var lineForm = regexp.MustCompile(`^(?:@(sample|dir)?(?:\(([^()]*)\))? )?([^@ ][^ ]*)$`)

func parseLine(line string) (entry, error) {
	match := lineForm.FindStringSubmatch(line)
	if match == nil || strings.HasPrefix(line, "@ ") {
		return entry{}, fmt.Errorf("cannot understand %q: want PATH, @(OWNER,GROUP,MODE) PATH, @sample(...) PATH or @dir(...) PATH", line)
	}
	e := entry{Path: match[3], Dir: match[1] == "dir", Sample: match[1] == "sample", Owner: "root", Group: "wheel"}
	if !strings.HasPrefix(e.Path, "/") {
		e.Path = prefix + "/" + e.Path
	}
	if e.Dir {
		e.Mode = 0o755 // a folder is not always staged, so it cannot be asked
	}
	if err := e.attributes(match[2]); err != nil {
		return entry{}, err
	}
	return e, e.check()
}

// nameForm is a user's or group's name.
var nameForm = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// attributes reads "owner,group,mode"; an empty field keeps its default, as in a port.
func (e *entry) attributes(text string) error {
	if text == "" {
		return nil
	}
	fields := strings.Split(text, ",")
	if len(fields) != 3 {
		return fmt.Errorf("cannot understand (%s): want (OWNER,GROUP,MODE)", text)
	}
	for i, field := range []*string{&e.Owner, &e.Group} {
		if fields[i] == "" {
			continue
		}
		if !nameForm.MatchString(fields[i]) {
			return fmt.Errorf("%q is not a user's or group's name", fields[i])
		}
		*field = fields[i]
	}
	if fields[2] == "" {
		return nil
	}
	mode, err := strconv.ParseUint(fields[2], 8, 32)
	if err != nil || mode > 0o777 || mode == 0 {
		return fmt.Errorf("mode %q is refused: want 0001 to 0777, without set-id and sticky bits", fields[2])
	}
	e.Mode = fs.FileMode(mode)
	return nil
}

// pathForm keeps out what would need quoting in a manifest, a script or a terminal.
var pathForm = regexp.MustCompile(`^(/[A-Za-z0-9._+@:=~-]+)+$`)

// check refuses paths that a package must not own.
func (e entry) check() error {
	switch {
	case len(e.Path) > maxPath:
		return fmt.Errorf("a path of %d bytes is too long", len(e.Path))
	case !pathForm.MatchString(e.Path) || path.Clean(e.Path) != e.Path:
		return fmt.Errorf("path %q is refused: want plain names between single slashes, and neither . nor .. among them", e.Path)
	case below(e.Path, "/var/run"):
		return fmt.Errorf("path %q is refused: /var/run is emptied at boot, the rc script makes it", e.Path)
	case !below(e.Path, prefix) && !(e.Dir && (below(e.Path, "/var/db") || below(e.Path, "/var/log") || below(e.Path, "/var/cache"))):
		return fmt.Errorf("path %q is refused: only files below %s, and folders in /var/db, /var/log and /var/cache, are the package's", e.Path, prefix)
	case e.Mode&0o002 != 0:
		return fmt.Errorf("mode %04o of %q is refused: everybody could write it", e.Mode, e.Path)
	case e.Sample && (e.Config() == e.Path || path.Base(e.Path) == ".sample"):
		return fmt.Errorf("sample %q is refused: its name must end in .sample", e.Path)
	}
	return nil
}

// checkTogether refuses what is wrong between entries: one path twice, or a file where another entry needs a folder.
func checkTogether(sorted []entry) error {
	seen := make(map[string]entry, len(sorted))
	for _, e := range sorted {
		if _, twice := seen[e.Path]; twice {
			return fmt.Errorf("path %q is listed twice", e.Path)
		}
		seen[e.Path] = e
	}
	for _, e := range sorted {
		if e.Sample {
			if _, listed := seen[e.Config()]; listed {
				return fmt.Errorf("%q is the administrator's file: only its sample may be listed", e.Config())
			}
		}
		for parent := path.Dir(e.Path); parent != "/"; parent = path.Dir(parent) {
			if over, listed := seen[parent]; listed && !over.Dir {
				return fmt.Errorf("%q cannot be in %q, which is a file", e.Path, parent)
			}
		}
	}
	return nil
}

// below reports whether name lies in folder.
func below(name, folder string) bool { return strings.HasPrefix(name, folder+"/") }
