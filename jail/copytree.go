package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A copier copies a folder of the host's as a template or a tenant gets it: files, folders and links with their owners and
// modes, and times of files. Names of one file stay names of one file: /rescue has 150 names for one program. File flags
// are left out on purpose: at securelevel 1 nothing flagged schg could be removed again. Sockets, pipes and devices are left
// out too.
type copier struct {
	from, to string
	skip     func(rel string) bool
	root     bool             // we may give files away
	names    map[inode]string // the first copy of every file that has several names
	dirs     []madeDir
}

type inode struct{ dev, ino uint64 }

type madeDir struct {
	path string
	info fs.FileInfo
}

// copyTree copies the folder from to to, which must not exist. Skip, if not nil, leaves out a path relative to from.
func copyTree(ctx context.Context, from, to string, skip func(rel string) bool) error {
	c := &copier{from: from, to: to, skip: skip, root: os.Geteuid() == 0, names: make(map[inode]string)}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return c.visit(path, d)
	})
	if err != nil {
		return err
	}
	// Modes of folders come last, the innermost first, so that one without write permission can be filled.
	for i := len(c.dirs) - 1; i >= 0; i-- {
		if err := c.own(c.dirs[i].path, c.dirs[i].info); err != nil {
			return err
		}
		if err := os.Chmod(c.dirs[i].path, c.dirs[i].info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) visit(path string, d fs.DirEntry) error {
	rel, err := filepath.Rel(c.from, path)
	if err != nil {
		return err
	}
	if c.skip != nil && rel != "." && c.skip(rel) {
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := filepath.Join(c.to, rel)
	switch {
	case d.IsDir():
		c.dirs = append(c.dirs, madeDir{target, info})
		return os.Mkdir(target, 0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if err := os.Symlink(link, target); err != nil {
			return err
		}
		return c.own(target, info)
	case info.Mode().IsRegular():
		return c.file(path, target, info)
	}
	return nil
}

func (c *copier) file(path, target string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("internal error: no stat of %q", path)
	}
	id := inode{uint64(st.Dev), uint64(st.Ino)}
	if first, ok := c.names[id]; ok {
		return os.Link(first, target)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if st.Nlink > 1 {
		c.names[id] = target
	}
	// The owner first: changing it clears setuid.
	if err := c.own(target, info); err != nil {
		return err
	}
	if err := os.Chmod(target, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(target, info.ModTime(), info.ModTime())
}

func (c *copier) own(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !c.root {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
