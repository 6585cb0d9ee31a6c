package preflight

import (
	"errors"
	"io/fs"
)

// freebsdFacts is what a FreeBSD host was seen to be. This file is pure, so that it is tested everywhere.
type freebsdFacts struct {
	root       bool
	release    string // kern.osrelease
	jailed     bool   // security.jail.jailed
	racct      []byte // kern.racct.enable: 1 byte, or 4 on some versions
	racctErr   error
	secure     int // kern.securelevel
	secureErr  error
	memory     uint64 // hw.physmem
	storage    storage
	jailedErr  error
	releaseErr error
}

// judgeFreeBSD turns facts into checks.
func judgeFreeBSD(f freebsdFacts, o Options) []Check {
	checks := []Check{judgeIsolation(o), judgeRelease(f)}
	if o.Isolation != isolationNone {
		checks = append(checks, judgeRoot(f.root), judgeJails(f), judgeRacct(f))
	}
	checks = append(checks, judgeSecurelevel(f))
	// Jails see their template and not the host, so no folder is in danger of being seen.
	checks = append(checks, judgeStorage(o.StateDir, f.storage, nil)...)
	return append(checks, judgeFlags(f), judgeMemory(f.memory, "installed"), judgeSockets(o.RunDir))
}

// judgeRelease asks for 13.2, the first with nullfs over a single file.
func judgeRelease(f freebsdFacts) Check {
	later, known := atLeast(f.release, 13, 2)
	switch {
	case f.releaseErr != nil || !known:
		return warn("kernel", "", "release %q cannot be read; 13.2 is needed", f.release)
	case !later:
		return fail("kernel", "freebsd-update upgrade -r 13.2-RELEASE or later", "FreeBSD %s is too old", f.release)
	}
	return pass("kernel", "FreeBSD %s", f.release)
}

func judgeRoot(root bool) Check {
	if !root {
		return fail("root", "run as root: service playground start", "jails, mounts and limits need root")
	}
	return pass("root", "yes")
}

// judgeJails refuses to manage jails from within one: mounts and limits are the host's.
func judgeJails(f freebsdFacts) Check {
	const name = "jails"
	switch {
	case f.jailedErr != nil:
		return warn(name, "", "cannot find out whether this is a jail: %v", f.jailedErr)
	case f.jailed:
		return fail(name, `run the daemons on the host; with service jails, set playground_jaild_svcj="NO"`,
			"this is a jail: tenant jails, mounts and limits are out of reach")
	}
	return pass(name, "available")
}

// judgeRacct judges kern.racct.enable. It is a loader tunable: only a reboot changes it.
func judgeRacct(f freebsdFacts) Check {
	const name = "racct"
	switch {
	case errors.Is(f.racctErr, fs.ErrNotExist):
		return fail(name, "build a kernel with options RACCT and RCTL, or use GENERIC", "the kernel has no resource accounting")
	case f.racctErr != nil:
		return fail(name, "try sysctl kern.racct.enable", "cannot read kern.racct.enable: %v", f.racctErr)
	}
	for _, b := range f.racct {
		if b != 0 {
			return pass(name, "resource limits are enforced")
		}
	}
	return fail(name, "echo 'kern.racct.enable=1' >> /boot/loader.conf && shutdown -r now", "resource accounting is off: jobs would have no limits")
}

// judgeSecurelevel says against whom append-only files hold.
func judgeSecurelevel(f freebsdFacts) Check {
	const name = "securelevel"
	switch {
	case f.secureErr != nil:
		return warn(name, "", "cannot read kern.securelevel: %v", f.secureErr)
	case f.secure < 1:
		return warn(name, "sysrc kern_securelevel_enable=YES kern_securelevel=1, then reboot",
			"%d: append-only files hold against tenants, but host root can lift the flag", f.secure)
	}
	return pass(name, "%d: append-only files hold against host root, too", f.secure)
}

// judgeFlags judges sappnd by filesystem. It is not probed: at securelevel 1 the probe's file could never be removed.
func judgeFlags(f freebsdFacts) Check {
	const name = "append-only"
	switch {
	case !f.root:
		return warn(name, "run as root", "piles can be rewritten: only root may set sappnd")
	case f.storage.err != nil:
		return warn(name, "", "unknown: the state folder's filesystem cannot be asked")
	}
	switch f.storage.fstype {
	case "ufs", "zfs":
		return pass(name, "%s enforces sappnd", f.storage.fstype)
	case "tmpfs":
		return warn(name, "put the state folder on UFS or ZFS", "piles can be rewritten: tmpfs takes sappnd but does not enforce it")
	}
	return warn(name, "put the state folder on UFS or ZFS", "piles can be rewritten: %s is not known to enforce sappnd", f.storage.fstype)
}
