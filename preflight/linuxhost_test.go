package preflight

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// goodLinux is a host where everything works.
func goodLinux() linuxFacts {
	return linuxFacts{
		kernel:  "6.18.44-generic",
		memory:  8 << 30,
		storage: storage{resolved: "/var/db/playground", exists: true, mode: 0o750, freeBytes: 100 << 30},
		settings: map[string]int64{"user.max_user_namespaces": 60000, "user.max_mnt_namespaces": 60000,
			"user.max_pid_namespaces": 60000, "user.max_net_namespaces": 60000, "user.max_ipc_namespaces": 60000,
			"user.max_uts_namespaces": 60000, unprivilegedClone: 1, apparmorRestrict: 0},
		seccomp: syscall.EFAULT, now: earliest().AddDate(0, 6, 0),
		cgroup: cgroup{dir: "/sys/fs/cgroup/x", writable: true, available: []string{"cpu", "memory", "pids"},
			controllers: []string{"cpu", "io", "memory", "pids"}},
	}
}

func goodOptions() Options {
	return Options{StateDir: "/var/db/playground", RunDir: "/var/run/playground", Isolation: "namespaces"}
}

// forkError is how os/exec reports a start that the kernel refused.
func forkError(errno syscall.Errno) error {
	return &os.PathError{Op: "fork/exec", Path: "/usr/bin/true", Err: errno}
}

// find returns the named check.
func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q in %+v", name, checks)
	return Check{}
}

func TestGoodLinuxPasses(t *testing.T) {
	r := Report{judgeLinux(goodLinux(), goodOptions())}
	if r.Worst() != Pass {
		t.Errorf("report = %+v", r)
	}
	for _, c := range r.Checks {
		if c.Remedy != "" || c.Detail == "" {
			t.Errorf("check %+v: want a detail and no remedy", c)
		}
	}
}

