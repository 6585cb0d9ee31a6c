package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
)

// hostParts are what a template takes of a running host: the base system (hier(7)), and nothing that the operator added.
var hostParts = [...]string{"bin", "etc", "lib", "libexec", "rescue", "sbin", "usr"}

// hostUsr are the folders of /usr that are the base system's. Whatever else is there is the operator's: packages, sources, homes,
// other jails.
var hostUsr = [...]string{"bin", "include", "lib", "libdata", "libexec", "sbin", "share"}

// hostSkips are the paths below them that stay behind, most of all what would give a tenant the host's identity. A trailing *
// matches within one folder.
var hostSkips = [...]string{
	"usr/lib/debug",
	"etc/master.passwd", "etc/passwd", "etc/pwd.db", "etc/spwd.db", "etc/group", "etc/ssh/ssh_host_*", "etc/ssl/private", "etc/rc.conf", "etc/rc.conf.d/*",
	"etc/rc.conf.local", "etc/fstab", "etc/exports", "etc/hostid", "etc/machine-id", "etc/krb5.keytab", "etc/opiekeys", "etc/ppp/*", "etc/wpa_supplicant.conf*",
	"etc/pf.conf*", "etc/ipfw*", "etc/jail.conf*", "etc/jail.conf.d/*", "etc/zfs/*", "etc/iscsi.conf", "etc/ctl.conf", "etc/bluetooth/*", "etc/mail/*.db",
	"etc/resolv.conf*", "etc/dumpdates", "etc/crontab.local", "etc/cron.d/*", "etc/auto_*", "etc/sysctl.conf.local", "etc/localtime", "etc/hosts", "etc/aliases",
	"etc/wall_cmos_clock", "etc/snmpd.config", "etc/radius.conf", "etc/nscd.conf.local", "etc/hostapd.conf*", "etc/ipsec.conf", "etc/setkey.conf",
	"usr/libdata/freebsd-update", "etc/ssh/ssh_known_hosts*", "etc/exports.*", "etc/freebsd-update.conf.*", "etc/nsd", "etc/unbound",
}

// hostSkip reports whether a path stays behind. The state folder does too, wherever it lies.
func hostSkip(rel, state string) bool {
	if "/"+rel == state {
		return true
	}
	if below, ok := strings.CutPrefix(rel, "usr/"); ok {
		if name, _, _ := strings.Cut(below, "/"); !slices.Contains(hostUsr[:], name) {
			return true
		}
	}
	return slices.ContainsFunc(hostSkips[:], func(pattern string) bool {
		ok, err := filepath.Match(pattern, rel)
		return ok && err == nil
	})
}

// secret reports whether the host keeps a file, or what is in a folder, from its own users. The base system needs none of those.
func secret(path string) bool {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return true
	case info.IsDir():
		return info.Mode()&0o005 != 0o005
	}
	return info.Mode().IsRegular() && info.Mode()&0o004 == 0
}

// varTree are the folders of an empty /var (BSD.var.dist), without what only a host has.
var varTree = [...]struct {
	path string
	mode fs.FileMode
}{
	{"var", 0o755}, {"var/at", 0o755}, {"var/at/jobs", 0o755}, {"var/at/spool", 0o755}, {"var/backups", 0o750}, {"var/cache", 0o755},
	{"var/cron", 0o750}, {"var/cron/tabs", 0o700}, {"var/db", 0o755}, {"var/db/pkg", 0o755}, {"var/empty", 0o555}, {"var/lib", 0o755},
	{"var/log", 0o755}, {"var/mail", 0o775}, {"var/msgs", 0o755}, {"var/preserve", 0o755}, {"var/run", 0o755}, {"var/rwho", 0o775},
	{"var/spool", 0o755}, {"var/spool/mqueue", 0o755}, {"var/tmp", 0o777 | fs.ModeSticky}, {"var/yp", 0o755},
}

// copyHost makes a system in root from the base system of this host.
func copyHost(ctx context.Context, run runner, root, state string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, part := range hostParts {
		skip := func(rel string) bool {
			rel = filepath.Join(part, rel)
			return hostSkip(rel, state) || part == "etc" && secret("/"+rel)
		}
		if err := copyTree(ctx, "/"+part, filepath.Join(root, part), skip); err != nil {
			return fmt.Errorf("cannot copy the host's /%s: %w", part, err)
		}
	}
	for _, d := range varTree {
		path := filepath.Join(root, d.path)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(path, d.mode); err != nil {
			return err
		}
	}
	if err := copyZone(root); err != nil {
		return err
	}
	return copyAccounts(ctx, run, root)
}

// copyZone keeps the host's time zone, which may be a link into /usr/share.
func copyZone(root string) error {
	data, err := os.ReadFile("/etc/localtime")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // UTC
	}
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(root, "etc/localtime"), data, 0o644)
}

