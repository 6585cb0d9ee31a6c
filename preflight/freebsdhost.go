package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// freebsdFacts is what a FreeBSD host was seen to be. This file is pure, so that it is tested everywhere.
type freebsdFacts struct {
	root       bool
	release    string // kern.osrelease
	releaseErr error
	jailed     bool // security.jail.jailed
	jailedErr  error
	racct      []byte // kern.racct.enable: 1 byte, or 4 on some versions
	racctErr   error
	secure     int // kern.securelevel
	secureErr  error
	user       error            // of looking up the daemon user
	modules    map[string]error // of finding each of modules in the kernel: nil, ENOENT, or why it could not be asked
	devfs      devfs
	now        time.Time
	newest     time.Time // newest time that the state folder bears; zero if there is none
	installed  uint64    // hw.physmem
	available  uint64    // free and inactive pages
	storage    storage
	appendOnly error // of a probe in the state folder
	zfs        zfsStorage
}

// devfs is what is known of the device rules.
type devfs struct {
	exists bool // the ruleset that jails are mounted with has rules
	hides  bool // and the first of them hides everything
	err    error
}

// judgeFreeBSD turns facts into checks.
func judgeFreeBSD(f freebsdFacts, o Options) []Check {
	checks := []Check{judgeIsolation(o), judgeRelease(f)}
	if o.Isolation != isolationNone {
		checks = append(checks, judgeRoot(f.root), judgeUser(f, o), judgeJails(f), judgeRacct(f), judgeModules(f), judgeDevfs(f, o))
	}
	checks = append(checks, judgeSecurelevel(f, o), judgeClock(f.now, f.newest, freebsdClock))
	// Jails see their template and not the host, so no folder is in danger of being seen.
	checks = append(checks, judgeStorage(o.StateDir, f.storage, nil)...)
	if o.onZFS() {
		checks = append(checks, judgeZFS(f, o))
	}
	if o.Isolation != isolationNone {
		checks = append(checks, judgeQuota(f, o))
	}
	return append(checks, judgeFlags(f), judgeHostMemory(f), judgeSockets(o.RunDir))
}

// judgeFreeBSDSandboxes judges what a jail is made of. The daemon's own device rules are not among it: it mends them.
func judgeFreeBSDSandboxes(f freebsdFacts, o Options) []Check {
	checks := []Check{judgeIsolation(o), judgeRelease(f)}
	if o.Isolation == isolationNone {
		return checks
	}
	checks = append(checks, judgeRoot(f.root), judgeJails(f), judgeModules(f))
	if o.DevfsRuleset != 0 && o.DevfsRuleset != ownRuleset {
		checks = append(checks, judgeDevfs(f, o))
	}
	if o.onZFS() {
		checks = append(checks, judgeZFS(f, o))
	}
	return checks
}

// judgeRelease asks for 13.2, the first with nullfs over a single file, and warns of all of 13: a process that becomes a
// reaper, forks and dies before its child costs that kernel a process number for ever.
func judgeRelease(f freebsdFacts) Check {
	const name = "kernel"
	first, known := atLeast(f.release, 13, 2)
	supported, _ := atLeast(f.release, 14, 0)
	switch {
	case f.releaseErr != nil || !known:
		return warn(name, "", "release %q cannot be read; 13.2 is needed", f.release)
	case !first:
		return fail(name, "freebsd-update upgrade -r 14.3-RELEASE or later", "FreeBSD %s is too old", f.release)
	case !supported:
		return warn(name, "freebsd-update upgrade -r 14.3-RELEASE or later",
			"FreeBSD %s gets no security fixes, and a tenant can use up its process numbers and so hang the host", f.release)
	}
	return pass(name, "FreeBSD %s", f.release)
}

func judgeRoot(root bool) Check {
	if !root {
		return fail("root", "run as root: service playground start", "jails, mounts and limits need root")
	}
	return pass("root", "yes")
}

