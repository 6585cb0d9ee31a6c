//go:build host

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel of this host keeps a sealed file from all but growing, through a descriptor that was there before, too. On ZFS that is
// so for writes only, and is told so (record.Enforcement).
func TestSealedFileOnlyGrows(t *testing.T) {
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" || os.Geteuid() != 0 {
		t.Skip("needs root and PLAYGROUND_HOST_TESTS=1")
	}
	if level, err := unix.SysctlUint32("kern.securelevel"); err != nil || int32(level) > 0 {
		t.Skipf("what it makes could not be removed at securelevel %d (%v)", int32(level), err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "records-2026-01-02-000001.jsonl")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seal := sealer(folder, os.Geteuid)
	for range 2 { // the second time does nothing
		if err := seal(filepath.Base(path)); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := unix.Chflags(path, 0); err != nil {
			t.Error(err)
		}
	}()
	if _, err := file.WriteString("one\n"); err != nil {
		t.Errorf("it cannot grow: %v", err)
	}
	_, openErr := os.OpenFile(path, os.O_WRONLY, 0)
	refused := map[string]error{"open for other writes": openErr}
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		t.Fatal(err)
	}
	if fstype := unix.ByteSliceToString(st.Fstypename[:]); fstype == "ufs" {
		refused["remove"], refused["rename"] = os.Remove(path), os.Rename(path, path+"x")
		refused["truncate"], refused["chmod"] = os.Truncate(path, 0), os.Chmod(path, 0o666)
	} else {
		t.Logf("on %s nothing but writes is looked at", fstype)
	}
	for name, err := range refused {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "one\n" {
		t.Errorf("it holds %q, %v", data, err)
	}
}
