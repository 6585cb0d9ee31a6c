package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"playground/fault"
)

// A Template is the system that FreeBSD sandboxes are made from.
type Template struct {
	Name    string    `json:"name"`
	Storage Storage   `json:"storage"`
	Source  string    `json:"source"`  // the archive or folder it came from
	Release string    `json:"release"` // of its userland, as freebsd-version(1) says it; "" if not known
	Created time.Time `json:"created"`
	UsedBy  []string  `json:"used_by,omitempty"` // tenants; filled by List
}

// Templates keeps the templates of a state folder. Its methods are for the operator, one at a time.
type Templates struct {
	store   store
	storage Storage
	zfs     zfs
	run     runner
	now     func() time.Time
}

// NewTemplates returns the templates below the state folder of opts.
func NewTemplates(opts Options) (*Templates, error) {
	t := &Templates{store: store{dir: opts.StateDir}, storage: opts.Storage, run: runLong, now: time.Now}
	switch t.storage {
	case "":
		t.storage = StorageDir
	case StorageDir:
	case StorageZFS:
		if err := validDataset(opts.Dataset); err != nil {
			return nil, err
		}
		t.zfs = zfs{runProgram, opts.Dataset}
	default:
		return nil, fault.New(fault.Invalid, "storage %q is not known", t.storage).WithHint("use dir or zfs")
	}
	return t, nil
}

// Create makes a template, all or nothing, from an archive such as base.txz of a release, or from a folder that holds a
// system. The folder may be "/": the host's own system is taken then, without its accounts, keys, packages and data.
func (t *Templates) Create(ctx context.Context, name, source string) (Template, error) {
	if err := validTemplateName(name); err != nil {
		return Template{}, err
	}
	source, err := filepath.Abs(source)
	if err != nil {
		return Template{}, err
	}
	info, err := os.Stat(source)
	if err != nil {
		return Template{}, fault.Wrap(fault.Invalid, err, "cannot make template %q", name).WithHint("name a base.txz of a FreeBSD release, or a folder that holds a system")
	}
	if err := os.MkdirAll(t.store.templates(), 0o700); err != nil {
		return Template{}, fmt.Errorf("cannot make template folder: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(t.store.templates(), name)); err == nil {
		return Template{}, fault.New(fault.Exists, "there is a template %q already", name).WithHint("playground template list")
	}
	making := filepath.Join(t.store.templates(), makingPrefix+name)
	if err := t.discard(ctx, making, name); err != nil { // what a crash left
		return Template{}, err
	}
	tpl := Template{Name: name, Storage: t.storage, Source: source, Created: t.now().UTC().Truncate(time.Second)}
	err = t.make(ctx, making, &tpl, info.IsDir())
	if err == nil {
		err = os.Rename(making, filepath.Join(t.store.templates(), name))
	}
	if err == nil {
		err = syncDir(t.store.templates())
	}
	if err != nil {
		// The context may be what ended it; clearing up must still happen.
		return Template{}, errors.Join(full(err), t.discard(context.WithoutCancel(ctx), making, name))
	}
	return tpl, nil
}

func (t *Templates) make(ctx context.Context, making string, tpl *Template, folder bool) error {
	root := filepath.Join(making, "root")
	if err := os.Mkdir(making, 0o700); err != nil {
		return err
	}
	if t.storage == StorageZFS {
		if err := t.createDataset(ctx, tpl.Name, root); err != nil {
			return err
		}
	}
	if err := t.populate(ctx, root, tpl.Source, folder); err != nil {
		return err
	}
	if err := finishTemplate(root); err != nil {
		return err
	}
	tpl.Release = release(root)
	if t.storage == StorageZFS {
		if err := t.sealDataset(ctx, tpl.Name); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(tpl, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(making, "template.json"), append(data, '\n'), 0o600)
}

// populate fills root, which on ZFS exists already.
func (t *Templates) populate(ctx context.Context, root, source string, folder bool) error {
	switch {
	case !folder:
		if err := os.MkdirAll(root, 0o755); err != nil {
			return err
		}
		// Flags stay out: schg files could not be removed again at securelevel 1.
		_, err := t.run(ctx, "/usr/bin/tar", "-x", "-p", "--no-fflags", "-f", source, "-C", root)
		return err
	case source == "/":
		return copyHost(ctx, t.run, root, t.store.dir)
	}
	state, err := filepath.EvalSymlinks(t.store.dir)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(source, state); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return fault.New(fault.Invalid, "folder %q holds the state folder", source).WithHint("choose a folder that holds only a system")
	}
	if t.storage == StorageZFS {
		return copyChildren(ctx, source, root, nil)
	}
	return copyTree(ctx, source, root, nil)
}

// places are the folders that a jail's filesystems are mounted on, and those that every tenant has.
var places = [...]struct {
	path string
	mode fs.FileMode
}{
	{"dev", 0o555}, {"etc", 0o755}, {"home", 0o755}, {"pile", 0o755}, {"root", 0o750}, {"shared", 0o755},
	{"tmp", 0o777 | fs.ModeSticky}, {"usr/local", 0o755}, {"var", 0o755}, {"workspace", 0o755},
}

// finishTemplate checks that root holds a system, and makes the places where a jail's filesystems go plain folders.
func finishTemplate(root string) error {
	for _, need := range []string{"bin/sh", "etc", "usr/bin", "var"} {
		if _, err := os.Stat(filepath.Join(root, need)); err != nil {
			return fault.New(fault.Invalid, "the source holds no FreeBSD system: there is no /%s in it", need).
				WithHint("use base.txz of a release, or a folder where it was unpacked")
		}
	}
	if err := os.Chmod(root, 0o755); err != nil { // whatever the umask
		return err
	}
	for _, p := range places {
		path := filepath.Join(root, p.path)
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			continue
		} else if err == nil { // such as /home -> usr/home
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(path, p.mode); err != nil {
			return err
		}
	}
	return nil
}

var userlandVersion = regexp.MustCompile(`(?m)^USERLAND_VERSION="([0-9A-Za-z._-]{1,64})"$`)

// release reads the version of a system that is not running.
func release(root string) string {
	data, err := os.ReadFile(filepath.Join(root, "bin/freebsd-version"))
	if err != nil {
		return ""
	}
	if m := userlandVersion.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

// List describes every template, by name.
func (t *Templates) List(context.Context) ([]Template, error) {
	entries, err := os.ReadDir(t.store.templates())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list templates: %w", err)
	}
	var list []Template
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		tpl, err := t.store.template(e.Name())
		if err != nil {
			return nil, err
		}
		if tpl.UsedBy, err = t.store.usedBy(tpl.Name); err != nil {
			return nil, err
		}
		list = append(list, tpl)
	}
	return list, nil
}

