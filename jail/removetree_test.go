package jail

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveTree(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("kept"), 0o640); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(t.TempDir(), "top")
	deep := filepath.Join(top, strings.Repeat("d/", 60), "end")
	for _, dir := range []string{deep, top + "/closed/inner", top + "/.moved-1/x", top + "/a/.moved-2"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(deep+"/file", nil, 0o400)
	os.Symlink(filepath.Dir(outside), top+"/link")
	os.Symlink(outside, deep+"/link")
	unix.Mkfifo(top+"/closed/inner/fifo", 0)
	os.Chmod(top+"/closed/inner", 0)
	os.Chmod(top+"/closed", 0)
	os.Chmod(deep, 0)
	if err := removeTree(top); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("a link was followed: %v, %v", st, err)
	}
	if err := removeTree(top); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
}
