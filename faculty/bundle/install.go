package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
	"playground/jail"
)

// An Installation is which cohorts of a bundle a tenant has: in its home, in faculties/NAME/FINGERPRINT, with the links "current"
// and, where there was one before, "previous".
type Installation struct {
	Tenant   string `json:"tenant"`
	Sandbox  string `json:"sandbox"` // its id: a later tenant of this name has another, and nothing yet
	Name     string `json:"name"`
	Current  string `json:"current"`
	Previous string `json:"previous,omitempty"`
}

// Home is the folder, inside a tenant's sandbox, that executables of a bundle are run from.
func Home(tenant, name string) string { return "/home/" + tenant + "/faculties/" + name + "/current" }

// Scripts that run in the tenant's sandbox. $1 is the bundle's folder there. What was cut off is made whole by doing all again.
const (
	// prepare makes an empty folder for the executables.
	prepare = `set -eu; umask 022; rm -rf "$1/.new"; mkdir -p "$1/.new"`
	// piece appends to executable $2; the first piece of one makes it.
	piece = `set -eu; exec cat >>"$1/.new/$2"`
	// check compares executable $3 in folder $2 with its SHA-256 $4 and makes it one.
	check = `set -eu; f="$1/$2/$3"; [ -f "$f" ]
if command -v sha256sum >/dev/null; then sum=$(sha256sum <"$f"); else sum=$(sha256 <"$f"); fi
[ "${sum%% *}" = "$4" ] || { echo "its SHA-256 is ${sum%% *}" >&2; exit 4; }
chmod 0555 "$f"`
	// finish gives the folder its name, $2, when its files are on disk. GNU's sync(1) takes their names; FreeBSD's syncs all.
	finish = `set -eu; sync "$1/.new"/*; rm -rf "$1/$2"; mv "$1/.new" "$1/$2"`
	// point makes the link named $3 lead to $2, by rename: there is no moment without one. mv(1) would move into the folder
	// that a link leads to; GNU's says -T against that and FreeBSD's -h. Where $2 is gone, so is the link afterwards.
	point = `set -eu; cd "$1"; [ -d "$2" ] || { rm -f "$3"; exit 3; }; rm -f ".$3.new"; ln -s "$2" ".$3.new"
mv -f -T ".$3.new" "$3" 2>/dev/null || mv -f -h ".$3.new" "$3"`
)

// Install puts a cohort into a tenant's home and makes it the current one. Where it is whole and current already, nothing is
// changed. A worker that runs the former one goes on with it until it is restarted.
func (s *Store) Install(ctx context.Context, host Host, c Cohort, tenant string) (Installation, error) {
	return s.change(ctx, host, c.Name, tenant, func(now Installation) (Installation, error) {
		if err := s.copyIn(ctx, host, c, tenant); err != nil {
			return now, err
		}
		if now.Current != c.Fingerprint {
			now.Previous, now.Current = now.Current, c.Fingerprint
		}
		return now, nil
	})
}

// Rollback makes a tenant's previous cohort of a bundle the current one, and the other way round.
func (s *Store) Rollback(ctx context.Context, host Host, name, tenant string) (Installation, error) {
	if err := ValidName(name); err != nil {
		return Installation{}, err
	}
	return s.change(ctx, host, name, tenant, func(now Installation) (Installation, error) {
		if now.Previous == "" {
			return now, fault.New(fault.NotFound, "tenant %q has no previous build of bundle %q", tenant, name).
				WithHint("playground faculty install %s@FINGERPRINT %s puts any build there", name, tenant)
		}
		now.Current, now.Previous = now.Previous, now.Current
		return now, nil
	})
}

// change makes one change of a tenant's installation, in its open sandbox and under its lock. What the store remembers is written
// after the links, so that a change that was cut off is made again by repeating it.
func (s *Store) change(ctx context.Context, host Host, name, tenant string, f func(Installation) (Installation, error)) (Installation, error) {
	sandbox, err := host.Sandboxes.Open(ctx, tenant, jail.OpenOptions{})
	if err != nil {
		return Installation{}, err
	}
	defer func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		_, _ = host.Sandboxes.Close(limit, tenant) // a handle that stays expires by itself
	}()
	dir := filepath.Join(s.dir, ".installed", tenant) // the name of a tenant that exists
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Installation{}, fault.Wrap(fault.Unavailable, err, "cannot keep what is installed")
	}
	lock, err := waitLock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return Installation{}, fault.Wrap(fault.Unavailable, err, "cannot lock the installation")
	}
	defer func() { _ = lock.Close() }()
	path := filepath.Join(dir, name)
	now, err := readInstallation(path, tenant, name)
	if err != nil {
		return now, err
	}
	if now.Sandbox != sandbox.ID {
		now = Installation{Tenant: tenant, Sandbox: sandbox.ID, Name: name}
	}
	next, err := f(now)
	if err != nil {
		return now, err
	}
	if err := host.link(ctx, &next); err != nil {
		return now, err
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = writeSynced(path, append(data, '\n'), 0o600)
	}
	return next, err
}

