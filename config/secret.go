package config

import (
	"bytes"
	"errors"
	"io"
	"os"
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
	// Without O_NONBLOCK, opening a fifo would wait for a writer for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK): // EMLINK is FreeBSD's word for it
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file: it must not be a symbolic link").
			WithHint("name the file itself")
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "cannot read private file")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	if err := private(f, uid); err != nil {
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
func private(f *os.File, uid int) error {
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
	if !owned(stat.Uid, uid) || uid != os.Geteuid() && int64(stat.Uid) != int64(uid) {
		return fault.New(fault.Invalid, "cannot read private file %q: it belongs to uid %d", f.Name(), stat.Uid).
			WithHint("chown it to root or to uid %d", uid)
	}
	return nil
}

// owned reports whether a file of uid is ours: root's, or the process's own.
func owned(uid uint32, self int) bool { return uid == 0 || int64(uid) == int64(self) }
