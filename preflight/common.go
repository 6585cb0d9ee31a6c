package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// storage is what was found out about the state folder and the filesystem below it.
type storage struct {
	resolved  string // the folder without symbolic links
	exists    bool
	mode      fs.FileMode
	freeBytes uint64 // for an ordinary user
	noexec    bool
	fstype    string // FreeBSD
	err       error  // why the filesystem could not be asked
}

// locate resolves dir and returns the nearest folder that exists, which is where its filesystem can be asked.
func locate(dir string) (s storage, nearest string) {
	s.resolved = dir
	nearest = dir
	for {
		resolved, err := filepath.EvalSymlinks(nearest)
		if err == nil {
			rest, _ := filepath.Rel(nearest, dir) // nearest is a parent of dir: no error is possible
			s.resolved = filepath.Join(resolved, rest)
			break
		}
		parent := filepath.Dir(nearest)
		if parent == nearest || !errors.Is(err, fs.ErrNotExist) {
			s.err = err
			return s, nearest
		}
		nearest = parent
	}
	if nearest == dir {
		info, err := os.Stat(dir)
		if err != nil {
			s.err = err
			return s, nearest
		}
		s.exists, s.mode = info.IsDir(), info.Mode()
		if !info.IsDir() {
			s.err = fmt.Errorf("%q is not a folder", dir)
		}
	}
	return s, nearest
}

// Bounds below which a host gets a warning: a tenant's first build fills them.
const (
	minFreeBytes   = 1 << 30
	minMemoryBytes = 512 << 20
	// sunPath is the longest socket path on FreeBSD; longestSocket is the longest name of ours.
	sunPath       = 103
	longestSocket = "operator.sock"
)

// judgeIsolation warns in capitals: this must not be overlooked.
func judgeIsolation(o Options) Check {
	if o.Isolation == isolationNone {
		return warn("isolation", `for real use, remove isolation = "none" from the configuration, or --isolation=none`,
			"ISOLATION IS NONE: TENANTS' COMMANDS RUN AS THIS USER WITH ALL OF ITS RIGHTS")
	}
	return pass("isolation", "%s", o.Isolation)
}

// judgeStorage judges the state folder; visible are the folders that sandboxes see.
func judgeStorage(dir string, s storage, visible []string) []Check {
	const name = "state folder"
	if s.err != nil {
		return []Check{fail(name, "name a usable folder in host.state_dir", "cannot use %q: %v", dir, s.err)}
	}
	var checks []Check
	switch below := firstBelow(s.resolved, visible); {
	case below != "":
		checks = append(checks, fail(name, "choose a folder elsewhere in host.state_dir, such as /var/db/playground",
			"%q is below %s, which every sandbox can read", s.resolved, below))
	case s.exists && s.mode.Perm()&0o002 != 0:
		checks = append(checks, fail(name, "chmod o-w "+s.resolved, "anybody may write %q", s.resolved))
	case !s.exists:
		checks = append(checks, pass(name, "%q does not exist yet", dir))
	default:
		checks = append(checks, pass(name, "%q", s.resolved))
	}
	if s.noexec {
		checks = append(checks, warn("executables", "mount it without noexec, or choose another host.state_dir",
			"the filesystem of %q is mounted noexec: tenants cannot run programs that they build", s.resolved))
	}
	if s.freeBytes < minFreeBytes {
		return append(checks, warn("disk", "free some space on the filesystem of "+s.resolved, "%s free", size(s.freeBytes)))
	}
	return append(checks, pass("disk", "%s free", size(s.freeBytes)))
}

// firstBelow returns the first of folders that path is in or below, or "".
func firstBelow(path string, folders []string) string {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return f
		}
	}
	return ""
}

// judgeSockets judges the length of the run folder's path.
func judgeSockets(runDir string) Check {
	if n := len(filepath.Join(runDir, longestSocket)); n > sunPath {
		return fail("sockets", "choose a shorter host.run_dir", "socket paths in %q have up to %d bytes; the kernel takes %d", runDir, n, sunPath)
	}
	return pass("sockets", "in %q", runDir)
}

// judgeMemory judges what memory there is; 0 means that it could not be found out.
func judgeMemory(bytes uint64, what string) Check {
	switch {
	case bytes == 0:
		return warn("memory", "", "%s memory is unknown", what)
	case bytes < minMemoryBytes:
		return warn("memory", "free some memory, or lower resources.memory and jobs.active_per_host", "%s %s", size(bytes), what)
	}
	return pass("memory", "%s %s", size(bytes), what)
}

// Remedies for a wrong clock.
const (
	freebsdClock = "sysrc ntpd_enable=YES ntpd_sync_on_start=YES && service ntpd restart"
	linuxClock   = "timedatectl set-ntp true"
)

// earliest is a time before which no host can run this program.
func earliest() time.Time { return time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC) }

// judgeClock refuses a clock that was never set: tokens, records and certificates bear its times. newest is the newest time
// seen in the state folder: a clock behind it went back since.
func judgeClock(now, newest time.Time, remedy string) Check {
	const name = "clock"
	const tolerance = 10 * time.Minute
	switch {
	case now.Before(earliest()):
		return fail(name, remedy, "%s is in the past", now.UTC().Format(time.RFC3339))
	case newest.After(now.Add(tolerance)):
		return warn(name, remedy, "it is %v behind the newest file of the state folder", newest.Sub(now).Round(time.Minute))
	}
	return pass(name, "%s", now.UTC().Format(time.RFC3339))
}

// newestIn returns the newest change of a folder or of what lies in it directly, and the zero time where there is none.
func newestIn(dir string) time.Time {
	var newest time.Time
	entries, err := os.ReadDir(dir)
	if err != nil {
		return newest
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}

// size writes a number of bytes for people.
func size(bytes uint64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// release reads the first two numbers of a kernel's release, such as "6.18.44-generic" or "13.2-RELEASE-p4".
func release(s string) (major, minor int, ok bool) {
	first, rest, found := strings.Cut(s, ".")
	if !found {
		return 0, 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(rest[:end])
	return major, minor, err == nil
}

// atLeast reports whether release s is major.minor or later; known is false if s cannot be read.
func atLeast(s string, major, minor int) (later, known bool) {
	a, b, ok := release(s)
	return ok && (a > major || (a == major && b >= minor)), ok
}
