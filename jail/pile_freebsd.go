package jail

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	appendOnlyReason    = "the sappnd flag is set; at securelevel 1 or more nobody can clear it"
	notAppendOnlyReason = "not enforced: the sappnd flag could not be set (chflags(1))"
)

// sfAppend is SF_APPEND (sappnd) of sys/stat.h.
const sfAppend = 0x40000

// setAppendOnly sets or clears sappnd where the kernel lets us; appendOnly tells whether it did.
func setAppendOnly(path string, on bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return
	}
	flags := int(st.Flags) &^ sfAppend
	if on {
		flags |= sfAppend
	}
	unix.Chflags(path, flags)
}

func hasAppendFlag(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Flags&sfAppend != 0
}

func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
