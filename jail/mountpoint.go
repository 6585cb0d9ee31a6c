package jail

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// A host mount follows symbolic links in its path, so a link that a tenant left there would send it elsewhere. These
// functions walk a tenant's tree one component at a time and never follow one. What was walked stays as it is, because
// nothing of the tenant runs while its sandbox is put together.

// dirFlags open a folder itself, never what a link points to.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openBeneath opens the folder rel below root, making what is missing of it with mode. Root is the host's own.
func openBeneath(root, rel string, mode uint32) (int, error) {
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open %q: %w", root, err)
	}
	for _, name := range components(rel) {
		next, err := openAt(dir, name, mode)
		unix.Close(dir)
		if err != nil {
			return -1, notPlain(filepath.Join(root, rel), err)
		}
		dir = next
	}
	return dir, nil
}

func openAt(dir int, name string, mode uint32) (int, error) {
	next, err := unix.Openat(dir, name, dirFlags, 0)
	if !errors.Is(err, unix.ENOENT) || mode == 0 {
		return next, err
	}
	if err := unix.Mkdirat(dir, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	next, err = unix.Openat(dir, name, dirFlags, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(next, mode); err != nil { // whatever the umask
		unix.Close(next)
		return -1, err
	}
	return next, nil
}

// components splits a path; "..", which could climb out, becomes nothing by cleaning it as an absolute path.
func components(rel string) []string {
	rel = strings.Trim(filepath.Clean("/"+rel), "/")
	if rel == "" {
		return nil
	}
	return strings.Split(rel, "/")
}

// notPlain explains the errors of a walk that met a link or a file.
func notPlain(path string, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EMLINK) { // EMLINK: O_NOFOLLOW of FreeBSD
		return fault.Wrap(fault.Unavailable, err, "%q is a link or a file where a folder is needed", path).
			WithHint("something in the sandbox replaced it: remove it on the host, and open the session again")
	}
	return fmt.Errorf("cannot reach %q: %w", path, err)
}

// makeMountPoint makes the folder rel below root, or checks that it is one, without following a link.
func makeMountPoint(root, rel string) error {
	fd, err := openBeneath(root, rel, 0o755)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// checkMountFile checks that rel below root is a plain file with one name: the kernel covers no other (mount_nullfs(8)).
func checkMountFile(root, rel string) error {
	path := filepath.Join(root, rel)
	dir, err := openBeneath(root, filepath.Dir(rel), 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, filepath.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("cannot reach %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return fault.New(fault.Unavailable, "%q is not a plain file with one name", path)
	}
	return nil
}

// writeBeneath makes the file rel below root with data, unless something is there already: that is the tenant's own choice.
func writeBeneath(root, rel string, data []byte, mode uint32) error {
	dir, err := openBeneath(root, filepath.Dir(rel), 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, filepath.Base(rel), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot make %q: %w", filepath.Join(root, rel), err)
	}
	err = unix.Fchmod(fd, mode) // whatever the umask
	for len(data) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, data)
		data = data[max(n, 0):]
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		err = errors.Join(err, unix.Unlinkat(dir, filepath.Base(rel), 0))
	}
	return err
}
