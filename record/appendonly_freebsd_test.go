package record

import (
	"testing"

	"golang.org/x/sys/unix"
)

// unlockAppendOnly lets the test's folder be removed.
func unlockAppendOnly(t testing.TB, path string) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Error(err)
		return
	}
	if st.Flags&sfAppend != 0 {
		if err := unix.Chflags(path, int(st.Flags&^sfAppend)); err != nil {
			t.Error(err)
		}
	}
}
