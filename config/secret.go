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

// SecretFile reads a secret from the file at path, without the line end that editors add. The file must be a regular file
// and no symbolic link, belong to root or to the process's user, and be closed to group and others; the checks are made
// on the opened file, so that nobody can exchange it in between. Errors never hold the content.
func SecretFile(path string) ([]byte, error) {
	// Without O_NONBLOCK, opening a fifo would wait for a writer for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK): // EMLINK is FreeBSD's word for it
		return nil, fault.Wrap(fault.Invalid, err, "cannot read secret: it must not be a symbolic link").
			WithHint("name the file itself")
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "cannot read secret")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	if err := private(f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read secret")
	}
	if len(text) > maxSecret {
		return nil, fault.New(fault.Invalid, "cannot read secret %q: it is larger than %v", path, Bytes(maxSecret))
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return nil, fault.New(fault.Invalid, "cannot read secret %q: it is empty", path)
	}
	return text, nil
}

// private refuses a file that somebody else can read or replace.
func private(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read secret")
	}
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "cannot read secret %q: not a regular file", f.Name())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fault.New(fault.Invalid, "cannot read secret %q: its mode %#o opens it to others", f.Name(), perm).
			WithHint("chmod 600 %s", f.Name())
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fault.New(fault.Internal, "cannot read secret %q: its owner is unknown", f.Name())
	}
	if !owned(stat.Uid, os.Geteuid()) {
		return fault.New(fault.Invalid, "cannot read secret %q: it belongs to uid %d", f.Name(), stat.Uid).
			WithHint("chown it to root or to uid %d", os.Geteuid())
	}
	return nil
}

// owned reports whether a file of uid is ours: root's, or the process's own.
func owned(uid uint32, self int) bool { return uid == 0 || int64(uid) == int64(self) }
