package record

import "fmt"

// flagWorth says what a sappnd flag that is set keeps out, by the kind of filesystem and kern.securelevel (security(7)).
func flagWorth(fstype string, securelevel int) Enforcement {
	switch {
	case fstype == "zfs": // it asks for the flag in writes only (zfs_vnops_os.c zfs_setattr, zfs_acl.c zfs_zaccess_delete)
		return Enforcement{Reason: "sappnd is set, and on zfs such a file can be cut, renamed or removed all the same"}
	case fstype != "ufs": // tmpfs looks at the flag when a file is opened, not when it is written
		return Enforcement{Reason: fmt.Sprintf("sappnd is set, and on %.16s it does not stop every write", fstype)}
	case securelevel < 1:
		return Enforcement{Enforced: true, Reason: fmt.Sprintf("sappnd is set; root can clear it at securelevel %d", securelevel)}
	}
	return Enforcement{Enforced: true, Reason: fmt.Sprintf("sappnd is set and cannot be cleared at securelevel %d", securelevel)}
}