// Destroy removes a template that no sandbox stands on; otherwise fault.Busy.
func (t *Templates) Destroy(ctx context.Context, name string) error {
	tpl, err := t.store.template(name)
	if err != nil {
		return err
	}
	users, err := t.store.usedBy(name)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fault.New(fault.Busy, "template %q is used by %d sandboxes", name, len(users)).WithHint("destroy them first: %s", strings.Join(users[:min(len(users), 5)], ", "))
	}
	if tpl.Storage != t.storage {
		return fault.New(fault.Invalid, "template %q is for storage %q, which is not configured", name, tpl.Storage)
	}
	if t.storage == StorageZFS { // before the rename: what is refused then leaves the template as it was
		if err := t.destroyDataset(ctx, name); err != nil {
			return err
		}
	}
	// Renamed first, so that nobody makes a sandbox from half a template.
	gone := filepath.Join(t.store.templates(), makingPrefix+name)
	if err := os.Rename(filepath.Join(t.store.templates(), name), gone); err != nil {
		return fmt.Errorf("cannot remove template %q: %w", name, err)
	}
	return t.discard(ctx, gone, name)
}

// discard removes a template's folder and dataset, of which there may be neither.
func (t *Templates) discard(ctx context.Context, dir, name string) error {
	if t.storage == StorageZFS {
		if err := t.destroyDataset(ctx, name); err != nil {
			return err
		}
	}
	if err := t.store.unmounted(dir); err != nil {
		return err
	}
	return removeTree(dir)
}
