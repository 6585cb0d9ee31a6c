package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"playground/config"
	"playground/internal/rootd"
)

// limitFile bounds the user namespaces below the one that writes it.
const limitFile = "/proc/sys/user/max_user_namespaces"

// TestMain is also the daemon on a host that forbids namespaces, when it is asked to be.
func TestMain(m *testing.M) {
	if path := os.Getenv("JAILD_TEST_CONFIG"); path != "" {
		if err := os.WriteFile(limitFile, []byte("0"), 0); err != nil {
			fmt.Fprintln(os.Stderr, "cannot forbid namespaces:", err)
			os.Exit(77)
		}
		os.Exit(rootd.Main("playground-jaild", config.Config.JailSocket, []string{"-c", path}, os.Stdout, os.Stderr, serve))
	}
	os.Exit(m.Run())
}

// The daemon does not wait for the first tenant to say that there can be none, and leaves no socket that looks alive.
func TestRefusesHostWithoutNamespaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "playground.toml")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\n", filepath.Join(dir, "state"), filepath.Join(dir, "run"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "JAILD_TEST_CONFIG="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code == 77 || code == -1 {
		t.Skipf("this host does not let a test forbid namespaces: %v %s", err, &stderr)
	}
	for _, want := range []string{"sandboxes cannot be made on this host", "namespaces: ", "hint: sysctl -w user.max_user_namespaces="} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, &stderr)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	if _, err := os.Lstat(filepath.Join(dir, "run", "jaild.sock")); err == nil {
		t.Error("a socket was made")
	}
}
