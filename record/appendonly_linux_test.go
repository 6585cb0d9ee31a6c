package record

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// unlockAppendOnly lets the test's folder be removed.
func unlockAppendOnly(t testing.TB, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&fsAppendFL != 0 {
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^fsAppendFL); err != nil {
			t.Error(err)
		}
	}
}
