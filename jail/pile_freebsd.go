package jail

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notAppendOnlyReason says why the probe wrote where it should not have been able to.
const notAppendOnlyReason = "the sappnd flag could not be set (chflags(1))"

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

// judgeAppendOnly says what a set sappnd flag is worth, from the filesystem and the securelevel as they are.
func judgeAppendOnly(path string) AppendOnly {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return AppendOnly{Reason: "not known: the pile's filesystem cannot be asked"}
	}
	level, err := unix.SysctlUint32("kern.securelevel")
	if err != nil {
		return AppendOnly{Reason: "not known: the securelevel cannot be read"}
	}
	return flagWorth(cString(st.Fstypename[:]), int(int32(level)))
}

// unlock takes away what a tenant's root may set on its own files even where it may not set the system's flags
// (chflags(2)): uchg, uappnd and uunlnk would keep its storage from being removed. A link is not followed.
func unlock(at int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Flags&ufKeepers == 0 {
		return
	}
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return
	}
	// If it fails, removing the file tells.
	unix.Syscall6(unix.SYS_CHFLAGSAT, uintptr(at), uintptr(unsafe.Pointer(p)), uintptr(st.Flags&^ufKeepers), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
}

// ufKeepers are UF_IMMUTABLE, UF_APPEND and UF_NOUNLINK of sys/stat.h.
const ufKeepers = 0x2 | 0x4 | 0x10
