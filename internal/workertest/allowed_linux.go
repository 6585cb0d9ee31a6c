package workertest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Allowed skips a test where the host forbids what isolates a worker, unless the programs are to be tested in earnest.
func Allowed(tb testing.TB) {
	tb.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if err := cmd.Run(); err != nil && os.Getenv("PLAYGROUND_BIN") == "" {
		tb.Skipf("this host forbids what isolates a worker: %v", err)
	}
}
