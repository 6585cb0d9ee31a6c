//go:build host

package jail

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// These tests make jails and mounts on the host they run on. They need the build tag, root, and PLAYGROUND_HOST_TESTS=1; all
// that they make has a name of their own and is removed again.

const helperVar = "PLAYGROUND_HOST_HELPER"

// What the tests are made of: the host's own kernel.
var (
	kernel freebsd
	mounts = mounter{kernel}
)

func TestMain(m *testing.M) {
	if act := os.Getenv(helperVar); act != "" {
		os.Exit(helper(act))
	}
	os.Exit(m.Run())
}

// helper is what a test runs in a jail; its exit status is the errno.
func helper(act string) int {
	family := map[string]int{"inet": unix.AF_INET, "inet6": unix.AF_INET6, "unix": unix.AF_UNIX}
	status := func(err error) int {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return int(errno)
		}
		return 0
	}
	switch act {
	case "inet", "inet6", "unix":
		_, err := unix.Socket(family[act], unix.SOCK_STREAM, 0)
		return status(err)
	case "child":
		_, err := kernel.createJail("grandchild", required(stringPair("name", "grandchild"), stringPair("path", "/"), flagPair("persist")))
		return status(err)
	case "sleep":
		time.Sleep(time.Hour)
	}
	return 250
}

func hostTest(t *testing.T) {
	t.Helper()
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" || os.Geteuid() != 0 {
		t.Skip("needs root and PLAYGROUND_HOST_TESTS=1")
	}
}

// hostDir is a folder with a real path, whose mounts are gone at the end whatever failed.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mounts.unmountOurs(dir, func(mounted) bool { return true }, true)
	})
	return dir
}

func testName(t *testing.T) string {
	return "pgtest-" + strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
}

func newJail(t *testing.T, params []param) int {
	t.Helper()
	jid, err := kernel.createJail("test", params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(Remove(jid), WaitGone(context.Background(), jid, 90*time.Second)); err != nil {
			t.Error(err)
		}
	})
	return jid
}

// inJail starts the test program in a jail whose root is the host's.
func inJail(t *testing.T, jid int, act string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: self, Args: []string{self}, Dir: "/", Env: []string{helperVar + "=" + act}, SysProcAttr: &syscall.SysProcAttr{Jail: jid}}
}

func intParam(t *testing.T, jid int, name string) int {
	t.Helper()
	pairs := []pair{intPair("jid", int32(jid)), {name, make([]byte, 4)}}
	if _, err := vectorCall(unix.SYS_JAIL_GET, "look up jail", name, pairs, 0); err != nil {
		t.Fatalf("parameter %s: %v", name, err)
	}
	return intValue(pairs[1])
}

func TestHostTenantJail(t *testing.T) {
	hostTest(t)
	for _, c := range []struct {
		network  Network
		address  string
		ip4, ip6 int
	}{
		{NetworkNone, "", sysDisable, sysDisable},
		{NetworkInherit, "", sysInherit, sysInherit},
		// To the kernel "new" and "disable" are one flag, which it reports as "disable" (kern_jail.c pr_flag_jailsys).
		{NetworkAddress, "127.80.255.7", sysDisable, sysDisable},
	} {
		t.Run(string(c.network), func(t *testing.T) {
			j := tenantJail{name: testName(t), path: hostDir(t), network: c.network}
			if c.address != "" {
				j.address = netip.MustParseAddr(c.address)
			}
			params, err := j.params()
			if err != nil {
				t.Fatal(err)
			}
			jid := newJail(t, params)
			for name, want := range map[string]int{
				"children.max": 0, "enforce_statfs": 2, "securelevel": 3, "devfs_ruleset": 0, "persist": 1, "dying": 0, "ip4": c.ip4, "ip6": c.ip6,
				"allow.set_hostname": 0, "allow.raw_sockets": 0, "allow.chflags": 0, "allow.mount": 0, "allow.quotas": 0, "allow.socket_af": 0,
				"allow.mlock": 0, "allow.read_msgbuf": 0, "allow.sysvipc": 0, "allow.reserved_ports": 0, "allow.unprivileged_proc_debug": 0, "allow.suser": 1,
			} {
				if got := intParam(t, jid, name); got != want {
					t.Errorf("%s is %d, want %d", name, got, want)
				}
			}
			pairs := []pair{intPair("jid", int32(jid)), {"ip4.addr", make([]byte, 4)}}
			if _, err := vectorCall(unix.SYS_JAIL_GET, "look up jail", j.name, pairs, 0); c.address != "" && (err != nil || !slices.Equal(pairs[1].value, j.address.AsSlice())) {
				t.Errorf("its addresses are %v, %v", pairs[1].value, err)
			}
			if _, err := kernel.createJail("test", params); !errors.Is(err, unix.EEXIST) {
				t.Errorf("twice: %v", err)
			}
			info, err := kernel.lookup(j.name)
			if err != nil || info.JID != jid || info.Path != j.path || info.State != Alive || info.Parent != 0 {
				t.Errorf("look-up: %+v, %v", info, err)
			}
		})
	}
}