func TestJudgeLinux(t *testing.T) {
	tests := []struct {
		name   string
		change func(*linuxFacts, *Options)
		check  string
		status Status
		parts  []string // of detail and remedy
		not    string   // no part of them
	}{
		{"old kernel", func(f *linuxFacts, _ *Options) { f.kernel = "5.11.0" }, "kernel", Fail, []string{"5.11.0", "5.12"}, ""},
		{"first good kernel", func(f *linuxFacts, _ *Options) { f.kernel = "5.12-rc1" }, "kernel", Pass, nil, ""},
		{"unreadable kernel", func(f *linuxFacts, _ *Options) { f.kernel = "plan9" }, "kernel", Warn, nil, ""},
		{"user namespaces limited to 0", func(f *linuxFacts, _ *Options) {
			f.userNS = forkError(syscall.ENOSPC)
			f.settings["user.max_user_namespaces"] = 0
		}, "namespaces", Fail, []string{"limit on their number", "sysctl -w user.max_user_namespaces=15000", "/etc/sysctl.d/"}, "container"},
		{"network namespaces used up", func(f *linuxFacts, _ *Options) {
			f.namespaces = forkError(syscall.ENOSPC)
			f.settings["user.max_net_namespaces"] = 10
		}, "namespaces", Fail, []string{"sysctl -w user.max_net_namespaces=15000"}, "max_user"},
		{"Debian's switch", func(f *linuxFacts, _ *Options) {
			f.userNS = forkError(syscall.EPERM)
			f.settings[unprivilegedClone] = 0
		}, "namespaces", Fail, []string{"sysctl -w kernel.unprivileged_userns_clone=1"}, "container"},
		{"Debian's switch does not bind root", func(f *linuxFacts, _ *Options) {
			f.root, f.userNS, f.seccompFilter = true, forkError(syscall.EPERM), true
			f.settings[unprivilegedClone] = 0
		}, "namespaces", Fail, []string{"container", "--privileged"}, "sysctl -w"},
		{"Ubuntu's AppArmor", func(f *linuxFacts, _ *Options) {
			f.namespaces = forkError(syscall.EACCES)
			f.settings[apparmorRestrict] = 1
		}, "namespaces", Fail, []string{"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"}, ""},
		{"two bars, both told", func(f *linuxFacts, _ *Options) {
			f.userNS = forkError(syscall.EPERM)
			f.settings[unprivilegedClone], f.settings[apparmorRestrict] = 0, 1
		}, "namespaces", Fail, []string{unprivilegedClone + "=1", apparmorRestrict + "=0"}, ""},
		{"container's seccomp", func(f *linuxFacts, _ *Options) {
			f.userNS, f.seccompFilter = forkError(syscall.EPERM), true
		}, "namespaces", Fail, []string{"sysctls allow it", "--security-opt seccomp=unconfined", "--privileged"}, "sysctl -w"},
		{"chroot", func(f *linuxFacts, _ *Options) { f.userNS = forkError(syscall.EPERM) },
			"namespaces", Fail, []string{"chroot", "dmesg"}, "docker"},
		{"kernel without them", func(f *linuxFacts, _ *Options) { f.userNS = forkError(syscall.EINVAL) },
			"namespaces", Fail, []string{"CONFIG_USER_NS"}, ""},
		{"undumpable process", func(f *linuxFacts, _ *Options) {
			f.userNS, f.undumpable = forkError(syscall.EACCES), true
		}, "namespaces", Fail, []string{"undumpable"}, "docker"},
		{"no true program", func(f *linuxFacts, _ *Options) { f.userNS = fmt.Errorf("%w: no true", errNotProbed) },
			"namespaces", Warn, []string{"not probed: no true"}, ""},
		{"proc is not tried without namespaces", func(f *linuxFacts, _ *Options) { f.userNS = forkError(syscall.EPERM) },
			"proc", Warn, []string{"not checked"}, ""},
		{"masked proc", func(f *linuxFacts, _ *Options) { f.procMount = errors.New("mount: /proc: permission denied.") },
			"proc", Fail, []string{"permission denied", "systempaths=unconfined", "unmask=ALL"}, ""},
		{"no mount program", func(f *linuxFacts, _ *Options) { f.procMount = fmt.Errorf("%w: no mount", errNotProbed) }, "proc", Warn, nil, ""},
		{"no seccomp", func(f *linuxFacts, _ *Options) { f.seccomp = syscall.EINVAL }, "seccomp", Fail, []string{"CONFIG_SECCOMP_FILTER"}, ""},
		{"seccomp forbids seccomp", func(f *linuxFacts, _ *Options) { f.seccomp, f.seccompFilter = syscall.EPERM, true },
			"seccomp", Fail, []string{"seccomp=unconfined"}, ""},
		{"a filter was installed", func(f *linuxFacts, _ *Options) { f.seccomp = nil }, "seccomp", Fail, nil, ""},
		{"cgroup v1", func(f *linuxFacts, _ *Options) { f.cgroup = cgroup{} }, "cgroup", Warn, []string{"unified_cgroup_hierarchy=1"}, ""},
		{"cgroup hybrid", func(f *linuxFacts, _ *Options) {
			f.cgroup.available, f.cgroup.controllers = []string{"misc", "pids"}, nil
		},
			"cgroup", Warn, []string{"unified_cgroup_hierarchy=1"}, ""},
		{"cgroup of somebody else", func(f *linuxFacts, _ *Options) { f.cgroup.writable = false },
			"cgroup", Warn, []string{"Delegate=yes", "not delegated"}, ""},
		{"cgroup without memory", func(f *linuxFacts, _ *Options) { f.cgroup.controllers = []string{"cpu", "pids"} },
			"cgroup", Warn, []string{"lacks the controllers memory", "Delegate=yes"}, ""},
		{"append-only needs root", func(f *linuxFacts, _ *Options) { f.appendOnly = forkError(syscall.EPERM) },
			"append-only", Warn, []string{"only root"}, ""},
		{"append-only in a container", func(f *linuxFacts, _ *Options) { f.root, f.appendOnly = true, forkError(syscall.EPERM) },
			"append-only", Warn, []string{"CAP_LINUX_IMMUTABLE"}, ""},
		{"append-only on tmpfs", func(f *linuxFacts, _ *Options) { f.appendOnly = forkError(syscall.ENOTTY) },
			"append-only", Warn, []string{"ext4", "can be rewritten"}, ""},
		{"append-only not enforced", func(f *linuxFacts, _ *Options) { f.appendOnly = errors.New("not enforced") },
			"append-only", Warn, []string{"can be rewritten: not enforced"}, ""},
		{"append-only not probed", func(f *linuxFacts, _ *Options) { f.appendOnly = fmt.Errorf("%w: no folder", errNotProbed) },
			"append-only", Warn, []string{"again"}, ""},
		{"state below /usr", func(f *linuxFacts, _ *Options) { f.storage.resolved = "/usr/home/pg" },
			"state folder", Fail, []string{"/usr,", "host.state_dir"}, ""},
		{"state beside /usr", func(f *linuxFacts, _ *Options) { f.storage.resolved = "/usrlocal/pg" }, "state folder", Pass, nil, ""},
		{"state is /etc", func(f *linuxFacts, _ *Options) { f.storage.resolved = "/etc" }, "state folder", Fail, nil, ""},
		{"state open to all", func(f *linuxFacts, _ *Options) { f.storage.mode = 0o777 }, "state folder", Fail, []string{"chmod o-w"}, ""},
		{"state to be made", func(f *linuxFacts, _ *Options) { f.storage.exists = false }, "state folder", Pass, []string{"does not exist yet"}, ""},
		{"state unusable", func(f *linuxFacts, _ *Options) { f.storage.err = errors.New("input/output error") },
			"state folder", Fail, []string{"input/output error"}, ""},
		{"noexec", func(f *linuxFacts, _ *Options) { f.storage.noexec = true }, "executables", Warn, []string{"noexec"}, ""},
		{"full disk", func(f *linuxFacts, _ *Options) { f.storage.freeBytes = 900 << 20 }, "disk", Warn, []string{"900 MiB"}, ""},
		{"little memory", func(f *linuxFacts, _ *Options) { f.memory = 100 << 20 }, "memory", Warn, []string{"100 MiB"}, ""},
		{"unknown memory", func(f *linuxFacts, _ *Options) { f.memory = 0 }, "memory", Warn, []string{"unknown"}, ""},
		{"long run folder", func(_ *linuxFacts, o *Options) { o.RunDir = "/" + strings.Repeat("r", 100) }, "sockets", Fail, []string{"115 bytes", "103"}, ""},
		{"longest run folder", func(_ *linuxFacts, o *Options) { o.RunDir = "/" + strings.Repeat("r", 88) }, "sockets", Pass, nil, ""},
		{"no isolation", func(_ *linuxFacts, o *Options) { o.Isolation = "none" }, "isolation", Warn, []string{"ISOLATION IS NONE"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, o := goodLinux(), goodOptions()
			tt.change(&f, &o)
			c := find(t, judgeLinux(f, o), tt.check)
			if c.Status != tt.status {
				t.Errorf("status = %s, want %s: %+v", c.Status, tt.status, c)
			}
			if c.Status == Fail && c.Remedy == "" {
				t.Errorf("no remedy: %+v", c)
			}
			text := c.Detail + "\n" + c.Remedy
			for _, part := range tt.parts {
				if !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("%q holds %q", text, tt.not)
			}
		})
	}
}

