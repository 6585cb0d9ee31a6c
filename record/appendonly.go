package record

import "fmt"

// flagWorth says what a sappnd flag that is set keeps out, by the kind of filesystem and kern.securelevel (security(7)).
func flagWorth(fstype string, securelevel int) Enforcement {
	switch {
	case fstype != "ufs" && fstype != "zfs": // tmpfs looks at the flag when a file is opened, not when it is written
		return Enforcement{Reason: fmt.Sprintf("sappnd is set, and on %.16s it does not stop every write", fstype)}
	case securelevel < 1:
		return Enforcement{Enforced: true, Reason: fmt.Sprintf("sappnd is set; root can clear it at securelevel %d", securelevel)}
	case fstype == "zfs": // neither zfs(8) rollback nor destroy asks for the securelevel
		return Enforcement{Enforced: true, Reason: fmt.Sprintf("sappnd is set and cannot be cleared at securelevel %d; root can still roll the dataset back", securelevel)}
	}
	return Enforcement{Enforced: true, Reason: fmt.Sprintf("sappnd is set and cannot be cleared at securelevel %d", securelevel)}
}
