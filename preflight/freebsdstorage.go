package preflight

import "errors"

// Storages, as package jail names them.
const (
	storageDir = "dir"
	storageZFS = "zfs"
)

// judgeQuota says whether a tenant's disk use is bounded. Quotas of UFS count uids, and root in a jail is uid 0.
func judgeQuota(f freebsdFacts, o Options) Check {
	const name = "disk quota"
	if o.Storage == storageZFS && o.Quota > 0 {
		return pass(name, "refquota bounds each sandbox to %s", size(uint64(o.Quota)))
	}
	if o.Storage == storageZFS {
		return warn(name, "set sandbox.quota in the configuration, or a quota on the dataset", "sandbox.quota is 0: one tenant can fill the pool")
	}
	remedy := "use zfs storage, or give the state folder a filesystem of its own, so that a full one hurts tenants only"
	return warn(name, remedy, "storage %q cannot bound what a tenant writes: one can fill the filesystem of %s", storageDir, f.storage.resolved)
}

// errDecorative is a filesystem that takes the append-only flag and lets the file be rewritten.
var errDecorative = errors.New("the filesystem takes sappnd and does not enforce it")

// judgeFlags says whether piles are protected by the kernel, and against whom. The product works without, and says so.
func judgeFlags(f freebsdFacts) Check {
	const name = "append-only"
	const elsewhere = "put the state folder on UFS"
	fstype := f.storage.fstype
	switch {
	case !f.root:
		return warn(name, "run as root", "piles can be rewritten: only root may set sappnd")
	case f.storage.err != nil:
		return warn(name, "", "unknown: the state folder's filesystem cannot be asked")
	case fstype == "zfs":
		// It asks for the flag when a file is written to, and nowhere else (zfs_vnops_os.c zfs_setattr, zfs_acl.c zfs_zaccess_delete).
		return warn(name, elsewhere+"; sandboxes can be on ZFS all the same (sandbox.dataset)", "piles can be cut, renamed or removed: zfs heeds sappnd in writes only")
	case fstype == "tmpfs", errors.Is(f.appendOnly, errDecorative):
		return warn(name, elsewhere, "piles can be rewritten: %s takes sappnd but does not enforce it", fstype)
	case f.appendOnly != nil && !errors.Is(f.appendOnly, errNotProbed):
		return warn(name, elsewhere, "piles can be rewritten: %v", f.appendOnly)
	case fstype == "ufs" && f.secureErr == nil && f.secure == 1:
		return pass(name, "ufs enforces sappnd; host root can still write to a disk that is not mounted, up to securelevel 2")
	case fstype == "ufs":
		return pass(name, "ufs enforces sappnd")
	case f.appendOnly == nil:
		return pass(name, "%s enforced sappnd in a probe", fstype)
	}
	return warn(name, elsewhere, "piles can be rewritten: %s is not known to enforce sappnd", fstype)
}

// judgeHostMemory looks at what is installed and at what is free now; the cache of ZFS gives way, but slowly.
func judgeHostMemory(f freebsdFacts) Check {
	installed := judgeMemory(f.installed, "installed")
	if installed.Status != Pass || f.available == 0 {
		return installed
	}
	free := judgeMemory(f.available, "free or inactive")
	free.Detail += " of " + size(f.installed)
	return free
}

// permanent reports whether a flag that a probe sets could not be lifted again. At an unknown level nothing is tried.
func (f freebsdFacts) permanent() bool { return f.secureErr != nil || f.secure > 0 }
