package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"playground/fault"
)

// maxSecret bounds a secret; the largest real ones are private keys of a few KiB.
const maxSecret = 64 << 10

// SecretFile reads a secret from a private file, without the line end that editors add.
func SecretFile(path string) ([]byte, error) {
	text, err := PrivateFile(path, maxSecret)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return nil, fault.New(fault.Invalid, "cannot read secret %q: it is empty", path)
	}
	return text, nil
}

// PrivateFile reads a file of at most so many bytes that nobody else can read or replace. It must be a regular file
// and no symbolic link, belong to root or to the process's user, and be closed to group and others; the checks are made
// on the opened file, so that nobody can exchange it in between. Errors never hold the content.
func PrivateFile(path string, most int64) ([]byte, error) {
	return PrivateFileOf(path, most, os.Geteuid())
}

// PrivateFileOf is PrivateFile as a process of that user would judge: root looks whether a daemon's files are as the daemon
// needs them. What is closed to all but its owner must then belong to that very user.
func PrivateFileOf(path string, most int64, uid int) ([]byte, error) {
	owners := []int{uid}
	if uid == os.Geteuid() {
		owners = append(owners, 0)
	}
	return readPrivate(path, most, reader{owners: owners})
}

// A reader says which private files are read.
type reader struct {
	owners  []int // whose they may be
	oneName bool  // the file has no hard link
}

// names are the owners, for a hint.
func (r reader) names() string {
	var names []string
	for _, uid := range r.owners {
		name := "uid " + strconv.Itoa(uid)
		if uid == 0 {
			name = "root"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

func readPrivate(path string, most int64, who reader) ([]byte, error) {
	// Without O_NONBLOCK, opening a fifo would wait for a writer for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK): // EMLINK is FreeBSD's word for it
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file: it must not be a symbolic link").
			WithHint("name the file itself")
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file").
			WithHint("run this as its owner; or, for a daemon, give the file with mode 0400 to uid %d, who must be able to enter its folder", os.Geteuid())
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	if err := private(f, who); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file")
	}
	if int64(len(text)) > most {
		return nil, fault.New(fault.Invalid, "cannot read private file %q: it is larger than %v", path, Bytes(most))
	}
	return text, nil
}

// private refuses a file that somebody else can read or replace.
func private(f *os.File, who reader) error {
	info, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read private file")
	}
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "cannot read private file %q: not a regular file", f.Name())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fault.New(fault.Invalid, "cannot read private file %q: its mode %#o opens it to others", f.Name(), perm).
			WithHint("chmod 600 %s", f.Name())
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fault.New(fault.Internal, "cannot read private file %q: its owner is unknown", f.Name())
	}
	if !slices.Contains(who.owners, int(stat.Uid)) {
		return fault.New(fault.Invalid, "cannot read private file %q: it belongs to uid %d", f.Name(), stat.Uid).
			WithHint("chown it to %s", who.names())
	}
	if who.oneName && stat.Nlink > 1 {
		return fault.New(fault.Invalid, "cannot read private file %q: it has more than one name (a hard link)", f.Name()).
			WithHint("copy it to a file of its own")
	}
	return nil
}
