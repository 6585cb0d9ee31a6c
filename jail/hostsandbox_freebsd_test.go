//go:build host

package jail

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
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

// hostManager is a manager on thin storage whose template is the host's /rescue as a system of its own.
func hostManager(t *testing.T, dir string) *Manager {
	t.Helper()
	skipWherePermanent(t)
	t.Cleanup(func() {
		if err := RemoveState(dir); err != nil {
			t.Error(err)
		}
	})
	m, err := NewManager(Options{Prefix: "pgtest", StateDir: dir, Isolation: IsolationJail, Network: NetworkNone, HandleTTL: time.Hour, Path: "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hostSystem(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"bin", "etc", "usr/bin", "usr/local", "var/run", "root"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh, err := os.ReadFile("/rescue/sh")
	if err != nil {
		t.Skip("needs /rescue/sh")
	}
	if err := os.WriteFile(filepath.Join(root, "bin/sh"), sh, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestHostSandbox(t *testing.T) {
	hostTest(t)
	dir := hostDir(t)
	m := hostManager(t, dir)
	if _, err := newTemplates(t, dir).Create(t.Context(), DefaultTemplate, hostSystem(t)); err != nil {
		t.Fatal(err)
	}
	sb, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if lies, err := kernel.statfs(dir); err != nil || sb.AppendOnly.Enforced != flagWorth(lies.fstype, -1).Enforced {
		t.Errorf("append-only on %s: %+v, %v", lies.fstype, sb.AppendOnly, err)
	}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{Cwd: "/workspace"}); err != nil {
		t.Fatal(errors.Join(err, errors.Unwrap(err)))
	}
	a, err := m.Attachment(t.Context(), "alice")
	if err != nil || a.Root == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	leaf, err := CreateLeaf(LeafSpec{Parent: sb.Name, Name: "job1", Root: a.Root})
	if err != nil {
		t.Fatal(err)
	}
	script := "echo hi > /workspace/x && echo hi > /home/alice/x && echo hi > /tmp/x && echo hi >> /pile/self.pile && echo hi >> /shared/shared.pile && " +
		"! echo no > /bin/x && ! echo no > /shared/x && ! echo no > /pile/self.pile && echo ok"
	// Flags that a tenant's root may set must not make its storage undestroyable.
	kept := m.store.path(sb.ID, "workspace/kept")
	if err := os.MkdirAll(kept+"/in", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chflags(kept, ufKeepers); err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // ZFS has none of them
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: "/", Stdout: &out, Stderr: &errs, SysProcAttr: &syscall.SysProcAttr{Jail: leaf}}
	if err := cmd.Run(); err != nil || out.String() != "ok\n" {
		t.Errorf("in the jail: %v, %q, %q", err, out.String(), errs.String())
	}
	if _, err := m.Close(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Busy) {
		t.Errorf("destroy with a job: %v", err)
	}
	reattached(t, dir, a, leaf)
	if err := errors.Join(Remove(leaf), WaitGone(t.Context(), leaf, 10*time.Second)); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
	table, err := kernel.mountTable()
	if err != nil || len(below(table, dir)) > 0 {
		t.Errorf("mounts left: %+v, %v", below(table, dir), err)
	}
	all, err := Jails()
	if err != nil || slices.ContainsFunc(all, func(j Info) bool { return strings.HasPrefix(j.Name, "pgtest-alice") && j.State == Alive }) {
		t.Errorf("jails left: %+v, %v", all, err)
	}
}

// reattached looks at the same host as a daemon that starts now: the jail with its job stands, and is adopted.
func reattached(t *testing.T, dir string, a Attachment, leaf int) {
	t.Helper()
	m, err := NewManager(Options{Prefix: "pgtest", StateDir: dir, Isolation: IsolationJail, Network: NetworkNone, HandleTTL: time.Hour, Path: "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if failed := m.Reattach(t.Context()); len(failed) > 0 {
		t.Errorf("reattach: %v", failed)
	}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := m.Attachment(t.Context(), "alice")
	if err != nil || again.Root != a.Root || again.Generation == a.Generation {
		t.Errorf("%+v, %v", again, err)
	}
	if state, err := StateOf(leaf); err != nil || state != Alive {
		t.Errorf("the job's jail: %v, %v", state, err)
	}
	if _, err := m.Close(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
}

// TestHostZFS needs a dataset to make others below: PLAYGROUND_HOST_DATASET=zroot/pgtest.
func TestHostZFS(t *testing.T) {
	hostTest(t)
	parent := os.Getenv("PLAYGROUND_HOST_DATASET")
	if parent == "" {
		t.Skip("needs PLAYGROUND_HOST_DATASET")
	}
	dir := hostDir(t)
	hostManager(t, dir) // for what it skips and removes
	opts := Options{
		Prefix: "pgtest", StateDir: dir, Isolation: IsolationJail, Network: NetworkNone, HandleTTL: time.Hour, Path: "/bin",
		Storage: StorageZFS, Dataset: parent, Quota: 32 << 20, TmpBytes: 4 << 20,
	}
	templates, err := NewTemplates(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := templates.Create(t.Context(), DefaultTemplate, hostSystem(t)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := templates.Destroy(context.Background(), DefaultTemplate); err != nil {
			t.Error(err)
		}
	}()
	m, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := m.Provision(t.Context(), ProvisionSpec{Tenant: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(errors.Join(err, errors.Unwrap(err)))
	}
	root := m.store.path(sb.ID, "root")
	big := make([]byte, 64<<20)
	rand.Read(big) // zeros would take no space where the pool compresses
	if err := os.WriteFile(filepath.Join(root, "workspace/big"), big, 0o600); !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("over the quota: %v", err)
	}
	if err := templates.Destroy(t.Context(), DefaultTemplate); !errors.Is(err, fault.Busy) {
		t.Errorf("template in use: %v", err)
	}
	// A snapshot of the operator's keeps the dataset.
	snapshot := m.store.backing.(*zfsBacking).zfs.sandbox(sb.ID) + "@op"
	if _, err := runProgram(t.Context(), zfsProgram, "snapshot", snapshot); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), "alice"); !errors.Is(err, fault.Denied) {
		t.Errorf("with a snapshot: %v", err)
	}
	if _, err := runProgram(t.Context(), zfsProgram, "destroy", snapshot); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
}

func TestHostSessionsComeBack(t *testing.T) {
	hostTest(t)
	dir := hostDir(t)
	m := hostManager(t, dir)
	if _, err := newTemplates(t, dir).Create(t.Context(), DefaultTemplate, hostSystem(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob"} {
		if _, err := m.Provision(t.Context(), ProvisionSpec{Tenant: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{Cwd: "/workspace"}); err != nil {
		t.Fatal(errors.Join(err, errors.Unwrap(err)))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := m.Run(ctx); err != nil { // as when the daemon stops: idle jails go
		t.Fatal(err)
	}
	if _, state, err := Lookup("pgtest-alice"); err != nil || state != Gone {
		t.Errorf("after the stop: %v, %v", state, err)
	}
	again, err := NewManager(m.opts)
	if err != nil {
		t.Fatal(err)
	}
	if failed := again.Reattach(t.Context()); len(failed) > 0 {
		t.Errorf("reattach: %v", failed)
	}
	if _, state, err := Lookup("pgtest-alice"); err != nil || state != Alive {
		t.Errorf("alice: %v, %v", state, err)
	}
	if _, state, err := Lookup("pgtest-bob"); err != nil || state != Gone {
		t.Errorf("bob, who had no session: %v, %v", state, err)
	}
	for _, name := range []string{"alice", "bob"} {
		if err := again.Destroy(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}