// Without isolation, what isolation needs is not asked for.
func TestNoIsolationOnLinux(t *testing.T) {
	f, o := goodLinux(), goodOptions()
	o.Isolation = "none"
	f.userNS, f.seccomp = forkError(syscall.EPERM), syscall.EINVAL
	if r := (Report{judgeLinux(f, o)}); r.Worst() != Warn {
		t.Errorf("report = %+v", r)
	}
}

func TestJudgeLinuxSandboxes(t *testing.T) {
	f := goodLinux()
	f.storage, f.memory, f.cgroup = storage{err: os.ErrPermission}, 0, cgroup{} // none of it is a sandbox's
	checks := judgeLinuxSandboxes(f, goodOptions())
	if r := (Report{checks}); r.Worst() != Pass || len(checks) != 5 {
		t.Errorf("report = %+v", r)
	}
	f.namespaces = forkError(syscall.EPERM)
	if r := (Report{judgeLinuxSandboxes(f, goodOptions())}); len(r.Failed()) != 1 || r.Failed()[0].Name != "namespaces" {
		t.Errorf("without namespaces: %+v", r)
	}
	if r := (Report{judgeLinuxSandboxes(f, Options{Isolation: isolationNone})}); len(r.Failed()) != 0 {
		t.Errorf("without isolation: %+v", r)
	}
}
