package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// removeTree removes a folder in which a tenant did as it liked, and in which nothing of the tenant runs any more: folders
// without permissions are opened up, links are never followed, and no depth of folders is too deep, because each one's
// subfolders are first moved to the top. (os.RemoveAll keeps a descriptor for every level, and would take all
// that the daemon may have.)
func removeTree(path string) error {
	top, err := openFolder(unix.AT_FDCWD, path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open %q: %w", path, err)
	}
	defer top.Close()
	if err := flatten(top); err != nil {
		return fmt.Errorf("cannot empty %q: %w", path, err)
	}
	return os.Remove(path)
}

// flatten empties the folder top. Each round handles the folders that are directly in it.
func flatten(top *os.File) error {
	moved := 0
	for {
		names, err := readNames(top)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := empty(top, name, &moved); err != nil {
				return err
			}
		}
	}
}

// empty removes one entry of top, after moving what folders it holds to top under new names.
func empty(top *os.File, name string, moved *int) error {
	unlock(int(top.Fd()), name)
	err := unix.Unlinkat(int(top.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	dir, err := openFolder(int(top.Fd()), name)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, child := range names {
		unlock(int(dir.Fd()), child)
		if unix.Unlinkat(int(dir.Fd()), child, 0) == nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), child, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			// Moving a folder changes its "..", for which it must be writable itself.
			unix.Fchmodat(int(dir.Fd()), child, 0o700, 0)
		}
		for {
			*moved++
			err := unix.Renameat(int(dir.Fd()), child, int(top.Fd()), ".moved-"+strconv.Itoa(*moved))
			if err == nil {
				break
			}
			if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTDIR) { // the name is taken
				return err
			}
		}
	}
	return unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR)
}

// openFolder opens a folder that may have no permissions. It is not a link and cannot become one: nothing of the tenant runs.
func openFolder(at int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	unlock(at, name)
	fd, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		unix.Fchmodat(at, name, 0o700, 0)
		fd, err = unix.Openat(at, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, 0o700); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Base(name)), nil
}

// readNames reads a folder's entries from the beginning.
func readNames(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}
