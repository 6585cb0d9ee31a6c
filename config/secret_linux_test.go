package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"playground/fault"
)

// A daemon that has given root up is told whose the file must be, and not only that it may not read it.
func TestSecretFileOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root becomes somebody else")
	}
	// Not t.TempDir: its folders are root's alone, too.
	dir, err := os.MkdirTemp("/tmp", "playground-secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "token")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, []byte("sesame"), 0o600)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its rights
		if err := syscall.Setfsuid(65533); err != nil {
			read <- err
			return
		}
		_, err := PrivateFile(path, 100)
		read <- err
	}()
	if err := <-read; !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), path) || !strings.Contains(fault.HintOf(err), "mode 0400") {
		t.Errorf("got %v (%s)", err, fault.HintOf(err))
	}
}
