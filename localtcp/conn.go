package localtcp

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long one Conn at a time waits in poll(2) for its first bytes, before the runtime's poller takes over.
const patience = 2 * time.Millisecond

// A Dialer makes connections that are used for one short exchange and closed. Most of them never meet the runtime's poller: a
// request fits into the socket's buffer, and a thread that waits for the answer itself is woken once, where the poller wakes a
// second one and hands over. A thread is a lot to wait with, so only one connection of a Dialer waits so, and only for a moment.
type Dialer struct {
	waiting atomic.Bool
}

// Dial connects as the function does.
func (d *Dialer) Dial(to netip.AddrPort, deadline time.Time) (*Conn, error) {
	fd, pending, err := connect(to)
	if err != nil {
		return nil, err
	}
	c := &Conn{dialer: d, fd: fd}
	if pending {
		err = wait(c.file(), deadline)
	}
	if err = met(fd, to, err); err != nil {
		_ = c.Close() // never used
		return nil, err
	}
	return c, nil
}

// A Conn is a connection of a Dialer. Its methods may be called at once, like those of an *os.File; a deadline may be late by the
// patience of a Read.
type Conn struct {
	dialer *Dialer

	mu       sync.Mutex // guards what follows
	fd       int        // until there is a file, which then owns it
	watched  *os.File   // nil: the runtime's poller does not know the connection
	deadline time.Time  // for the file to come
	closed   bool
}

// file gives the connection to the runtime's poller; nil after Close.
func (c *Conn) file() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fileLocked()
}

func (c *Conn) fileLocked() *os.File {
	if c.watched == nil && !c.closed {
		c.watched = os.NewFile(uintptr(c.fd), "connection")
		if !c.deadline.IsZero() {
			_ = c.watched.SetDeadline(c.deadline) // a socket has deadlines
		}
	}
	return c.watched
}

// raw calls f with the descriptor, unless the poller has it.
func (c *Conn) raw(f func(fd int)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched != nil || c.closed {
		return false
	}
	f(c.fd)
	return true
}

// Write implements io.Writer.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.raw(func(fd int) { n, err = unix.Write(fd, p) })
	if n = max(n, 0); n == len(p) {
		return n, nil
	}
	if err != nil && !again(err) {
		return n, os.NewSyscallError("write", err)
	}
	f := c.file()
	if f == nil {
		return n, os.ErrClosed
	}
	more, err := f.Write(p[n:])
	return n + more, err
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (n int, err error) {
	if c.dialer.waiting.CompareAndSwap(false, true) {
		poll := []unix.PollFd{{Events: unix.POLLIN}}
		if c.raw(func(fd int) { poll[0].Fd = int32(fd) }) {
			// If the connection is closed meanwhile this waits for nothing, or for another one's.
			_, _ = unix.Poll(poll, int(patience/time.Millisecond))
		}
		c.dialer.waiting.Store(false)
	}
	err = unix.EAGAIN
	c.raw(func(fd int) { n, err = unix.Read(fd, p) })
	switch {
	case err == nil && n == 0 && len(p) > 0:
		return 0, io.EOF
	case err == nil:
		return n, nil
	case !again(err):
		return 0, os.NewSyscallError("read", err)
	}
	f := c.file()
	if f == nil {
		return 0, os.ErrClosed
	}
	return f.Read(p)
}

// Quiet is the function Quiet for a connection that may not have met the poller.
func (c *Conn) Quiet() bool {
	var quiet bool
	if c.raw(func(fd int) { quiet = silent(fd) }) {
		return quiet
	}
	f := c.file() // one that was not made at once
	return f != nil && Quiet(f)
}

// Quiet reports whether a connection is open and its peer has said nothing yet. It is for connections that wait for their use.
func Quiet(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var quiet bool
	return raw.Control(func(fd uintptr) { quiet = silent(int(fd)) }) == nil && quiet
}

func silent(fd int) bool {
	var one [1]byte
	_, _, err := unix.Recvfrom(fd, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return errors.Is(err, unix.EAGAIN)
}

// SetDeadline is that of os.File.
func (c *Conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return os.ErrClosed
	case c.watched != nil:
		return c.watched.SetDeadline(t)
	}
	c.deadline = t
	return nil
}

// Close implements io.Closer.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return os.ErrClosed
	case c.watched != nil:
		c.closed = true
		return c.watched.Close()
	}
	c.closed = true
	return os.NewSyscallError("close", unix.Close(c.fd))
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }
