package jail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

const (
	testID    = "01jabcdefghjkmnpqrstvwxyz0"
	testMount = "/var/db/pg/sandboxes/" + testID + "/root"
)

// getOutput is what zfs get prints for a healthy sandbox; lines can be changed by their property.
func getOutput(change map[string]string) string {
	name := "z/pg/sandboxes/" + testID
	var b strings.Builder
	for _, p := range [][3]string{
		{"type", "filesystem", "-"}, {"mountpoint", testMount, "local"}, {"mounted", "no", "-"}, {"origin", "z/pg/templates/base@base", "-"},
		{propTenant, "alice", "local"}, {propTemplate, "-", "-"},
	} {
		value, source := p[1], p[2]
		if v, ok := change[p[0]]; ok {
			value, source, _ = strings.Cut(v, " from ")
			if source == "" {
				source = p[2]
			}
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", name, p[0], value, source)
	}
	return b.String() + change["more"]
}

// fakeZfs answers get from a text, and keeps every command line.
type fakeZfs struct {
	get   string
	err   error
	calls []string
}

func (f *fakeZfs) run(_ context.Context, path string, args ...string) ([]byte, error) {
	f.calls = append(f.calls, strings.Join(append([]string{path}, args...), " "))
	if args[0] == "get" {
		return []byte(f.get), f.err
	}
	return nil, nil
}

func TestDestroySandboxDataset(t *testing.T) {
	other := "z/pg/sandboxes/" + testID
	for name, c := range map[string]struct {
		change map[string]string
		want   []string // commands after get; nil: refused
	}{
		"ours":             {nil, []string{"/sbin/zfs destroy z/pg/sandboxes/" + testID}},
		"mounted":          {map[string]string{"mounted": "yes"}, []string{"/sbin/zfs unmount z/pg/sandboxes/" + testID, "/sbin/zfs destroy z/pg/sandboxes/" + testID}},
		"volume":           {map[string]string{"type": "volume"}, nil},
		"no property":      {map[string]string{propTenant: "- from -"}, nil},
		"inherited":        {map[string]string{propTenant: "alice from inherited from z/pg"}, nil},
		"no clone":         {map[string]string{"origin": "-"}, nil},
		"clone of others":  {map[string]string{"origin": "z/pg2/templates/base@base"}, nil},
		"other mountpoint": {map[string]string{"mountpoint": "/home"}, nil},
		"snapshot":         {map[string]string{"more": other + "@daily\ttype\tsnapshot\t-\n"}, nil},
		"child":            {map[string]string{"more": other + "/db\ttype\tfilesystem\t-\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeZfs{get: getOutput(c.change)}
			err := zfs{f.run, "z/pg"}.destroySandbox(t.Context(), testID, testMount)
			if c.want == nil {
				if !errors.Is(err, fault.Denied) || len(f.calls) != 1 {
					t.Errorf("%v after %q", err, f.calls)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, f.calls[1:]); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDestroyNothing(t *testing.T) {
	f := &fakeZfs{err: errors.New("exit status 1: cannot open 'z/pg/sandboxes/x': dataset does not exist")}
	if err := (zfs{f.run, "z/pg"}).destroySandbox(t.Context(), testID, testMount); err != nil {
		t.Error(err)
	}
	f = &fakeZfs{err: errors.New("exit status 1: permission denied")}
	if err := (zfs{f.run, "z/pg"}).destroySandbox(t.Context(), testID, testMount); err == nil {
		t.Error("an error counts as nothing to do")
	}
	f = &fakeZfs{get: strings.ReplaceAll(getOutput(nil), testID, "../x")}
	if err := (zfs{f.run, "z/pg"}).destroySandbox(t.Context(), "../x", testMount); !errors.Is(err, fault.Denied) {
		t.Errorf("an id that is none: %v", err)
	}
}

func TestForeignMountKeepsDataset(t *testing.T) {
	f := &fakeZfs{get: getOutput(nil)}
	table := []mounted{{fstype: "zfs", from: "z/pg/sandboxes/" + testID, on: testMount}}
	b := &zfsBacking{store: &store{dir: "/var/db/pg"}, zfs: zfs{f.run, "z/pg"}, table: func() ([]mounted, error) { return table, nil }}
	if err := b.destroy(t.Context(), testID); err != nil {
		t.Error(err)
	}
	f.calls = nil
	table = append(table, mounted{fstype: "nullfs", from: "/home/op", on: testMount + "/mnt"})
	if err := b.destroy(t.Context(), testID); !errors.Is(err, fault.Busy) || len(f.calls) > 0 {
		t.Errorf("%v after %q", err, f.calls)
	}
}

func TestClone(t *testing.T) {
	f := &fakeZfs{}
	if err := (zfs{f.run, "z/pg"}).clone(t.Context(), "base", testID, "alice", testMount, 5<<30); err != nil {
		t.Fatal(err)
	}
	want := []string{"/sbin/zfs clone -o canmount=noauto -o mountpoint=" + testMount + " -o setuid=off -o exec=on -o readonly=off -o playground:tenant=alice " +
		"-o refquota=5368709120 z/pg/templates/base@base z/pg/sandboxes/" + testID}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

// A refquota counts the template's bytes too; zfs(8) says of one that is too small only that there is no space.
func TestCloneOverQuota(t *testing.T) {
	full := errors.New("exit status 1: cannot create 'z/pg/sandboxes/x': out of space")
	for quota, hinted := range map[int64]bool{0: false, 64 << 20: true} {
		run := func(context.Context, string, ...string) ([]byte, error) { return nil, full }
		err := zfs{run, "z/pg"}.clone(t.Context(), "base", testID, "alice", testMount, quota)
		if !errors.Is(err, full) || strings.Contains(fault.HintOf(err), "sandbox.quota") != hinted {
			t.Errorf("quota %d: %v, hint %q", quota, err, fault.HintOf(err))
		}
	}
}

func TestMountDataset(t *testing.T) {
	s := &store{dir: t.TempDir()}
	rec := record{ID: testID, Tenant: "alice"}
	if err := makeMountPoint(s.dir, "/sandboxes/"+testID); err != nil {
		t.Fatal(err)
	}
	var table []mounted
	f := &fakeZfs{}
	b := &zfsBacking{store: s, zfs: zfs{f.run, "z/pg"}, table: func() ([]mounted, error) { return table, nil }}
	if err := b.mountRoot(t.Context(), rec); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a mount that did not appear: %v", err)
	}
	table = []mounted{{fstype: "zfs", from: "z/pg/sandboxes/" + testID, on: s.path(testID, "root")}}
	f.calls = nil
	if err := b.mountRoot(t.Context(), rec); err != nil || len(f.calls) > 0 {
		t.Errorf("mounted already: %v after %q", err, f.calls)
	}
}

func TestValidDataset(t *testing.T) {
	for _, name := range []string{"zroot/playground", "z", "tank/a.b/c_d:e-f"} {
		if err := validDataset(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "/z", "z/", "z//a", "-r", "z/-r", "z@s", "z/a b", "z/../a", "z/.", "z/$(x)", "z/a\n", strings.Repeat("a", 201)} {
		if err := validDataset(name); !errors.Is(err, fault.Invalid) {
			t.Errorf("dataset %q: %v", name, err)
		}
	}
}

func TestParseZfsGet(t *testing.T) {
	props, err := parseZfsGet([]byte(getOutput(map[string]string{"more": "z/pg/sandboxes/" + testID + "@s\ttype\tsnapshot\t-\n"})))
	if err != nil {
		t.Fatal(err)
	}
	want := []dataset{
		{name: "z/pg/sandboxes/" + testID, kind: "filesystem", mountpoint: testMount, origin: "z/pg/templates/base@base", tenant: "alice", template: ""},
		{name: "z/pg/sandboxes/" + testID + "@s", kind: "snapshot"},
	}
	if diff := cmp.Diff(want, datasets(props), cmp.AllowUnexported(dataset{})); diff != "" {
		t.Errorf("datasets (-want +got):\n%s", diff)
	}
	for _, out := range []string{"z\ttype\tfilesystem\n", "z\n", "\n", "\ttype\tx\t-\n", "z\t\tx\t-\n", "a\tb\tc\td\te\n"} {
		if _, err := parseZfsGet([]byte(out)); err == nil {
			t.Errorf("%q is read", out)
		}
	}
	if props, err := parseZfsGet(nil); err != nil || len(props) > 0 {
		t.Errorf("nothing: %v, %v", props, err)
	}
}

// Whatever zfs(8) prints, nothing is destroyed that does not carry every mark of ours.
func FuzzZfsGet(f *testing.F) {
	f.Add(getOutput(nil))
	f.Add(getOutput(map[string]string{propTenant: "alice from inherited from z/pg"}))
	f.Add(getOutput(map[string]string{"more": "z/x\ttype\tvolume\t-\n"}))
	f.Add("z\ttype\tfilesystem\t-\nz")
	f.Fuzz(func(t *testing.T, out string) {
		fake := &fakeZfs{get: out}
		err := zfs{fake.run, "z/pg"}.destroySandbox(t.Context(), testID, testMount)
		destroyed := slices.ContainsFunc(fake.calls, func(c string) bool { return strings.Contains(c, "destroy") })
		if destroyed != (err == nil) {
			t.Fatalf("destroyed %v, error %v", destroyed, err)
		}
		if !destroyed {
			return
		}
		name := "z/pg/sandboxes/" + testID + "\t"
		for _, need := range []string{name + "type\tfilesystem\t", name + "mountpoint\t" + testMount + "\t", name + "origin\tz/pg/templates/", name + propTenant + "\t"} {
			if !strings.Contains(out, need) {
				t.Fatalf("destroyed without %q", need)
			}
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, name) {
				t.Fatalf("destroyed beside %q", line)
			}
		}
	})
}

// A program that no signal ends keeps nobody waiting.
func TestStuckProgram(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	_, err := within(t.Context(), time.Millisecond, time.Millisecond, func(context.Context) ([]byte, error) {
		<-release
		return nil, nil
	})
	if !errors.Is(err, errStuck) {
		t.Error(err)
	}
	out, err := within(t.Context(), time.Millisecond, time.Hour, func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return []byte("said"), ctx.Err()
	})
	if string(out) != "said" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, %v", out, err)
	}
}
