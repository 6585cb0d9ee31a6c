package preflight

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// goodDataset are a usable dataset's properties.
func goodDataset() map[string]string {
	return map[string]string{
		"type": "filesystem", "mountpoint": "none", "mounted": "no", "canmount": "on", "jailed": "off",
		"keystatus": "-", "encryptionroot": "-", "available": "107374182400",
	}
}

func TestJudgeZFS(t *testing.T) {
	set := func(pairs ...string) func(*freebsdFacts, *Options) {
		return func(f *freebsdFacts, _ *Options) {
			for i := 0; i < len(pairs); i += 2 {
				f.zfs.properties[pairs[i]] = pairs[i+1]
			}
		}
	}
	asked := func(err error) func(*freebsdFacts, *Options) {
		return func(f *freebsdFacts, _ *Options) { f.zfs = zfsStorage{err: err} }
	}
	tests := []struct {
		name   string
		change func(*freebsdFacts, *Options)
		status Status
		parts  []string
	}{
		{"good", set(), Pass, []string{"zroot/playground", "100.0 GiB free"}},
		{"module too late", func(f *freebsdFacts, _ *Options) { f.zfs = zfsStorage{module: syscall.ENOENT} }, Fail,
			[]string{"securelevel 1", "sysrc zfs_enable=YES && shutdown -r now"}},
		{"module in time", func(f *freebsdFacts, _ *Options) { f.zfs, f.secure = zfsStorage{module: syscall.ENOENT}, -1 }, Fail,
			[]string{"lacks zfs", "service zpool start && service zfs start"}},
		{"module unknown", func(f *freebsdFacts, _ *Options) { f.zfs = zfsStorage{module: syscall.EIO} }, Warn, []string{"cannot find out"}},
		{"no dataset", asked(errNoDataset), Fail, []string{"zfs create -o mountpoint=none zroot/playground", "zfs_enable=YES"}},
		{"hung", asked(errNoAnswer), Fail, []string{"does not answer", "zpool status"}},
		{"no program", asked(syscall.ENOENT), Fail, []string{"no such file", "zfs get all zroot/playground"}},
		{"nothing known", func(f *freebsdFacts, _ *Options) { f.zfs = zfsStorage{} }, Fail, []string{"sandbox.dataset"}},

		{"volume", set("type", "volume"), Fail, []string{"is a volume"}},
		{"given to a jail", set("jailed", "on"), Fail, []string{"zfs set jailed=off zroot/playground"}},
		{"key not loaded", set("keystatus", "unavailable", "encryptionroot", "zroot/secret"), Fail, []string{"zfs load-key zroot/secret"}},
		{"key loaded", set("keystatus", "available", "encryptionroot", "zroot/secret"), Pass, nil},
		{"mounted elsewhere", set("mountpoint", "/zroot/playground"), Pass, nil},
		{"state folder not mounted", set("mountpoint", "/srv/pg"), Fail, []string{"belongs on /srv/pg", "zfs_enable=YES; zfs mount zroot/playground"}},
		{"state folder's parent not mounted", set("mountpoint", "/srv"), Fail, []string{"belongs on /srv"}},
		{"below the state folder, not mounted", set("mountpoint", "/srv/pg/sandboxes", "canmount", "noauto"), Fail, []string{"belongs on"}},
		{"root not mounted", set("mountpoint", "/"), Fail, nil},
		{"a namesake of the state folder not mounted", set("mountpoint", "/srv/pg2"), Pass, nil},
		{"state folder mounted", set("mountpoint", "/srv/pg", "mounted", "yes"), Pass, nil},
		{"never mounted", set("mountpoint", "/srv/pg", "canmount", "off"), Pass, nil},
		{"legacy", set("mountpoint", "legacy"), Pass, nil},
		{"full", set("available", "1048576"), Warn, []string{"1 MiB free"}},
		{"free space unknown", set("available", "-"), Warn, []string{"unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, o := goodFreeBSD(), jailOptions()
			o.StateDir = "/srv/pg"
			tt.change(&f, &o)
			for _, checks := range [][]Check{judgeFreeBSD(f, o), judgeFreeBSDSandboxes(f, o)} {
				c := find(t, checks, "zfs")
				if c.Status != tt.status || c.Status == Fail && c.Remedy == "" {
					t.Errorf("status = %s, want %s: %+v", c.Status, tt.status, c)
				}
				for _, part := range tt.parts {
					if text := c.Detail + "\n" + c.Remedy; !strings.Contains(text, part) {
						t.Errorf("%q lacks %q", text, part)
					}
				}
			}
		})
	}
}

// Where no sandbox stands on ZFS, a host without it is as good.
func TestJudgeZFSOnlyWhereUsed(t *testing.T) {
	f := goodFreeBSD()
	f.zfs = zfsStorage{module: syscall.ENOENT}
	for _, change := range []func(*Options){
		func(o *Options) { o.Storage = "dir" }, func(o *Options) { o.Storage = "" }, func(o *Options) { o.Isolation = isolationNone },
	} {
		o := jailOptions()
		change(&o)
		for _, c := range append(judgeFreeBSD(f, o), judgeFreeBSDSandboxes(f, o)...) {
			if c.Name == "zfs" {
				t.Errorf("storage %q, isolation %q: %+v", o.Storage, o.Isolation, c)
			}
		}
	}
}

// fakeZFS is a program that says what it is told.
func fakeZFS(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zfs")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAskZFS(t *testing.T) {
	const patience = time.Minute
	program := fakeZFS(t, `[ "$*" = "get -H -p -o property,value `+zfsProperties+` zroot/pg" ] || exit 3
printf 'type\tfilesystem\nmountpoint\t/a b\n'`)
	got, err := askZFS(t.Context(), program, "zroot/pg", patience)
	if want := map[string]string{"type": "filesystem", "mountpoint": "/a b"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("properties = %v, %v; want %v", got, err, want)
	}
	for _, tt := range []struct {
		name, script, want string
	}{
		{"no dataset", `echo "cannot open 'zroot/pg': dataset does not exist" >&2; exit 1`, errNoDataset.Error()},
		{"refused", `echo "cannot open it" >&2; echo more >&2; exit 1`, "cannot open it"},
		{"silent", `exit 1`, "exit status 1"},
		{"nothing", `exit 0`, "names no type"},
		{"odd", `echo odd`, "cannot read the output"},
	} {
		if got, err := askZFS(t.Context(), fakeZFS(t, tt.script), "zroot/pg", patience); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	if _, err := askZFS(t.Context(), filepath.Join(t.TempDir(), "none"), "zroot/pg", patience); !errors.Is(err, os.ErrNotExist) || errors.Is(err, errNoDataset) {
		t.Errorf("no program: %v", err)
	}
}

// A program that does not answer is killed.
func TestAskZFSEnds(t *testing.T) {
	if _, err := askZFS(t.Context(), fakeZFS(t, "exec sleep 600"), "zroot/pg", 50*time.Millisecond); !errors.Is(err, errNoAnswer) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := askZFS(ctx, fakeZFS(t, "echo"), "zroot/pg", time.Minute); !errors.Is(err, errNoAnswer) {
		t.Errorf("cancelled: %v", err)
	}
}
