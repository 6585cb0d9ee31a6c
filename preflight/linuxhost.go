package preflight

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"
)

// linuxFacts is what a Linux host was seen to be. This file is pure, so that every host can be judged on every platform.
type linuxFacts struct {
	root    bool
	kernel  string // uname -r
	memory  uint64 // available
	storage storage
	now     time.Time
	newest  time.Time // newest time that the state folder bears; zero if there is none

	userNS     error // of starting a child in a user namespace alone
	namespaces error // of starting one in all six
	procMount  error // of mounting /proc in there
	undumpable bool  // this process

	// settings are sysctls by name; a missing one is a kernel that does not know it.
	settings map[string]int64

	seccomp       error // of offering the kernel an empty filter: EFAULT is the right answer
	seccompFilter bool  // a filter binds this process already, as in a container

	cgroup     cgroup
	appendOnly error // of a probe in the state folder
}

// cgroup is the control group this process is in.
type cgroup struct {
	dir         string // in a cgroup v2 tree; empty if there is none
	writable    bool
	available   []string // in the tree's root: cgroup v1 may hold some of them
	controllers []string // in dir
}

// errNotProbed is the reason of a probe that could not be made; its wrapper says why.
var errNotProbed = errors.New("not probed")

// Sysctls that govern namespaces.
const (
	unprivilegedClone = "kernel.unprivileged_userns_clone"                // Debian, 0 forbids
	apparmorRestrict  = "kernel.apparmor_restrict_unprivileged_userns"    // Ubuntu, 1 forbids
	keepSysctl        = " (put it into /etc/sysctl.d/ to keep it)"        // sysctl -w ends at reboot
	containerMend     = "docker run --security-opt seccomp=unconfined " + // each lifts one of the default bars
		"--security-opt systempaths=unconfined --security-opt apparmor=unconfined, or --privileged"
)

// visibleOnLinux are the host's folders that sandboxes can read.
func visibleOnLinux() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"}
}

// judgeLinux turns facts into checks.
func judgeLinux(f linuxFacts, o Options) []Check {
	checks := append(judgeLinuxSandboxes(f, o), judgeCgroup(f.cgroup), judgeClock(f.now, f.newest, linuxClock))
	checks = append(checks, judgeStorage(o.StateDir, f.storage, visibleOnLinux())...)
	return append(checks, judgeAppendOnly(f), judgeMemory(f.memory, "available"), judgeSockets(o.RunDir))
}

// judgeLinuxSandboxes judges what a sandbox is made of.
func judgeLinuxSandboxes(f linuxFacts, o Options) []Check {
	checks := []Check{judgeIsolation(o), judgeKernel(f.kernel)}
	if o.Isolation != isolationNone {
		checks = append(checks, judgeNamespaces(f), judgeProc(f), judgeSeccomp(f))
	}
	return checks
}

// judgeKernel asks for mount_setattr(2) and what came before it.
func judgeKernel(kernel string) Check {
	later, known := atLeast(kernel, 5, 12)
	switch {
	case !known:
		return warn("kernel", "", "release %q cannot be read; 5.12 is needed", kernel)
	case !later:
		return fail("kernel", "install a kernel of at least 5.12", "%s is too old", kernel)
	}
	return pass("kernel", "Linux %s", kernel)
}

// judgeNamespaces judges the two starts, and finds who forbids them.
func judgeNamespaces(f linuxFacts) Check {
	const name = "namespaces"
	err := f.userNS
	if err == nil {
		err = f.namespaces
	}
	switch {
	case err == nil:
		return pass(name, "user, mount, pid, net, ipc and uts namespaces work")
	case errors.Is(err, errNotProbed):
		return warn(name, "", "%v", err)
	}
	return fail(name, strings.Join(namespaceMends(f, err), "; "), "cannot start a process in new namespaces: %s", reason(err))
}

// reason is err without the probe's program, and without the kernel's "no space left on device", which is no disk's.
func reason(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case !ok:
		return err.Error()
	case errno == syscall.ENOSPC:
		return "the limit on their number is reached"
	}
	return errno.Error()
}

