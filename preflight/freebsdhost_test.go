package preflight

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// goodFreeBSD is a host where everything works.
func goodFreeBSD() freebsdFacts {
	return freebsdFacts{
		root: true, release: "14.3-RELEASE-p4", racct: []byte{1}, secure: 1, installed: 8 << 30, available: 2 << 30,
		modules: map[string]error{}, devfs: devfs{exists: true, hides: true}, now: earliest().AddDate(0, 6, 0),
		appendOnly: errNotProbed,
		zfs:        zfsStorage{properties: goodDataset()},
		storage:    storage{resolved: "/var/db/playground", exists: true, mode: 0o750, freeBytes: 100 << 30, fstype: "ufs"},
	}
}

// jailOptions are those of a host with jails.
func jailOptions() Options {
	o := goodOptions()
	o.Isolation, o.DaemonUser, o.SecurelevelMin, o.Storage = "jail", "playground", 1, "zfs"
	o.Dataset, o.Quota = "zroot/playground", 20<<30
	return o
}

func TestJudgeFreeBSD(t *testing.T) {
	lack := func(names ...string) func(*freebsdFacts, *Options) {
		return func(f *freebsdFacts, _ *Options) {
			for _, name := range names {
				f.modules[name] = syscall.ENOENT
			}
		}
	}
	tests := []struct {
		name   string
		change func(*freebsdFacts, *Options)
		check  string
		status Status
		parts  []string
	}{
		{"good", func(*freebsdFacts, *Options) {}, "racct", Pass, nil},
		{"old release", func(f *freebsdFacts, _ *Options) { f.release = "12.4-RELEASE" }, "kernel", Fail, []string{"12.4"}},
		{"first release that runs", func(f *freebsdFacts, _ *Options) { f.release = "13.2-RELEASE" }, "kernel", Warn, []string{"process numbers"}},
		{"13.1", func(f *freebsdFacts, _ *Options) { f.release = "13.1-RELEASE" }, "kernel", Fail, nil},
		{"14.0", func(f *freebsdFacts, _ *Options) { f.release = "14.0-RELEASE" }, "kernel", Pass, nil},
		{"later", func(f *freebsdFacts, _ *Options) { f.release = "15.0-CURRENT" }, "kernel", Pass, nil},
		{"unreadable release", func(f *freebsdFacts, _ *Options) { f.release = "x" }, "kernel", Warn, nil},
		{"no root", func(f *freebsdFacts, _ *Options) { f.root = false }, "root", Fail, []string{"service playground start"}},
		{"no root, flags", func(f *freebsdFacts, _ *Options) { f.root = false }, "append-only", Warn, []string{"only root"}},
		{"no user", func(f *freebsdFacts, _ *Options) { f.user = errors.New("unknown user") }, "daemon user", Fail, []string{"pw useradd playground -d /nonexistent"}},
		{"nobody named", func(_ *freebsdFacts, o *Options) { o.DaemonUser = "" }, "daemon user", Warn, nil},
		{"in a jail", func(f *freebsdFacts, _ *Options) { f.jailed = true }, "jails", Fail, []string{"_svcj"}},
		{"jailed unknown", func(f *freebsdFacts, _ *Options) { f.jailedErr = syscall.EPERM }, "jails", Warn, nil},
		{"racct off", func(f *freebsdFacts, _ *Options) { f.racct = []byte{0} }, "racct", Fail, []string{"kern.racct.enable=1", "loader.conf"}},
		{"racct of 4 bytes", func(f *freebsdFacts, _ *Options) { f.racct = []byte{1, 0, 0, 0} }, "racct", Pass, nil},
		{"racct of 4 bytes, off", func(f *freebsdFacts, _ *Options) { f.racct = make([]byte, 4) }, "racct", Fail, nil},
		{"racct without an answer", func(f *freebsdFacts, _ *Options) { f.racct = nil }, "racct", Fail, nil},
		{"no racct", func(f *freebsdFacts, _ *Options) { f.racctErr = syscall.ENOENT }, "racct", Fail, []string{"options RACCT"}},
		{"racct unreadable", func(f *freebsdFacts, _ *Options) { f.racctErr = syscall.EIO }, "racct", Fail, nil},

		{"modules", func(*freebsdFacts, *Options) {}, "modules", Pass, []string{"nullfs fdescfs tmpfs"}},
		{"modules too late", lack("nullfs", "tmpfs"), "modules", Fail, []string{"lacks nullfs tmpfs", "securelevel 1", "sysrc kld_list+='nullfs tmpfs'"}},
		{"modules in time", func(f *freebsdFacts, o *Options) { lack("nullfs")(f, o); f.secure = 0 }, "modules", Warn, []string{"kldload nullfs"}},
		{"modules unknown", func(f *freebsdFacts, _ *Options) { f.modules["fdescfs"] = syscall.EIO }, "modules", Warn, []string{"fdescfs"}},

		{"devfs", func(*freebsdFacts, *Options) {}, "devfs", Pass, []string{"28775"}},
		{"devfs before the first start", func(f *freebsdFacts, _ *Options) { f.devfs = devfs{} }, "devfs", Pass, []string{"makes ruleset"}},
		{"devfs ruleset changed", func(f *freebsdFacts, _ *Options) { f.devfs.hides = false }, "devfs", Fail, []string{"restart"}},
		{"devfs unreadable", func(f *freebsdFacts, _ *Options) { f.devfs = devfs{err: syscall.EIO} }, "devfs", Fail, []string{"devfs rule showsets"}},
		{"devfs without root", func(f *freebsdFacts, _ *Options) { f.devfs, f.root = devfs{err: syscall.EPERM}, false }, "devfs", Warn, []string{"run as root"}},
		{"operator's ruleset", func(f *freebsdFacts, o *Options) { f.devfs.hides, o.DevfsRuleset = false, 4 }, "devfs", Pass, []string{"every jail"}},
		{"operator's ruleset hides", func(_ *freebsdFacts, o *Options) { o.DevfsRuleset = 9 }, "devfs", Pass, []string{"ruleset 9"}},
		{"operator's ruleset is not there", func(f *freebsdFacts, o *Options) { f.devfs, o.DevfsRuleset = devfs{}, 4 }, "devfs", Fail,
			[]string{"hide nothing", "devfs_load_rulesets=YES"}},

		{"securelevel below", func(f *freebsdFacts, _ *Options) { f.secure = -1 }, "securelevel", Fail,
			[]string{"asks for 1", "kern_securelevel=1", "host.securelevel_min = -1"}},
		{"securelevel far below", func(_ *freebsdFacts, o *Options) { o.SecurelevelMin = 3 }, "securelevel", Fail, []string{"kern_securelevel=3"}},
		{"securelevel as asked", func(f *freebsdFacts, o *Options) { f.secure, o.SecurelevelMin = -1, -1 }, "securelevel", Warn, []string{"-1:", "sysrc"}},
		{"securelevel 3", func(f *freebsdFacts, _ *Options) { f.secure = 3 }, "securelevel", Pass, nil},
		{"securelevel unreadable", func(f *freebsdFacts, _ *Options) { f.secureErr = errors.New("x") }, "securelevel", Fail, []string{"sysctl"}},
		{"securelevel unreadable and free", func(f *freebsdFacts, o *Options) { f.secureErr, o.SecurelevelMin = errors.New("x"), -1 }, "securelevel", Warn, nil},
		{"securelevel without isolation", func(f *freebsdFacts, o *Options) { f.secure, o.Isolation = -1, "none" }, "securelevel", Warn, nil},

		{"clock never set", func(f *freebsdFacts, _ *Options) { f.now = time.Unix(0, 0) }, "clock", Fail, []string{"1970", "ntpd"}},
		{"clock went back", func(f *freebsdFacts, _ *Options) { f.newest = f.now.Add(time.Hour) }, "clock", Warn, []string{"1h0m0s behind"}},
		{"clock steps a little", func(f *freebsdFacts, _ *Options) { f.newest = f.now.Add(time.Minute) }, "clock", Pass, nil},

		{"storage dir", func(_ *freebsdFacts, o *Options) { o.Storage = "" }, "disk quota", Warn, []string{"cannot bound", "zfs"}},
		{"storage zfs", func(*freebsdFacts, *Options) {}, "disk quota", Pass, []string{"refquota", "20.0 GiB"}},
		{"storage zfs without a quota", func(_ *freebsdFacts, o *Options) { o.Quota = 0 }, "disk quota", Warn, []string{"sandbox.quota", "fill the pool"}},
		{"little memory", func(f *freebsdFacts, _ *Options) { f.installed, f.available = 256<<20, 100<<20 }, "memory", Warn, []string{"installed"}},
		{"little free memory", func(f *freebsdFacts, _ *Options) { f.available = 100 << 20 }, "memory", Warn, []string{"100 MiB free", "8.0 GiB"}},
		{"free memory unknown", func(f *freebsdFacts, _ *Options) { f.available = 0 }, "memory", Pass, []string{"installed"}},
		{"full disk", func(f *freebsdFacts, _ *Options) { f.storage.freeBytes = 1 << 20 }, "disk", Warn, nil},

		{"zfs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "zfs" }, "append-only", Warn, []string{"cut, renamed or removed", "on UFS", "sandbox.dataset"}},
		{"zfs whatever the probe says", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.appendOnly = "zfs", errDecorative }, "append-only", Warn, []string{"sandbox.dataset"}},
		{"ufs", func(*freebsdFacts, *Options) {}, "append-only", Pass, []string{"ufs", "securelevel 2"}},
		{"ufs at 2", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.secure = "ufs", 2 }, "append-only", Pass, nil},
		{"ufs, probe failed", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.appendOnly = "ufs", syscall.EOPNOTSUPP }, "append-only", Warn, nil},
		{"ufs, probe found it decorative", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.appendOnly = "ufs", errDecorative }, "append-only", Warn, nil},
		{"tmpfs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "tmpfs" }, "append-only", Warn, []string{"not enforce"}},
		{"tmpfs whatever the probe says", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.appendOnly = "tmpfs", nil }, "append-only", Warn, nil},
		{"nfs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "nfs" }, "append-only", Warn, []string{"nfs"}},
		{"another, probed", func(f *freebsdFacts, _ *Options) { f.storage.fstype, f.appendOnly = "newfs", nil }, "append-only", Pass, []string{"probe"}},
		{"storage unknown", func(f *freebsdFacts, _ *Options) { f.storage.err = syscall.EIO }, "append-only", Warn, nil},
		// Jails do not see the host's /usr, and /usr is where FreeBSD keeps large things.
		{"state below /usr", func(f *freebsdFacts, _ *Options) { f.storage.resolved = "/usr/playground" }, "state folder", Pass, nil},
		{"no isolation", func(_ *freebsdFacts, o *Options) { o.Isolation = "none" }, "isolation", Warn, []string{"ISOLATION IS NONE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, o := goodFreeBSD(), jailOptions()
			tt.change(&f, &o)
			checks := judgeFreeBSD(f, o)
			c := find(t, checks, tt.check)
			if c.Status != tt.status {
				t.Errorf("status = %s, want %s: %+v", c.Status, tt.status, c)
			}
			for _, part := range tt.parts {
				if text := c.Detail + "\n" + c.Remedy; !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
			for _, c := range checks {
				if c.Status == Fail && c.Remedy == "" {
					t.Errorf("%+v says not what to do", c)
				}
			}
		})
	}
	if r := (Report{judgeFreeBSD(goodFreeBSD(), jailOptions())}); r.Worst() != Pass {
		t.Errorf("a good host's report = %+v", r)
	}
}

