// Package localtcp connects to a TCP port of a loopback address, and to nothing else. It knows no names and no other networks,
// and needs nothing of package net, so that the lean process that keeps a sandbox can use it too.
//
// On a loopback the kernel makes a connection within connect(2), so that the usual wait for it, and the wake-up after it, are
// left out where they can be.
package localtcp

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Valid reports whether to is a literal loopback address with a port, without zone and not in a form that means another one.
func Valid(to netip.AddrPort) bool {
	ip := to.Addr()
	return ip.IsLoopback() && !ip.Is4In6() && ip.Zone() == "" && to.Port() != 0
}

// ErrAddress is an address that this package does not connect to.
var ErrAddress = errors.New("not a loopback address with a port")

// Dial connects until the deadline. The file is the socket: non-blocking, close-on-exec, with deadlines. Errors are ErrAddress
// and those of socket(2) and connect(2); os.ErrDeadlineExceeded when nobody took the connection.
func Dial(to netip.AddrPort, deadline time.Time) (*os.File, error) {
	fd, pending, err := connect(to)
	if err != nil {
		return nil, err
	}
	// Only now, because the runtime takes a socket that does not connect yet for one that is ready.
	file := os.NewFile(uintptr(fd), "connection")
	if pending {
		err = wait(file, deadline)
	}
	if err = met(fd, to, err); err != nil {
		_ = file.Close() // never used
		return nil, err
	}
	return file, nil
}

// connect begins a connection; pending means that the kernel goes on with it.
func connect(to netip.AddrPort) (fd int, pending bool, err error) {
	if !Valid(to) {
		return -1, false, ErrAddress
	}
	family, name := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, name = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, false, os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, name)
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		_, peerErr := syscall.Getpeername(fd)
		return fd, peerErr != nil, nil // it is mostly made by now
	}
	if err != nil {
		_ = unix.Close(fd) // never used
		return -1, false, os.NewSyscallError("connect", err)
	}
	return fd, false, nil
}

// met returns why a connection was not made, or was made with itself: where nobody listens, the kernel may give the socket the
// very port that it was to connect to, and TCP lets it meet itself.
func met(fd int, to netip.AddrPort, err error) error {
	if err == nil && local(fd) == to {
		err = unix.ECONNREFUSED
	}
	return os.NewSyscallError("connect", err)
}

// local returns the socket's own address, the zero value if it is not known. Package syscall's call asks for less than that of
// x/sys.
func local(fd int) netip.AddrPort {
	switch name, _ := syscall.Getsockname(fd); name := name.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
	}
	return netip.AddrPort{}
}

// wait waits for the end of a connect(2) that goes on.
func wait(file *os.File, deadline time.Time) error {
	if err := file.SetWriteDeadline(deadline); err != nil {
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var status int
	var statusErr error
	// It looks before it waits, because what happened before the runtime watched the socket wakes nobody.
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Getpeername(int(fd)); err == nil {
			return true
		}
		status, statusErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return status != 0 || statusErr != nil
	})
	if err = errors.Join(err, statusErr); err != nil {
		return err
	}
	if status != 0 {
		return unix.Errno(status)
	}
	return file.SetWriteDeadline(time.Time{})
}
