package localapi_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/fault"
	"playground/localapi"
)

func TestListenMode(t *testing.T) {
	path := socketPath(t)
	ln, err := localapi.Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), fs.ModeSocket|0o660; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
}

func TestListenTakesOverStaleSocket(t *testing.T) {
	path := socketPath(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false) // as after kill -9
	old.Close()
	ln, err := localapi.Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

func TestListenRefusals(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(dir, "live")
	ln, err := localapi.Listen(live, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(live, link); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       error
		text       string
	}{
		{"file", file, fault.Exists, "not a socket"},
		{"folder", dir, fault.Exists, "not a socket"},
		{"link to a live socket", link, fault.Exists, "not a socket"},
		{"live socket", live, fault.Busy, "already listens"},
		{"104 bytes", dir + "/" + strings.Repeat("s", 103-len(dir)), fault.Invalid, "at most 103"},
		{"missing folder", filepath.Join(dir, "none", "s"), fs.ErrNotExist, "cannot listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := localapi.Listen(tt.path, 0o660)
			if err == nil {
				ln.Close()
				t.Fatal("Listen succeeded")
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q, want kind %q and text %q", err, tt.want, tt.text)
			}
		})
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file was touched: %q, %v", data, err)
	}
	conn, err := net.Dial("unix", live)
	if err != nil {
		t.Fatalf("the live socket was touched: %v", err)
	}
	conn.Close()
}

func TestLongestPathWorks(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	path := dir + "/" + strings.Repeat("s", 102-len(dir))
	ln, err := localapi.Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

func TestMissingDaemon(t *testing.T) {
	stale := socketPath(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	for name, path := range map[string]string{"no socket": socketPath(t), "stale socket": stale} {
		client := localapi.NewClient(path)
		client.Daemon = "playground-jaild"
		err := client.Do(context.Background(), "GET", "/x", nil, nil)
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "cannot reach playground-jaild at "+path) {
			t.Errorf("%s: error %v", name, err)
		}
		if !strings.Contains(fault.HintOf(err), "playground up") {
			t.Errorf("%s: hint %q", name, fault.HintOf(err))
		}
	}
	client := localapi.NewClient("/" + strings.Repeat("s", 103))
	if err := client.Do(context.Background(), "GET", "/x", nil, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("long path: error %v", err)
	}
}

func TestProbe(t *testing.T) {
	before := time.Now().Add(-time.Minute)
	client := serve(t, localapi.Options{})
	probe, err := client.Probe(context.Background())
	if err != nil || probe.PID != int32(os.Getpid()) || probe.Since.Before(before) || probe.Since.After(time.Now().Add(time.Minute)) {
		t.Errorf("got %+v, %v", probe, err)
	}
	if _, err := localapi.NewClient(socketPath(t)).Probe(context.Background()); !errors.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("missing daemon: %v", err)
	}
}
