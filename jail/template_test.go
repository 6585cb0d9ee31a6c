package jail

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

func newTemplates(t *testing.T, dir string) *Templates {
	t.Helper()
	templates, err := NewTemplates(Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return templates
}

func TestTemplates(t *testing.T) {
	dir, system := t.TempDir(), fakeSystem(t)
	templates := newTemplates(t, dir)
	if list, err := templates.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("none: %v, %v", list, err)
	}
	made, err := templates.Create(t.Context(), "base", system)
	if err != nil {
		t.Fatal(err)
	}
	if made.Release != "13.2-RELEASE-p1" || made.Storage != StorageDir || made.Source != system {
		t.Errorf("%+v", made)
	}
	for _, p := range places {
		info, err := os.Lstat(filepath.Join(dir, "templates/base/root", p.path))
		if err != nil || !info.IsDir() {
			t.Errorf("/%s is no folder: %v", p.path, err)
		}
	}
	list, err := templates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Template{made}, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err := templates.Create(t.Context(), "base", system); !errors.Is(err, fault.Exists) {
		t.Errorf("twice: %v", err)
	}
	s := store{dir: dir}
	if err := os.MkdirAll(s.path(testID, ""), 0o700); err != nil {
		t.Fatal(err)
	}
	rec := `{"tenant":"alice","id":"` + testID + `","template":"base"}`
	if err := os.WriteFile(s.path(testID, "sandbox.json"), []byte(rec), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := templates.List(t.Context()); err != nil || !slices.Equal(list[0].UsedBy, []string{"alice"}) {
		t.Errorf("used: %+v, %v", list, err)
	}
	if err := templates.Destroy(t.Context(), "base"); !errors.Is(err, fault.Busy) {
		t.Errorf("in use: %v", err)
	}
	if err := os.RemoveAll(s.path(testID, "")); err != nil {
		t.Fatal(err)
	}
	if err := templates.Destroy(t.Context(), "base"); err != nil {
		t.Error(err)
	}
	if err := templates.Destroy(t.Context(), "base"); !errors.Is(err, fault.NotFound) {
		t.Errorf("gone: %v", err)
	}
	if left, err := os.ReadDir(s.templates()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTemplatesRefuse(t *testing.T) {
	dir := t.TempDir()
	templates := newTemplates(t, dir)
	for _, name := range []string{"", ".", "..", "a..b", "-a", "A", "a/b", ".making-a", strings.Repeat("a", 64)} {
		if _, err := templates.Create(t.Context(), name, fakeSystem(t)); !errors.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
		if err := templates.Destroy(t.Context(), name); !errors.Is(err, fault.Invalid) {
			t.Errorf("destroy %q: %v", name, err)
		}
	}
	if _, err := templates.Create(t.Context(), "a", filepath.Join(dir, "missing")); !errors.Is(err, fault.Invalid) {
		t.Errorf("missing source: %v", err)
	}
	if _, err := templates.Create(t.Context(), "a", t.TempDir()); !errors.Is(err, fault.Invalid) {
		t.Errorf("empty source: %v", err)
	}
	if _, err := templates.Create(t.Context(), "a", filepath.Dir(dir)); !errors.Is(err, fault.Invalid) {
		t.Errorf("source that holds the state folder: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "templates")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := NewTemplates(Options{StateDir: dir, Storage: "nfs"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("storage: %v", err)
	}
	if _, err := NewTemplates(Options{StateDir: dir, Storage: StorageZFS, Dataset: "-r"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("dataset: %v", err)
	}
}

func TestTemplateFromArchive(t *testing.T) {
	templates := newTemplates(t, t.TempDir())
	archive := filepath.Join(t.TempDir(), "base.txz")
	if err := os.WriteFile(archive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var call []string
	templates.run = func(ctx context.Context, path string, args ...string) ([]byte, error) {
		call = append([]string{path}, args...)
		root := args[len(args)-1]
		if err := os.Remove(root); err != nil { // made for the program, and empty
			return nil, err
		}
		return nil, copyTree(ctx, fakeSystem(t), root, nil)
	}
	if _, err := templates.Create(t.Context(), "base", archive); err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin/tar", "-x", "-p", "--no-fflags", "-f", archive, "-C"}
	if !slices.Equal(call[:len(want)], want) {
		t.Errorf("command %q", call)
	}
}

func TestTemplateOnZFS(t *testing.T) {
	dir := t.TempDir()
	templates, err := NewTemplates(Options{StateDir: dir, Storage: StorageZFS, Dataset: "z/pg"})
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "templates", makingPrefix+"base", "root")
	fake := &fakeZfs{err: errors.New("dataset does not exist")}
	run := func(ctx context.Context, path string, args ...string) ([]byte, error) {
		out, err := fake.run(ctx, path, args...)
		if err == nil && args[0] == "create" && args[len(args)-1] == "z/pg/templates/base" {
			err = os.Mkdir(root, 0o755) // zfs(8) mounts it there
		}
		return out, err
	}
	templates.run, templates.zfs.run = run, run
	if _, err := templates.Create(t.Context(), "base", fakeSystem(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/sbin/zfs create -p -o canmount=off z/pg/sandboxes",
		"/sbin/zfs create -p -o canmount=off z/pg/templates",
		"/sbin/zfs create -o mountpoint=" + root + " -o readonly=off -o playground:template=base z/pg/templates/base",
		"/sbin/zfs snapshot z/pg/templates/base@base",
		"/sbin/zfs unmount z/pg/templates/base",
		"/sbin/zfs set canmount=off z/pg/templates/base",
		"/sbin/zfs set mountpoint=none z/pg/templates/base",
	}
	if diff := cmp.Diff(want, fake.calls[1:]); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	get := "z/pg/templates/base\ttype\tfilesystem\t-\nz/pg/templates/base\tplayground:template\tbase\tlocal\n"
	for name, c := range map[string]struct {
		more string
		want int // commands
	}{
		"others' snapshot": {"z/pg/templates/base@x\ttype\tsnapshot\t-\n", 1},
		"ours":             {"z/pg/templates/base@base\ttype\tsnapshot\t-\n", 3},
	} {
		fake.calls, fake.get, fake.err = nil, get+c.more, nil
		err := templates.destroyDataset(t.Context(), "base")
		if (err == nil) != (c.want == 3) || len(fake.calls) != c.want {
			t.Errorf("%s: %v after %q", name, err, fake.calls)
		}
	}
	fake.get = strings.ReplaceAll(get, "local", "inherited from z/pg")
	if err := templates.destroyDataset(t.Context(), "base"); !errors.Is(err, fault.Denied) {
		t.Errorf("not ours: %v", err)
	}
}

func TestHostTemplateHasNoSecrets(t *testing.T) {
	for _, rel := range []string{
		"etc/master.passwd", "etc/spwd.db", "etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_ed25519_key.pub", "etc/ssl/private", "etc/rc.conf", "etc/rc.conf.d/x",
		"usr/home", "usr/local", "etc/wpa_supplicant.conf", "etc/krb5.keytab", "etc/resolv.conf", "usr/pg",
		"usr/jails", "usr/jails/www", "usr/backup", "usr/ports", "usr/src", "usr/lib/debug", "usr/.sujournal", "usr/lib32",
	} {
		if !hostSkip(rel, "/usr/pg") {
			t.Errorf("%s is taken over", rel)
		}
	}
	for _, rel := range []string{"bin/sh", "etc/ssl/cert.pem", "etc/rc.subr", "etc/ssh/sshd_config", "etc/login.conf", "etc/pkg/FreeBSD.conf", "usr/bin/su", "libexec/ld-elf.so.1", "usr/share", "usr/lib/libz.so",
		"usr/include", "usr/libdata", "usr/libexec", "usr/sbin"} {
		if hostSkip(rel, "/usr/pg") {
			t.Errorf("%s stays behind", rel)
		}
	}
	passwd := "# $FreeBSD$\n#\nroot:$6$salt$hash:0:0::0:0:Charlie &:/root:/bin/csh\ndaemon:*:1:1::0:0:Owner:/root:/usr/sbin/nologin\n" +
		"op:$6$x$y:1001:1001::0:0:Operator:/home/op:/bin/sh\nnobody:*:65534:65534::0:0:Unprivileged:/nonexistent:/usr/sbin/nologin\nbad:line\n+:::::::::\nx:y:z:0::0:0:::\n"
	want := "root:*:0:0::0:0:Charlie &:/root:/bin/csh\ndaemon:*:1:1::0:0:Owner:/root:/usr/sbin/nologin\nnobody:*:65534:65534::0:0:Unprivileged:/nonexistent:/usr/sbin/nologin\n"
	if diff := cmp.Diff(want, baseAccounts(passwd)); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	groups := "# c\nwheel:*:0:root,op\noperator:*:5:root,op\nvideo:*:44:op\nop:*:1001:\nnobody:*:65534:\n"
	want = "wheel:*:0:root\noperator:*:5:root\nvideo:*:44:\nnobody:*:65534:\n"
	if diff := cmp.Diff(want, baseGroups(groups)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// What lies in a folder that the host's users may not enter is kept from them as well, whatever its own mode is.
func TestHostKeepsToItself(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		mode   fs.FileMode
		folder bool
		secret bool
	}{
		{"open", 0o755, true, false}, {"closed", 0o700, true, true}, {"searchable", 0o711, true, true},
		{"open/readable", 0o644, false, false}, {"open/key", 0o640, false, true}, {"missing/x", 0, false, true},
	} {
		path := filepath.Join(dir, c.name)
		if c.folder {
			os.Mkdir(path, 0o700)
		} else {
			os.WriteFile(path, nil, 0o600)
		}
		os.Chmod(path, c.mode)
		if got := secret(path); got != c.secret {
			t.Errorf("%s: secret %v", c.name, got)
		}
	}
	os.Symlink("/nowhere", filepath.Join(dir, "link"))
	if secret(filepath.Join(dir, "link")) {
		t.Error("a link is no secret")
	}
}