// link makes the links of an installation.
func (h Host) link(ctx context.Context, i *Installation) error {
	base := folder(i.Tenant, i.Name)
	if err := h.mustRun(ctx, i.Tenant, point, nil, base, i.Current, "current"); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "cannot make build %s the current one", short(i.Current)).
			WithHint("the tenant may have removed it: playground faculty install %s@%s %s", i.Name, short(i.Current), i.Tenant)
	}
	// What a tenant removed cannot be gone back to, and is no reason to keep it from what is new.
	done, err := h.execIn(ctx, i.Tenant, point, nil, 1024, base, cmp.Or(i.Previous, "none"), "previous")
	if err == nil && *done.ExitCode != 0 {
		i.Previous = ""
	}
	return err
}

func folder(tenant, name string) string { return "/home/" + tenant + "/faculties/" + name }

func readInstallation(path, tenant, name string) (Installation, error) {
	now := Installation{Tenant: tenant, Name: name}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &now)
	}
	if err != nil {
		return now, fault.Wrap(fault.Unavailable, err, "cannot read what is installed").WithHint("remove %s", path)
	}
	return now, nil
}

// has reports whether a tenant has a cohort, byte for byte.
func (h Host) has(ctx context.Context, tenant string, c Cohort) (bool, error) {
	for _, b := range c.Binaries {
		done, err := h.execIn(ctx, tenant, check, nil, 1024, folder(tenant, c.Name), c.Fingerprint, b.Name, b.SHA256)
		if err != nil || *done.ExitCode != 0 {
			return false, err
		}
	}
	return true, nil
}

// copyIn copies a cohort's executables unless the tenant has them.
func (s *Store) copyIn(ctx context.Context, host Host, c Cohort, tenant string) error {
	base := folder(tenant, c.Name)
	if whole, err := host.has(ctx, tenant, c); whole || err != nil {
		return err
	}
	if err := host.mustRun(ctx, tenant, prepare, nil, base); err != nil {
		return err
	}
	for _, b := range c.Binaries {
		if err := s.copyOne(ctx, host, c, b, tenant); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "cannot install %q for tenant %q", b.Name, tenant).WithHint("%s", fault.HintOf(err))
		}
	}
	return host.mustRun(ctx, tenant, finish, nil, base, c.Fingerprint)
}

func (s *Store) copyOne(ctx context.Context, host Host, c Cohort, b Binary, tenant string) error {
	f, err := os.Open(filepath.Join(c.Dir, b.Name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	base, buf := folder(tenant, c.Name), make([]byte, host.ChunkSize)
	for {
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			if err := host.mustRun(ctx, tenant, piece, buf[:n], base, b.Name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return host.mustRun(ctx, tenant, check, nil, base, ".new", b.Name, b.SHA256)
}

// mustRun is execIn for a script that must succeed.
func (h Host) mustRun(ctx context.Context, tenant, script string, stdin []byte, args ...string) error {
	done, err := h.execIn(ctx, tenant, script, stdin, 1024, args...)
	if err != nil {
		return err
	}
	if *done.ExitCode != 0 {
		said := strings.TrimSpace(string(done.Stderr.Head) + " " + strings.Join(done.Hints, "; "))
		return fault.New(fault.Unavailable, "a command in the sandbox failed with %s: %s", "exit status "+strconv.Itoa(*done.ExitCode), said)
	}
	return nil
}

// Installations lists what the store knows to be installed in the sandboxes that there are. Where those cannot be listed, in any.
// With an error it is not the whole list: something could not be read.
func (s *Store) Installations(ctx context.Context, host Host) ([]Installation, error) {
	boxes, unknown := host.Sandboxes.List(ctx)
	root := filepath.Join(s.dir, ".installed")
	tenants, err := folders(root, namePattern)
	if err != nil {
		return nil, err
	}
	var all []Installation
	var errs []error
	for _, tenant := range tenants {
		entries, err := os.ReadDir(filepath.Join(root, tenant))
		if err != nil {
			errs = append(errs, fault.Wrap(fault.Unavailable, err, "cannot list what is installed"))
		}
		for _, e := range entries {
			if !namePattern.MatchString(e.Name()) {
				continue
			}
			one, err := readInstallation(filepath.Join(root, tenant, e.Name()), tenant, e.Name())
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if unknown != nil || slices.ContainsFunc(boxes, func(box jail.Sandbox) bool { return box.ID == one.Sandbox }) {
				all = append(all, one)
			}
		}
	}
	return all, errors.Join(errs...)
}