// namespaceMends returns what to change, the surest first. More than one bar can be in the way.
func namespaceMends(f linuxFacts, err error) []string {
	var mends []string
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		setting := "user.max_" + kind + "_namespaces"
		if limit, ok := f.settings[setting]; ok && (limit == 0 || errors.Is(err, syscall.ENOSPC) && limit < 15000) {
			mends = append(mends, "sysctl -w "+setting+"=15000"+keepSysctl)
		}
	}
	if v, ok := f.settings[unprivilegedClone]; ok && v == 0 && !f.root {
		mends = append(mends, "sysctl -w "+unprivilegedClone+"=1"+keepSysctl)
	}
	if v, ok := f.settings[apparmorRestrict]; ok && v != 0 && !f.root {
		mends = append(mends, "sysctl -w "+apparmorRestrict+"=0"+keepSysctl)
	}
	switch {
	case len(mends) > 0:
		return mends
	case errors.Is(err, syscall.EACCES) && f.undumpable:
		return []string{"run the checks before the process makes itself undumpable"}
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return []string{"use a kernel built with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS"}
	case f.seccompFilter:
		return []string{"the sysctls allow it, a seccomp filter does not, as in a container: start the container with " + containerMend}
	}
	return []string{"the sysctls allow it, so a chroot or a security module forbids it: look for the denial in dmesg and the audit log"}
}

// judgeProc judges the mount of /proc, which the kernel refuses where parts of the visible one are covered.
func judgeProc(f linuxFacts) Check {
	const name = "proc"
	switch {
	case f.userNS != nil || f.namespaces != nil:
		return warn(name, "", "not checked: it needs namespaces")
	case f.procMount == nil:
		return pass(name, "a sandbox can mount its own /proc")
	case errors.Is(f.procMount, errNotProbed):
		return warn(name, "", "%v", f.procMount)
	}
	return fail(name, "this /proc is probably masked, as in a container: start the container with "+containerMend+
		" (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked)",
		"a sandbox cannot mount its own /proc: %v", f.procMount)
}

// judgeSeccomp judges the kernel's answer to a filter at address 0.
func judgeSeccomp(f linuxFacts) Check {
	const name = "seccomp"
	if errors.Is(f.seccomp, syscall.EFAULT) {
		return pass(name, "filters are available")
	}
	remedy := "use a kernel built with CONFIG_SECCOMP_FILTER"
	if f.seccompFilter {
		remedy = "start the container with " + containerMend
	}
	return fail(name, remedy, "filters are not available: %v", f.seccomp)
}

// judgeCgroup warns where limits are only rlimits, which bind each process and not the job.
func judgeCgroup(c cgroup) Check {
	const name = "cgroup"
	const unit = "set Delegate=yes in the service's unit, or run it as a user service: systemd-run --user --scope -p Delegate=yes COMMAND"
	switch {
	case c.dir == "" || len(missing(c.available)) > 0:
		return warn(name, "boot with systemd.unified_cgroup_hierarchy=1", "cgroup v2 does not have the controllers: a job's memory and processes are bound by rlimits only")
	case !c.writable:
		return warn(name, unit, "cgroup %q is not delegated: a job's memory and processes are bound by rlimits only", c.dir)
	case len(missing(c.controllers)) > 0:
		return warn(name, unit, "cgroup %q lacks the controllers %s", c.dir, strings.Join(missing(c.controllers), ", "))
	}
	return pass(name, "%q is delegated", c.dir)
}

// missing returns the controllers that a job's limits need and have lacks.
func missing(have []string) []string {
	return slices.DeleteFunc([]string{"cpu", "memory", "pids"}, func(c string) bool { return slices.Contains(have, c) })
}

// judgeAppendOnly says whether piles are protected by the kernel. The product works without, and says so.
func judgeAppendOnly(f linuxFacts) Check {
	const name = "append-only"
	err := f.appendOnly
	switch {
	case err == nil:
		return pass(name, "the filesystem of the state folder enforces it")
	case errors.Is(err, errNotProbed):
		return warn(name, "run the check again when the state folder exists", "%v", err)
	case errors.Is(err, syscall.ENOTTY), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
		return warn(name, "put the state folder on ext4, xfs or btrfs", "piles can be rewritten: the filesystem has no append-only attribute (%v)", err)
	case errors.Is(err, syscall.EPERM) && !f.root:
		return warn(name, "run the daemons as root", "piles can be rewritten: only root may set the append-only attribute")
	case errors.Is(err, syscall.EPERM):
		return warn(name, "give the container CAP_LINUX_IMMUTABLE", "piles can be rewritten: CAP_LINUX_IMMUTABLE is missing")
	}
	return warn(name, "", "piles can be rewritten: %v", err)
}
