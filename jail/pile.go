package jail

import "fmt"

// flagWorth says what the sappnd flag of a FreeBSD file is worth. No tenant can clear it in its jail (allow.nochflags); who
// can on the host depends on the securelevel and the filesystem.
func flagWorth(fstype string, securelevel int) AppendOnly {
	switch fstype {
	case "ufs":
	case "zfs": // it asks for the flag in writes only (zfs_vnops_os.c zfs_setattr, zfs_acl.c zfs_zaccess_delete)
		return AppendOnly{Reason: "on zfs a file with the sappnd flag can be cut, renamed or removed all the same"}
	default: // tmpfs checks the flag when a file is opened, not when it is written
		return AppendOnly{Reason: fmt.Sprintf("on %.16s the sappnd flag does not stop every write", fstype)}
	}
	if securelevel >= 1 {
		return AppendOnly{Enforced: true, Reason: fmt.Sprintf("the sappnd flag is set and cannot be cleared at securelevel %d", securelevel)}
	}
	return AppendOnly{Enforced: true, Reason: fmt.Sprintf("the sappnd flag is set; the tenant cannot clear it, host root can at securelevel %d", securelevel)}
}
