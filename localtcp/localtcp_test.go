package localtcp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDial(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		to := l.Addr().(*net.TCPAddr).AddrPort()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, io.LimitReader(c, 5))
			_ = c.Close()
		}()
		f, err := Dial(to, time.Now().Add(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("hello"); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(f); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		if err := f.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		if _, err := f.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline does not hold: %v", err)
		}
		_ = f.Close()
		_ = l.Close()
		began := time.Now()
		if f, err := Dial(to, time.Now().Add(time.Minute)); !errors.Is(err, unix.ECONNREFUSED) || time.Since(began) > 10*time.Second {
			t.Errorf("a closed port: %v, %v after %v", f, err, time.Since(began))
		}
	}
}

func TestDialRefuses(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:80", "192.0.2.1:80", "[::]:80", "[::ffff:127.0.0.1]:80", "[::1%lo]:80", "[fe80::1]:80", "169.254.169.254:80"} {
		if f, err := Dial(netip.MustParseAddrPort(address), time.Now()); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v, %v", address, f, err)
		}
	}
	if f, err := Dial(netip.AddrPort{}, time.Now()); !errors.Is(err, ErrAddress) {
		t.Errorf("no address: %v, %v", f, err)
	}
}

// Nobody waits for ever for a listener whose queue is full.
func TestDialFullQueue(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*unix.SockaddrInet4).Port))
	var last error
	for range 20 {
		f, err := Dial(to, time.Now().Add(100*time.Millisecond))
		if err != nil {
			last = err
			break
		}
		defer f.Close()
	}
	// Linux lets it wait, FreeBSD resets.
	if !errors.Is(last, os.ErrDeadlineExceeded) && !errors.Is(last, unix.ECONNREFUSED) && !errors.Is(last, unix.ECONNRESET) {
		t.Errorf("got %v", last)
	}
	// When the queue is taken in the meantime, whoever waits gets through.
	if errors.Is(last, os.ErrDeadlineExceeded) {
		result := make(chan error, 1)
		go func() {
			f, err := Dial(to, time.Now().Add(20*time.Second))
			if err == nil {
				_ = f.Close()
			}
			result <- err
		}()
		for done := false; !done; {
			if c, _, err := unix.Accept(fd); err == nil {
				_ = unix.Close(c)
			}
			select {
			case err := <-result:
				done = true
				if err != nil {
					t.Errorf("although there was room: %v", err)
				}
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	if last != nil && !strings.Contains(last.Error(), "connect") {
		t.Errorf("%q does not say what failed", last)
	}
}