// copyAccounts writes the account files of the new system: the base system's accounts with no password that lets anybody in.
func copyAccounts(ctx context.Context, run runner, root string) error {
	passwd, err := os.ReadFile("/etc/master.passwd")
	if err != nil {
		return fmt.Errorf("cannot read the host's accounts: %w", err)
	}
	group, err := os.ReadFile("/etc/group")
	if err != nil {
		return fmt.Errorf("cannot read the host's accounts: %w", err)
	}
	etc := filepath.Join(root, "etc")
	hosts := "::1\tlocalhost\n127.0.0.1\tlocalhost\n"
	for name, file := range map[string]struct {
		text string
		mode fs.FileMode
	}{
		"master.passwd": {baseAccounts(string(passwd)), 0o600},
		"group":         {baseGroups(string(group)), 0o644},
		"hosts":         {hosts, 0o644},
	} {
		if err := writeSynced(filepath.Join(etc, name), []byte(file.text), file.mode); err != nil {
			return err
		}
	}
	// Makes passwd and the two databases beside it.
	_, err = run(ctx, "/usr/sbin/pwd_mkdb", "-p", "-d", etc, filepath.Join(etc, "master.passwd"))
	return err
}

// Ids of the base system's accounts end below 1000, but for nobody's (ports' accounts do so too, from 50 on, and are kept:
// a name for a number gives nothing away).
const (
	firstUserID = 1000
	nobodyID    = 65534
)

// baseAccounts keeps the system's lines of a master.passwd(5), each with the password that nothing matches.
func baseAccounts(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 10 || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") || !systemID(f[2]) {
			continue
		}
		f[1] = "*"
		b.WriteString(strings.Join(f, ":") + "\n")
	}
	return b.String()
}

// baseGroups keeps the system's lines of a group(5), without members of the host's.
func baseGroups(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 4 || strings.HasPrefix(line, "#") || !systemID(f[2]) {
			continue
		}
		f[1], f[3] = "*", ""
		if f[0] == "wheel" || f[0] == "operator" {
			f[3] = "root"
		}
		b.WriteString(strings.Join(f, ":") + "\n")
	}
	return b.String()
}

func systemID(text string) bool {
	id, err := strconv.Atoi(text)
	return err == nil && id >= 0 && (id < firstUserID || id == nobodyID)
}

// copyChildren copies what is in a folder into one that exists, such as a new dataset's.
func copyChildren(ctx context.Context, from, to string, skip func(string) bool) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if skip != nil && skip(e.Name()) {
			continue
		}
		if err := copyTree(ctx, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), nil); err != nil {
			return err
		}
	}
	return nil
}

// The dataset of a template is mounted while it is filled, and never again: what tenants get are clones of its snapshot.

func (t *Templates) createDataset(ctx context.Context, name, mountpoint string) error {
	for _, args := range [][]string{
		// -p: it may be there. Not mounted: below a parent that is mounted on the state folder it would cover what is there.
		{"create", "-p", "-o", "canmount=off", t.zfs.parent + "/sandboxes"},
		{"create", "-p", "-o", "canmount=off", t.zfs.parent + "/templates"},
		{"create", "-o", "mountpoint=" + mountpoint, "-o", "readonly=off", "-o", propTemplate + "=" + name, t.zfs.template(name)},
	} {
		if _, err := t.run(ctx, zfsProgram, args...); err != nil {
			return err
		}
	}
	return nil
}

func (t *Templates) sealDataset(ctx context.Context, name string) error {
	for _, args := range [][]string{
		{"snapshot", t.zfs.snapshot(name)},
		{"unmount", t.zfs.template(name)},
		{"set", "canmount=off", t.zfs.template(name)},
		{"set", "mountpoint=none", t.zfs.template(name)},
	} {
		if _, err := t.run(ctx, zfsProgram, args...); err != nil {
			return err
		}
	}
	return nil
}

// destroyDataset refuses a dataset that does not carry the template's name. Its own snapshot goes first; clones of it keep
// zfs(8) from destroying it.
func (t *Templates) destroyDataset(ctx context.Context, name string) error {
	list, err := t.zfs.get(ctx, t.zfs.template(name))
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if list[0].template != name || list[0].kind != "filesystem" {
		return fault.New(fault.Denied, "dataset %q is not a template of ours", list[0].name)
	}
	for _, d := range list[1:] {
		if d.name != t.zfs.snapshot(name) {
			return fault.New(fault.Denied, "there is a %s %q below the template", d.kind, d.name).WithHint("remove it first")
		}
		if _, err := t.run(ctx, zfsProgram, "destroy", d.name); err != nil {
			return err
		}
	}
	_, err = t.run(ctx, zfsProgram, "destroy", list[0].name)
	return err
}
