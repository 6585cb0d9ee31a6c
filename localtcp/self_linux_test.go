package localtcp

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSelf: where nobody listens at a port that the kernel also gives to whoever connects, TCP can connect a socket to itself. That is
// no connection to anybody, and would keep the port from the program that is meant to listen there.
func TestSelf(t *testing.T) {
	if os.Getenv("PLAYGROUND_ROOT_TESTS") != "1" {
		t.Skip("set PLAYGROUND_ROOT_TESTS=1 as root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its network
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := loopbackUp(); err != nil {
				return err
			}
			if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0); err != nil {
				return err
			}
			for range 8 {
				conn, err := Dial(netip.MustParseAddrPort("127.0.0.1:40000"), time.Now().Add(time.Second))
				if err == nil {
					_ = conn.Close()
					return errors.New("it connected to itself")
				}
				if !errors.Is(err, unix.ECONNREFUSED) {
					return err
				}
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
