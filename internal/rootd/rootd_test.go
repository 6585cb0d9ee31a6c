package rootd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/fault"
	"playground/localapi"
)

func TestLockWaits(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	first, err := lock(t.Context(), dir, "x", time.Second, zerolog.New(&log))
	if err != nil || log.Len() > 0 {
		t.Fatalf("first: %v, log %q", err, &log)
	}
	// The old daemon still ends its jobs; a lock of another name is not its.
	if other, err := lock(t.Context(), dir, "y", time.Second, zerolog.New(&log)); err != nil || other.Close() != nil {
		t.Errorf("another daemon's lock: %v", err)
	}
	freed := time.AfterFunc(300*time.Millisecond, func() { _ = first.Close() })
	defer freed.Stop()
	second, err := lock(t.Context(), dir, "x", 10*time.Second, zerolog.New(&log))
	if err != nil {
		t.Fatalf("second: %v", err)
	}
	if n := strings.Count(log.String(), eventWaiting); n != 1 {
		t.Errorf("told %d times that it waits, want once:\n%s", n, &log)
	}
	if _, err := lock(t.Context(), dir, "x", 150*time.Millisecond, zerolog.Nop()); !errors.Is(err, fault.Busy) || fault.HintOf(err) == "" {
		t.Errorf("third: %v, want busy", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// The lock's name may not lead elsewhere.
func TestLockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "x.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(t.Context(), dir, "x", time.Second, zerolog.Nop()); err == nil {
		t.Error("followed a link")
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
		t.Error("made a file elsewhere")
	}
}

func TestWaitReady(t *testing.T) {
	dir, err := os.MkdirTemp("", "rd") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "x.sock")
	if err := waitReady(t.Context(), "x", socket, 250*time.Millisecond); !errors.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers: %v", err)
	}
	served := make(chan *http.Server, 1)
	late := time.AfterFunc(300*time.Millisecond, func() {
		listener, err := localapi.Listen(socket, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		server := localapi.Server(localapi.Handler(nil, localapi.Options{}))
		served <- server
		_ = server.Serve(listener) // until it is closed below
	})
	defer late.Stop()
	if err := waitReady(t.Context(), "x", socket, 10*time.Second); err != nil {
		t.Errorf("a refusal is an answer: %v", err)
	}
	_ = (<-served).Close()
}

// Whoever may not reach the socket is not told that the daemon serves.
func TestWaitReadyOfOthers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reaches every socket")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	err := waitReady(t.Context(), "x", filepath.Join(dir, "x.sock"), time.Minute)
	if !errors.Is(err, fault.Denied) || fault.HintOf(err) == "" {
		t.Errorf("got %v, want denied", err)
	}
}

func TestMakeDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	if err := makeDir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("made %v, %v", info, err)
	}
	// The operator's choice stays.
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("changed to %v, %v", info, err)
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.toml")
	text := "[host]\nstate_dir = \"" + dir + "/state\"\nrun_dir = \"" + dir + "/run\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"usage", []string{"-nope"}, 2, "-nope"},
		{"argument", []string{"x"}, 2, "unexpected argument"},
		{"version", []string{"-version"}, 0, "x "},
		{"test", []string{"-c", path, "-t"}, 0, "is correct"},
		{"no config", []string{"-c", path + "x"}, 1, "hint:"},
		{"not ready", []string{"-c", path, "-ready", "50ms"}, 1, "does not answer"},
		{"serve", []string{"-c", path}, 0, "served"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			status := Main("x", config.Config.JailSocket, tt.args, &out, &out, func(_ context.Context, h Host) error {
				// The lock is held while the daemon serves.
				if _, err := lock(t.Context(), h.Config.Host.StateDir, "x", 0, h.Log); !errors.Is(err, fault.Busy) {
					t.Errorf("lock: %v", err)
				}
				out.WriteString("served")
				return nil
			})
			if status != tt.status || !strings.Contains(out.String(), tt.want) {
				t.Errorf("status %d, want %d; output lacks %q:\n%s", status, tt.status, tt.want, &out)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "state", "x.lock")); err != nil {
		t.Errorf("the lock's file went away, and with it the lock: %v", err)
	}
}
