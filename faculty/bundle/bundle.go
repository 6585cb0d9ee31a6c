// Package bundle makes cohorts: the executables of one faculty, built together from one state of an operator's source tree.
//
// A cohort is named by the fingerprint of its source, its dependencies and its recipe, and lies in a folder of that name. The
// file ".complete" is written into it last, so that a folder without it is no cohort: a build failed or was killed there, and
// build.log says how far it came. The same fingerprint is built once, whoever asks and however many at a time.
//
// A build runs in a sandbox of its own, which is thrown away after it: it sees the source read-only at /workspace/src, writes
// to scratch space only, has a command's limits, and reaches no network unless that was allowed. Only the files that were asked for by name
// are taken out of it.
//
// Installing copies a cohort into a tenant's home, through the tenant's own sandbox: no host path of a tenant's is ever
// touched from outside, so a link that the tenant left there can mislead nobody but itself.
package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// Files of a cohort's folder beside its executables.
const (
	stampFile = ".complete" // its presence, holding the fingerprint, makes the folder a cohort
	factsFile = "cohort.json"
	logFile   = "build.log"
)

// A Cohort is one complete build.
type Cohort struct {
	Name        string    `json:"name"`
	Fingerprint string    `json:"fingerprint"`
	Recipe      string    `json:"recipe"` // the fingerprint of its first build; another one where it was built anew
	Built       time.Time `json:"built"`
	Binaries    []Binary  `json:"binaries"`
	Reused      bool      `json:"reused"`            // it was there before this call
	Damaged     string    `json:"damaged,omitempty"` // why it cannot be used
	Dir         string    `json:"-"`
}

// A Binary is one executable of a cohort.
type Binary struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// A Store is the folder that keeps cohorts: NAME/FINGERPRINT/.
type Store struct {
	dir     string // of cohorts
	sources string // of what builders may see: see package jail, SourceFolder
}

// Open returns the store at dir, making the folder if needed. Sources is the folder from which jaild shows builders their
// source.
func Open(dir, sources string) (*Store, error) {
	for path, mode := range map[string]fs.FileMode{dir: 0o755, sources: 0o711} {
		if err := makeFolder(path, mode); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "cannot make the folder of bundles").
				WithHint(asDaemons + ", or set faculty.bundles")
		}
	}
	return &Store{dir, sources}, nil
}

// asDaemons is the hint to whoever may not use the store.
const asDaemons = "run this as the user that the daemons run as"

// makeFolder makes a folder that is missing, with this mode whatever the umask.
func makeFolder(path string, mode fs.FileMode) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

var (
	namePattern        = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	binaryPattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	fingerprintPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ValidName reports whether a cohort may be called so.
func ValidName(name string) error {
	if !namePattern.MatchString(name) {
		return fault.New(fault.Invalid, "bundle name %q is not valid", name).
			WithHint("use 1 to 32 small letters, digits and hyphens, beginning and ending with a letter or digit")
	}
	return nil
}

func (s *Store) path(name, fingerprint string) string { return filepath.Join(s.dir, name, fingerprint) }

// load returns a cohort, or fault.NotFound where there is none or it is not complete.
func (s *Store) load(name, fingerprint string) (Cohort, error) {
	dir := s.path(name, fingerprint)
	missing := fault.New(fault.NotFound, "there is no complete build %s of bundle %q", short(fingerprint), name).
		WithHint("playground faculty cohorts lists what there is")
	stamp, err := os.ReadFile(filepath.Join(dir, stampFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Cohort{}, missing
	}
	if err != nil {
		return Cohort{}, fault.Wrap(fault.Unavailable, err, "cannot read bundle %q", name)
	}
	if strings.TrimSpace(string(stamp)) != fingerprint {
		return Cohort{}, missing
	}
	data, err := os.ReadFile(filepath.Join(dir, factsFile))
	var c Cohort
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && (c.Name != name || c.Fingerprint != fingerprint || len(c.Binaries) == 0) {
		err = errors.New("it describes another")
	}
	for _, b := range c.Binaries {
		info, statErr := os.Lstat(filepath.Join(dir, b.Name))
		if statErr == nil && (!info.Mode().IsRegular() || info.Size() != b.Size) {
			statErr = fmt.Errorf("executable %q is not the one that was built", b.Name)
		}
		err = errors.Join(err, statErr)
	}
	if err != nil {
		return Cohort{}, fault.Wrap(fault.Unavailable, err, "build %s of bundle %q is damaged", short(fingerprint), name).
			WithHint("playground faculty prune %s removes it; then build again", name)
	}
	c.Dir, c.Recipe = dir, cmp.Or(c.Recipe, fingerprint)
	return c, nil
}

// Cohorts lists what is complete, of one bundle or with "" of all, by name and from the newest to the oldest. One that is damaged is
// among them, and no reason not to list the others.
func (s *Store) Cohorts(name string) ([]Cohort, error) {
	var all []Cohort
	err := s.each(name, func(name, fingerprint string) error {
		c, err := s.load(name, fingerprint)
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			c = Cohort{Name: name, Fingerprint: fingerprint, Recipe: fingerprint, Damaged: err.Error(), Dir: s.path(name, fingerprint)}
		}
		all = append(all, c)
		return nil
	})
	slices.SortStableFunc(all, func(a, b Cohort) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return b.Built.Compare(a.Built)
	})
	return all, err
}