// A probe's file must not outlive the probe.
func TestPermanent(t *testing.T) {
	for _, f := range []freebsdFacts{{secure: 1}, {secure: 3}, {secureErr: syscall.EPERM, secure: 0}} {
		if !f.permanent() {
			t.Errorf("a flag could be lifted at %d, %v", f.secure, f.secureErr)
		}
	}
	for _, level := range []int{-1, 0} {
		if (freebsdFacts{secure: level}).permanent() {
			t.Errorf("a flag could not be lifted at %d", level)
		}
	}
}

func TestJudgeFreeBSDSandboxes(t *testing.T) {
	f, o := goodFreeBSD(), jailOptions()
	f.racct, f.secure, f.user, f.storage = nil, -1, syscall.ENOENT, storage{err: syscall.EIO} // none of it is a jail's
	f.devfs = devfs{exists: true}                                                             // the daemon's own rules, which it mends
	if r := (Report{judgeFreeBSDSandboxes(f, o)}); r.Worst() != Pass || len(r.Checks) != 6 {
		t.Errorf("report = %+v", r)
	}
	f.jailed, f.devfs, o.DevfsRuleset = true, devfs{}, 17
	r := Report{judgeFreeBSDSandboxes(f, o)}
	if failed := r.Failed(); len(failed) != 2 || failed[0].Name != "jails" || failed[1].Name != "devfs" {
		t.Errorf("in a jail, with a ruleset that is not there: %+v", r)
	}
	if r := (Report{judgeFreeBSDSandboxes(f, Options{Isolation: isolationNone})}); len(r.Failed()) != 0 {
		t.Errorf("without isolation: %+v", r)
	}
}
