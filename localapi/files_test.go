package localapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/localapi"
)

// pair returns the two ends of a connected unix stream.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	ln, err := localapi.Listen(socketPath(t), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err = net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	b, err = ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// pipes returns the write ends of n pipes and the read ends.
func pipes(t *testing.T, n int) (writers, readers []*os.File) {
	t.Helper()
	for range n {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		writers, readers = append(writers, w), append(readers, r)
	}
	return writers, readers
}

func TestFilesArrive(t *testing.T) {
	a, b := pair(t)
	writers, readers := pipes(t, 2)
	if err := localapi.SendFiles(a, []byte("hello"), writers...); err != nil {
		t.Fatal(err)
	}
	data, files, err := localapi.ReceiveFiles(b, 16, 2)
	if err != nil || string(data) != "hello" || len(files) != 2 {
		t.Fatalf("got %q, %d files, %v", data, len(files), err)
	}
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
			if err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("file %d is not close-on-exec: %v", i, err)
			}
		})
		f.WriteString("x")
		f.Close()
		writers[i].Close()
		if got, err := io.ReadAll(readers[i]); err != nil || string(got) != "x" {
			t.Errorf("file %d is not the one sent: %q, %v", i, got, err)
		}
	}
}

// TestRefusedFilesAreClosed sends what must not be taken and then looks for descriptors left open: a pipe whose every
// writer is closed is at its end.
func TestRefusedFilesAreClosed(t *testing.T) {
	for name, n := range map[string]int{"one too many, in the padding": 2, "truncated": 40} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			writers, readers := pipes(t, n)
			if err := localapi.SendFiles(a, []byte{0}, writers...); err != nil {
				t.Fatal(err)
			}
			if _, _, err := localapi.ReceiveFiles(b, 1, 1); !errors.Is(err, fault.Invalid) {
				t.Errorf("error %v, want invalid", err)
			}
			for i := range writers {
				writers[i].Close()
				readers[i].SetReadDeadline(time.Now().Add(5 * time.Second))
				if _, err := readers[i].Read(make([]byte, 1)); err != io.EOF {
					t.Fatalf("pipe %d is still open: %v", i, err)
				}
			}
		})
	}
}

func TestDirectoryIsRefused(t *testing.T) {
	a, b := pair(t)
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	writers, readers := pipes(t, 1)
	if err := localapi.SendFiles(a, []byte{0}, writers[0], dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := localapi.ReceiveFiles(b, 1, 2); !errors.Is(err, fault.Denied) {
		t.Errorf("error %v, want denied", err)
	}
	writers[0].Close()
	readers[0].SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := readers[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the pipe that came with it is still open: %v", err)
	}
}

func TestReceiveEnd(t *testing.T) {
	a, b := pair(t)
	if err := localapi.SendFiles(a, nil); err == nil {
		t.Error("no data was sent without an error")
	}
	if err := localapi.SendFiles(a, []byte("no files")); err != nil {
		t.Fatal(err)
	}
	if data, files, err := localapi.ReceiveFiles(b, 16, 1); string(data) != "no files" || len(files) != 0 || err != nil {
		t.Errorf("got %q, %v, %v", data, files, err)
	}
	a.Close()
	if _, _, err := localapi.ReceiveFiles(b, 1, 1); err != io.EOF {
		t.Errorf("error %v, want EOF", err)
	}
}

func TestUpgradePassesDescriptors(t *testing.T) {
	writers, readers := pipes(t, 1)
	client := serve(t, localapi.Options{}, post(func(w http.ResponseWriter, r *http.Request) error {
		var in thing
		if err := localapi.Decode(r, &in); err != nil {
			return err
		}
		if in.Name == "" {
			return fault.New(fault.NotOpen, "nothing to pass").WithHint("open it")
		}
		conn, err := localapi.Hijack(w, r)
		if err != nil {
			return err
		}
		defer conn.Close()
		// At once, to hold the client to not reading past the answer's head.
		return localapi.SendFiles(conn, []byte("k"), writers[0])
	}))
	conn, err := client.Upgrade(context.Background(), "/x", thing{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	data, files, err := localapi.ReceiveFiles(conn, 1, 1)
	if err != nil || !bytes.Equal(data, []byte("k")) || len(files) != 1 {
		t.Fatalf("got %q, %d files, %v", data, len(files), err)
	}
	files[0].WriteString("x")
	files[0].Close()
	if got := make([]byte, 1); true {
		if _, err := readers[0].Read(got); err != nil || got[0] != 'x' {
			t.Errorf("read %q, %v", got, err)
		}
	}
	_, err = client.Upgrade(context.Background(), "/x", thing{})
	if !errors.Is(err, fault.NotOpen) || fault.HintOf(err) != "open it" {
		t.Errorf("refused upgrade: %v", err)
	}
	if err := client.Do(context.Background(), "POST", "/x", thing{Name: "a"}, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("plain request to an upgrade route: %v", err)
	}
}

func TestUpgradeEndsWithContext(t *testing.T) {
	client := serve(t, localapi.Options{}, post(func(_ http.ResponseWriter, r *http.Request) error {
		var in thing
		if err := localapi.Decode(r, &in); err != nil {
			return err
		}
		<-r.Context().Done()
		return r.Context().Err()
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Upgrade(ctx, "/x", thing{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want deadline exceeded", err)
	}
	missing := localapi.NewClient(socketPath(t))
	if _, err := missing.Upgrade(context.Background(), "/x", nil); !errors.Is(err, fault.Unavailable) {
		t.Errorf("missing daemon: %v", err)
	}
}
