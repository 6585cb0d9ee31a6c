package preflight

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// goodFreeBSD is a host where everything works.
func goodFreeBSD() freebsdFacts {
	return freebsdFacts{
		root: true, release: "13.2-RELEASE-p4", racct: []byte{1}, secure: 1, memory: 8 << 30,
		storage: storage{resolved: "/var/db/playground", exists: true, mode: 0o750, freeBytes: 100 << 30, fstype: "zfs"},
	}
}

func TestJudgeFreeBSD(t *testing.T) {
	tests := []struct {
		name   string
		change func(*freebsdFacts, *Options)
		check  string
		status Status
		parts  []string
	}{
		{"good", func(*freebsdFacts, *Options) {}, "racct", Pass, nil},
		{"old release", func(f *freebsdFacts, _ *Options) { f.release = "12.4-RELEASE" }, "kernel", Fail, []string{"12.4"}},
		{"first good release", func(f *freebsdFacts, _ *Options) { f.release = "13.2-RELEASE" }, "kernel", Pass, nil},
		{"13.1", func(f *freebsdFacts, _ *Options) { f.release = "13.1-RELEASE" }, "kernel", Fail, nil},
		{"later", func(f *freebsdFacts, _ *Options) { f.release = "15.0-CURRENT" }, "kernel", Pass, nil},
		{"unreadable release", func(f *freebsdFacts, _ *Options) { f.release = "x" }, "kernel", Warn, nil},
		{"no root", func(f *freebsdFacts, _ *Options) { f.root = false }, "root", Fail, []string{"service playground start"}},
		{"no root, flags", func(f *freebsdFacts, _ *Options) { f.root = false }, "append-only", Warn, []string{"only root"}},
		{"in a jail", func(f *freebsdFacts, _ *Options) { f.jailed = true }, "jails", Fail, []string{"_svcj"}},
		{"jailed unknown", func(f *freebsdFacts, _ *Options) { f.jailedErr = syscall.EPERM }, "jails", Warn, nil},
		{"racct off", func(f *freebsdFacts, _ *Options) { f.racct = []byte{0} }, "racct", Fail, []string{"kern.racct.enable=1", "loader.conf"}},
		{"racct of 4 bytes", func(f *freebsdFacts, _ *Options) { f.racct = []byte{1, 0, 0, 0} }, "racct", Pass, nil},
		{"racct of 4 bytes, off", func(f *freebsdFacts, _ *Options) { f.racct = make([]byte, 4) }, "racct", Fail, nil},
		{"racct without an answer", func(f *freebsdFacts, _ *Options) { f.racct = nil }, "racct", Fail, nil},
		{"no racct", func(f *freebsdFacts, _ *Options) { f.racctErr = syscall.ENOENT }, "racct", Fail, []string{"options RACCT"}},
		{"racct unreadable", func(f *freebsdFacts, _ *Options) { f.racctErr = syscall.EIO }, "racct", Fail, nil},
		{"securelevel -1", func(f *freebsdFacts, _ *Options) { f.secure = -1 }, "securelevel", Warn, []string{"-1:", "sysrc kern_securelevel_enable=YES"}},
		{"securelevel 3", func(f *freebsdFacts, _ *Options) { f.secure = 3 }, "securelevel", Pass, nil},
		{"securelevel unreadable", func(f *freebsdFacts, _ *Options) { f.secureErr = errors.New("x") }, "securelevel", Warn, nil},
		{"ufs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "ufs" }, "append-only", Pass, []string{"ufs"}},
		{"tmpfs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "tmpfs" }, "append-only", Warn, []string{"not enforce"}},
		{"nfs", func(f *freebsdFacts, _ *Options) { f.storage.fstype = "nfs" }, "append-only", Warn, []string{"nfs"}},
		{"storage unknown", func(f *freebsdFacts, _ *Options) { f.storage.err = syscall.EIO }, "append-only", Warn, nil},
		// Jails do not see the host's /usr, and /usr is where FreeBSD keeps large things.
		{"state below /usr", func(f *freebsdFacts, _ *Options) { f.storage.resolved = "/usr/playground" }, "state folder", Pass, nil},
		{"no isolation", func(_ *freebsdFacts, o *Options) { o.Isolation = "none" }, "isolation", Warn, []string{"ISOLATION IS NONE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, o := goodFreeBSD(), goodOptions()
			o.Isolation = "jail"
			tt.change(&f, &o)
			c := find(t, judgeFreeBSD(f, o), tt.check)
			if c.Status != tt.status {
				t.Errorf("status = %s, want %s: %+v", c.Status, tt.status, c)
			}
			for _, part := range tt.parts {
				if text := c.Detail + "\n" + c.Remedy; !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
		})
	}
	o := goodOptions()
	o.Isolation = "jail"
	if r := (Report{judgeFreeBSD(goodFreeBSD(), o)}); r.Worst() != Pass {
		t.Errorf("a good host's report = %+v", r)
	}
}
