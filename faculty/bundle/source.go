package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"playground/fault"
)

// Bounds of a source tree.
const (
	maxFiles      = 100_000
	maxSourceSize = 1 << 30
)

// A tree is an operator's source, read without ever leaving its folder: a link out of it is an error and not followed.
type tree struct {
	root *os.Root
	path string
}

func openTree(folder string) (tree, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return tree{}, fault.Wrap(fault.Invalid, err, "cannot read the source").WithHint("name the folder that holds it")
	}
	return tree{root, folder}, nil
}

func (t tree) close() { _ = t.root.Close() } // read only: nothing to lose

// ignored are what a build does not need and what changes without the source. In a second working tree ".git" is a file.
func ignored(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".jj":
		return true
	}
	return false
}

// fingerprint returns the name of what the recipe makes of the tree. With a folder to copy to, it is that of the copy, which
// is made meanwhile.
func (t tree) fingerprint(ctx context.Context, s *Spec, copyTo string) (string, error) {
	h := sha256.New()
	s.describe(h)
	w := walk{tree: t, hash: h, to: copyTo}
	err := fs.WalkDir(t.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return w.visit(name, entry, err)
	})
	if err != nil {
		return "", err
	}
	if w.files == 0 {
		return "", fault.New(fault.Invalid, "the source %q is empty", t.path)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// A walk is one pass over a tree, in the order of names.
type walk struct {
	tree
	hash  hash.Hash
	to    string
	files int
	size  int64
}

func (w *walk) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read the source")
	}
	if name == "." {
		return nil
	}
	if ignored(entry.Name()) {
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if w.files++; w.files > maxFiles {
		return fault.New(fault.TooLarge, "the source %q has more than %d files", w.path, maxFiles)
	}
	switch entry.Type() {
	case fs.ModeDir:
		fmt.Fprintf(w.hash, "folder %q\n", name)
		return w.mkdir(name)
	case fs.ModeSymlink:
		return w.link(name)
	case 0:
		return w.file(name)
	}
	return fault.New(fault.Invalid, "%q in the source is no file, folder or link", name).WithHint("remove it, or build from a clean checkout")
}

func (w *walk) mkdir(name string) error {
	if w.to == "" {
		return nil
	}
	folder := filepath.Join(w.to, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	return os.Chmod(folder, 0o755) // whatever the umask
}

// link takes a link along that stays in the tree wherever the tree lies. A ".." after a name is refused: the name could be
// another link, and the ".." would climb from where that leads.
func (w *walk) link(name string) error {
	target, err := w.root.Readlink(name)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read the source")
	}
	climbs := slices.Contains(strings.Split(strings.TrimLeft(target, "./"), "/"), "..")
	if path.IsAbs(target) || climbs || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fault.New(fault.Invalid, "the link %q in the source leads out of it, to %q", name, target).WithHint("replace it by what it names")
	}
	fmt.Fprintf(w.hash, "link %q %q\n", name, target)
	if w.to == "" {
		return nil
	}
	return os.Symlink(target, filepath.Join(w.to, name))
}

func (w *walk) file(name string) (err error) {
	f, err := w.root.Open(name)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read the source")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%q in the source is no plain file any more", name)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	content := sha256.New()
	out := io.Writer(content)
	if w.to != "" {
		target, err := os.OpenFile(filepath.Join(w.to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, target.Chmod(mode), target.Close()) }()
		out = io.MultiWriter(content, target)
	}
	size, err := io.Copy(out, io.LimitReader(f, maxSourceSize-w.size+1))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "cannot read %q in the source", name)
	}
	if w.size += size; w.size > maxSourceSize {
		return fault.New(fault.TooLarge, "the source %q is larger than %d MiB", w.path, maxSourceSize>>20)
	}
	fmt.Fprintf(w.hash, "file %q %#o %d %x\n", name, mode, size, content.Sum(nil))
	return nil
}
