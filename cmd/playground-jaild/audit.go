package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// auditForm is how the record log names its audit files.
var auditForm = regexp.MustCompile(`^records-\d{4}-\d{2}-\d{2}-\d{6}\.jsonl$`)

// sealer returns what makes a file of the record log's audit folder append-only for good: only root may set sappnd. The folder is
// the transport's, who may have put anything there: only a plain file that is its own, and has no other name, is touched.
func sealer(folder string, owner func() int) func(string) error {
	return func(file string) error {
		if !auditForm.MatchString(file) {
			return fault.New(fault.Invalid, "%q is not the name of an audit file", file)
		}
		fd, err := openPlain(filepath.Join(folder, file), owner())
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return appendOnly(fd)
	}
}

// openPlain opens a file that owner has, and that has one name.
func openPlain(path string, owner int) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, fault.New(fault.NotFound, "there is no audit file %q", path)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot open audit file %q: %w", path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		err = fmt.Errorf("cannot look at audit file %q: %w", path, err)
	} else if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || int(st.Uid) != owner {
		err = fault.New(fault.Denied, "%q is not a plain file of user id %d with one name", path, owner)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
