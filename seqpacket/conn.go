// Package seqpacket is a connected pair of SOCK_SEQPACKET unix sockets (unix(7)): whole messages, in order, each with file
// descriptors. The holder of a sandbox and the init of a job are spoken to over such pairs, so it stays lean: no net, no
// reflection, and nothing that would start threads of its own.
package seqpacket

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one message. The kernel's default send buffer (net.core.wmem_default, 208 KiB) holds the largest.
const (
	MaxData  = 192 << 10 // bytes
	MaxFiles = 4         // descriptors
)

// A Conn is one end of a pair. Send and Recv may be used at the same time, each by one goroutine.
type Conn struct {
	f *os.File
}

// Pair returns two connected ends. Both are close-on-exec.
func Pair() (*Conn, *Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make socketpair: %w", err)
	}
	for _, fd := range fds {
		if err := enlarge(fd); err != nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
			return nil, nil, err
		}
	}
	return &Conn{os.NewFile(uintptr(fds[0]), "seqpacket")}, &Conn{os.NewFile(uintptr(fds[1]), "seqpacket")}, nil
}

// FromFD takes over an inherited descriptor, which must be a SOCK_SEQPACKET socket.
func FromFD(fd int) (*Conn, error) {
	if t, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || t != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("cannot use descriptor %d: not a seqpacket socket", fd)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d: %w", fd, err)
	}
	return &Conn{os.NewFile(uintptr(fd), "seqpacket")}, nil
}

// FromFile takes over f, as FromFD does.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cannot duplicate descriptor: %w", err)
	}
	return FromFD(fd)
}

// File returns the end's file, to pass on; the Conn must not be used for messages afterwards.
func (c *Conn) File() *os.File { return c.f }

// Close closes the end; the peer's Recv returns io.EOF.
func (c *Conn) Close() error { return c.f.Close() }

// SetDeadline bounds the current and later calls; they return os.ErrDeadlineExceeded after t.
func (c *Conn) SetDeadline(t time.Time) error { return c.f.SetDeadline(t) }

// Send sends one message with descriptors, which stay open here. It returns an error wrapping unix.EMSGSIZE for a message
// over the bounds and unix.EPIPE when the peer is gone.
func (c *Conn) Send(data []byte, files ...*os.File) error {
	if len(data) > MaxData || len(files) > MaxFiles {
		return fmt.Errorf("cannot send message of %d bytes and %d files: %w", len(data), len(files), unix.EMSGSIZE)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return err
		}
		// The number is read without Fd(), which would make the file blocking for everybody.
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := c.f.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		n, sendErr = unix.SendmsgN(int(fd), data, rights, nil, sendFlags)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err == nil {
		err = sendErr
	}
	if err == nil && n != len(data) {
		err = fmt.Errorf("cannot send message of %d bytes: only %d were taken", len(data), n)
	}
	return err
}

// Recv returns the next message, of at most MaxData bytes, and its descriptors, close-on-exec. io.EOF means that the peer
// closed. A message that was cut short is an error and its descriptors are closed; where the kernel kept the rest of it, later
// messages are of no use.
func (c *Conn) Recv(buf []byte) ([]byte, []*os.File, error) {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*MaxFiles))
	var n, oobn, flags int
	var recvErr error
	err = raw.Read(func(fd uintptr) bool {
		n, oobn, flags, _, recvErr = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(recvErr, unix.EAGAIN)
	})
	if err == nil {
		err = recvErr
	}
	if err != nil {
		if errors.Is(err, unix.ECONNRESET) {
			err = io.EOF
		}
		return nil, nil, err
	}
	files, err := parseRights(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	if cutShort(flags, n, len(buf)) {
		closeAll(files)
		return nil, nil, errors.New("cannot receive message: it was cut short")
	}
	if n == 0 && len(files) == 0 {
		return nil, nil, io.EOF // an empty message is never sent
	}
	return buf[:n], files, nil
}

// cutShort reports whether there was no room for all of a message, or for its descriptors.
func cutShort(flags, n, room int) bool {
	return flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || recordsFlow && n == room && flags&unix.MSG_EOR == 0
}

func parseRights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("cannot parse control message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