// each calls f for every folder of a fingerprint, complete or not.
func (s *Store) each(only string, f func(name, fingerprint string) error) error {
	names := []string{only}
	if only == "" {
		var err error
		if names, err = folders(s.dir, namePattern); err != nil {
			return err
		}
	} else if err := ValidName(only); err != nil {
		return err
	}
	for _, name := range names {
		fingerprints, err := folders(filepath.Join(s.dir, name), fingerprintPattern)
		if err != nil {
			return err
		}
		for _, fingerprint := range fingerprints {
			if err := f(name, fingerprint); err != nil {
				return err
			}
		}
	}
	return nil
}

// folders lists the folders in dir whose names have this form; none where dir does not exist.
func folders(dir string, form *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot list bundles").WithHint(asDaemons)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && form.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Find returns the newest cohort of "NAME", or the one whose fingerprint begins with what follows in "NAME@FINGERPRINT".
func (s *Store) Find(reference string) (Cohort, error) {
	name, prefix, named := strings.Cut(reference, "@")
	if err := ValidName(name); err != nil {
		return Cohort{}, err
	}
	all, err := s.Cohorts(name)
	if err != nil {
		return Cohort{}, err
	}
	all = slices.DeleteFunc(all, func(c Cohort) bool {
		// A damaged one is found by those who name it alone.
		return !strings.HasPrefix(c.Fingerprint, prefix) || prefix == "" && c.Damaged != ""
	})
	switch {
	case len(all) == 0 || named && prefix == "":
		return Cohort{}, fault.New(fault.NotFound, "there is no complete build %q", reference).
			WithHint("playground faculty cohorts lists what there is; playground faculty build makes one")
	case named && len(all) > 1:
		return Cohort{}, fault.New(fault.Invalid, "%d builds begin with %q", len(all), prefix).WithHint("write more of the fingerprint")
	}
	return s.load(name, all[0].Fingerprint)
}

// short is what people see of a fingerprint.
func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }

// lock takes the lock of one bundle's build, waiting for whoever has it.
func (s *Store) lock(ctx context.Context, name, fingerprint string, news io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot make the folder of bundle %q", name).WithHint(asDaemons)
	}
	path := filepath.Join(s.dir, name, ".lock-"+fingerprint)
	f, err := flock(path)
	if errors.Is(err, errLocked) {
		fmt.Fprintln(news, "another build of the same source goes on; waiting for it")
		f, err = waitLock(ctx, path)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot lock the build of bundle %q", name)
	}
	return func() { _ = f.Close() }, nil // closing gives the lock back whatever close(2) says
}

// errLocked says that somebody else has a lock, or had it and took its file away.
var errLocked = errors.New("somebody else has the lock")

// flock opens a lock file and takes its lock, or fails with errLocked.
func flock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errLocked
	}
	if err == nil {
		err = stillThere(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// stillThere fails where the file's name is gone or another's: whoever locks that would share what it stands for.
func stillThere(f *os.File) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Lstat(f.Name()); err != nil || !os.SameFile(mine, named) {
		return errLocked
	}
	return nil
}

// waitLock is flock that waits. A blocking flock(2) could not be given up when ctx ends.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	const pause = 200 * time.Millisecond
	for {
		f, err := flock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// writeSynced replaces a file by rename, on disk when it returns.
func writeSynced(path string, data []byte, mode fs.FileMode) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
