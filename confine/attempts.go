package confine

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrnoName is the name of an error as reports have it: "none" for success.
func ErrnoName(err error) string {
	if err == nil {
		return "none"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if errno == 0 {
			return "none"
		}
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

// Try makes an attempt of what came of one.
func Try(layer Layer, name string, err error, expect ...syscall.Errno) Attempt {
	names := make([]string, len(expect))
	for i, e := range expect {
		names[i] = ErrnoName(e)
	}
	got := ErrnoName(err)
	return Attempt{Layer: layer, Name: name, Expect: strings.Join(names, "|"), Errno: got, Pass: slices.Contains(names, got)}
}

// saw makes an attempt of something that is read and not refused.
func saw(layer Layer, name, expect, got string) Attempt {
	return Attempt{Layer: layer, Name: name, Expect: expect, Errno: got, Pass: expect == got}
}