// judgeUser asks for the user that the network's daemon becomes.
func judgeUser(f freebsdFacts, o Options) Check {
	const name = "daemon user"
	switch {
	case o.DaemonUser == "":
		return warn(name, "", "not known")
	case f.user != nil:
		return fail(name, "pw useradd "+o.DaemonUser+" -d /nonexistent -s /usr/sbin/nologin -c 'Playground daemon'",
			"playgroundd cannot run as %q: %v", o.DaemonUser, f.user)
	}
	return pass(name, "%s", o.DaemonUser)
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

// modules are the filesystems that jails are mounted with. devfs is part of every kernel.
func modules() []string { return []string{"nullfs", "fdescfs", "tmpfs"} }

// judgeModules asks for them before it is too late: from securelevel 1 on the kernel loads nothing.
func judgeModules(f freebsdFacts) Check {
	const name = "modules"
	var absent []string
	for _, module := range modules() {
		switch err := f.modules[module]; {
		case errors.Is(err, fs.ErrNotExist):
			absent = append(absent, module)
		case err != nil:
			return warn(name, "", "cannot find out whether the kernel has %s: %v", module, err)
		}
	}
	list := strings.Join(absent, " ")
	switch {
	case len(absent) == 0:
		return pass(name, "%s", strings.Join(modules(), " "))
	case f.secureErr == nil && f.secure > 0:
		return fail(name, "sysrc kld_list+='"+list+"' && shutdown -r now",
			"the kernel lacks %s, and loads nothing at securelevel %d", list, f.secure)
	}
	return warn(name, "kldload "+list+" (service playground_jaild start does it, too)", "not loaded yet: %s", list)
}

// ownRuleset is jail's ruleset, which playground-jaild makes by itself.
const ownRuleset = 0x7067

// judgeDevfs judges the devices that a jail may see. The kernel takes the number of any ruleset, and one without rules
// hides nothing. What a ruleset hides in the end is looked at once it is mounted, and a jail that sees too much is refused.
func judgeDevfs(f freebsdFacts, o Options) Check {
	const name = "devfs"
	number := o.DevfsRuleset
	if number == 0 {
		number = ownRuleset
	}
	switch own := number == ownRuleset; {
	case errors.Is(f.devfs.err, fs.ErrPermission) && !f.root:
		return warn(name, "run as root", "device rules cannot be read: %v", f.devfs.err)
	case f.devfs.err != nil:
		return fail(name, "try devfs rule showsets", "device rules cannot be read, so a jail's devices could not be hidden: %v", f.devfs.err)
	case own && !f.devfs.exists:
		return pass(name, "playground-jaild makes ruleset %d when it starts", number)
	case own && !f.devfs.hides:
		return fail(name, "service playground_jaild restart", "somebody changed ruleset %d: it does not begin by hiding everything", number)
	case !f.devfs.exists:
		return fail(name, "add it to /etc/devfs.rules, then: sysrc devfs_load_rulesets=YES && service devfs restart",
			"ruleset %d does not exist, so it would hide nothing", number)
	case !own && !f.devfs.hides:
		return pass(name, "ruleset %d exists; what it hides is checked in every jail", number)
	}
	return pass(name, "ruleset %d hides the host's devices", number)
}

// judgeSecurelevel holds the host to what its configuration asks for.
func judgeSecurelevel(f freebsdFacts, o Options) Check {
	const name = "securelevel"
	const keep = "sysrc kern_securelevel_enable=YES kern_securelevel=%d && shutdown -r now (or set host.securelevel_min = %d in the configuration)"
	switch {
	case f.secureErr != nil && o.SecurelevelMin > 0:
		return fail(name, "try sysctl kern.securelevel", "cannot read kern.securelevel: %v", f.secureErr)
	case f.secureErr != nil:
		return warn(name, "", "cannot read kern.securelevel: %v", f.secureErr)
	case f.secure < o.SecurelevelMin && o.Isolation != isolationNone:
		// A level is raised at once with sysctl, but then a reboot would forget it.
		return fail(name, fmt.Sprintf(keep, o.SecurelevelMin, f.secure), "%d, and host.securelevel_min asks for %d: host root could rewrite piles", f.secure, o.SecurelevelMin)
	case f.secure < 1:
		return warn(name, "sysrc kern_securelevel_enable=YES kern_securelevel=1 && shutdown -r now",
			"%d: append-only files hold against tenants, but host root can lift the flag", f.secure)
	}
	return pass(name, "%d: nobody can lift an append-only flag before a reboot", f.secure)
}