func TestHostUnknownParameter(t *testing.T) {
	hostTest(t)
	_, err := kernel.createJail("test", required(stringPair("name", testName(t)), flagPair("persist"), flagPair("allow.noplayground")))
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "unknown parameter") {
		t.Errorf("%v", err)
	}
	if ok, err := kernelHasParam("allow.noplayground"); ok || err != nil {
		t.Errorf("the kernel knows it: %v, %v", ok, err)
	}
	for _, name := range append([]string{"sysvmsg", "vnet", "ip4"}, denied[:]...) {
		if ok, err := kernelHasParam(name); !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func TestHostLeaf(t *testing.T) {
	hostTest(t)
	name := testName(t)
	params, err := tenantJail{name: name, path: "/", network: NetworkNone}.params()
	if err != nil {
		t.Fatal(err)
	}
	tenant := newJail(t, params)
	leaf, err := CreateLeaf(LeafSpec{Parent: name, Name: "job1", Root: "/"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Jails()
	if err != nil || !slices.ContainsFunc(all, func(j Info) bool {
		return j.JID == leaf && j.Parent == tenant && j.Name == name+".job1" && j.Path == "/"
	}) {
		t.Fatalf("jails: %+v, %v", all, err)
	}
	for act, want := range map[string]syscall.Errno{"inet": unix.EPROTONOSUPPORT, "inet6": unix.EPROTONOSUPPORT, "unix": 0, "child": unix.EPERM} {
		cmd := inJail(t, leaf, act)
		cmd.Run()
		if got := syscall.Errno(cmd.ProcessState.ExitCode()); got != want {
			t.Errorf("%s in the leaf: %v, want %v", act, got, want)
		}
	}
	// A process that nobody waited for keeps the jail dying, and its name is free all the same.
	cmd := inJail(t, leaf, "sleep")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(leaf); err != nil {
		t.Fatal(err)
	}
	if state, err := StateOf(leaf); err != nil || state != Dying {
		t.Errorf("with a zombie: %v, %v", state, err)
	}
	if _, state, err := Lookup(name + ".job1"); err != nil || state != Gone {
		t.Errorf("look-up of a dying jail: %v, %v", state, err)
	}
	if err := WaitGone(t.Context(), leaf, 50*time.Millisecond); !errors.Is(err, fault.Busy) {
		t.Errorf("wait: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	if err := WaitGone(t.Context(), leaf, 10*time.Second); err != nil {
		t.Error(err)
	}
	if err := Remove(leaf); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestHostDevfs(t *testing.T) {
	hostTest(t)
	root := hostDir(t)
	if err := kernel.ruleset(28999); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a ruleset that does not exist: %v", err)
	}
	for range 2 {
		if err := kernel.ruleset(ownRuleset); err != nil {
			t.Fatal(err)
		}
	}
	plan := []mount{{fstype: "devfs", on: "/dev", ruleset: ownRuleset}, {fstype: "fdescfs", on: "/dev/fd"}}
	if err := mounts.mountAll(root, plan, oursBelow(root, root, "")); err != nil {
		t.Fatal(err)
	}
	if err := kernel.devices(root); err != nil {
		t.Error(err)
	}
	for _, node := range []string{"null", "zero", "random", "fd", "pts"} {
		if _, err := os.Lstat(filepath.Join(root, "dev", node)); err != nil && node != "pts" { // pts appears with the first one
			t.Error(err)
		}
	}
	for _, node := range []string{"mem", "kmem", "io", "pci", "klog", "bpf", "zfs", "ada0", "da0", "vtbd0", "devctl", "console"} {
		if _, err := os.Lstat(filepath.Join(root, "dev", node)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", node, err)
		}
	}
	// The host's own, which hides nothing, must not pass.
	if err := kernel.devices("/"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the host's /dev: %v", err)
	}
}

func TestHostMounts(t *testing.T) {
	hostTest(t)
	dir := hostDir(t)
	root := filepath.Join(dir, "root")
	for _, d := range []string{"root/base", "lower/inside", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"lower/covered", "other/over", "other/two"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan := []mount{
		{fstype: "nullfs", from: filepath.Join(dir, "lower"), on: "/base", readOnly: true},
		{fstype: "nullfs", from: filepath.Join(dir, "other/over"), on: "/base/covered", file: true, noSuid: true},
		tmpMount(8 << 20),
	}
	ours := oursBelow(root, dir, "")
	for range 2 { // the second finds all there
		if err := mounts.mountAll(root, plan, ours); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "base/x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write to a read-only mount: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "base/covered")); err != nil || string(data) != "other/over" {
		t.Errorf("file over file: %q, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(root, "tmp/big"), make([]byte, 16<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("tmpfs over its size: %v", err)
	}
	if err := os.Remove(filepath.Join(root, "tmp/big")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A mount of the operator's is left alone, and keeps the rest.
	if err := os.Mkdir(filepath.Join(root, "tmp/op"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mounts.mountOne(root, mount{fstype: "nullfs", from: "/etc", on: "/tmp/op", readOnly: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := mounts.settle(t.Context(), root, ours, time.Second); !errors.Is(err, fault.Busy) {
		t.Errorf("with a mount of the operator's: %v", err)
	}
	if err := mounts.unmountOurs(root, func(m mounted) bool { return m.from == "/etc" }, false); err != nil {
		t.Fatal(err)
	}
	// By fsid a mount is found under another one that hides its path.
	table, err := kernel.mountTable()
	if err != nil {
		t.Fatal(err)
	}
	hidden, ok := topAt(table, filepath.Join(root, "tmp"))
	if !ok {
		t.Fatal("tmp is not in the table")
	}
	if err := mounts.mountOne(root, tmpMount(1<<20), table); err != nil {
		t.Fatal(err)
	}
	if err := kernel.unmount(hidden, false); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Errorf("by fsid: %v", err)
	}
	if err := mounts.settle(t.Context(), root, ours, 5*time.Second); err != nil {
		t.Error(err)
	}
	if table, err = kernel.mountTable(); err != nil || len(below(table, dir)) > 0 {
		t.Errorf("left: %+v, %v", below(table, dir), err)
	}
}

func TestHostMountRefusesLinks(t *testing.T) {
	hostTest(t)
	dir := hostDir(t)
	root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	for _, d := range []string{root, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(root, "tmp")); err != nil {
		t.Fatal(err)
	}
	if err := mounts.mountAll(root, []mount{tmpMount(1 << 20)}, oursBelow(root, dir, "")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("mount over a link: %v", err)
	}
	if table, err := kernel.mountTable(); err != nil || len(below(table, dir)) > 0 {
		t.Errorf("left: %+v, %v", below(table, dir), err)
	}
}
