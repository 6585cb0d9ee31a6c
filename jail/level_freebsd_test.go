package jail

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// skipWherePermanent skips a test that makes append-only files where nobody could remove them again before a reboot.
func skipWherePermanent(t *testing.T) {
	t.Helper()
	level, err := unix.SysctlUint32("kern.securelevel")
	if os.Geteuid() == 0 && (err != nil || int32(level) > 0) {
		t.Skip("at this securelevel append-only piles could not be removed again")
	}
}
