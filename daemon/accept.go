package daemon

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A patientListener waits out a shortage of the kernel's: descriptors, memory, or a quota that others of this user have used up.
// net/http itself gives up serving for most of them, and so a passing shortage would end the daemon.
type patientListener struct {
	net.Listener
	closed chan struct{}
	once   sync.Once
}

func patient(l net.Listener) *patientListener {
	return &patientListener{Listener: l, closed: make(chan struct{})}
}

// shortages are what accept(2) and epoll_ctl(2) answer then.
var shortages = []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ENOSPC}

// Accept implements net.Listener.
func (l *patientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err == nil || !short(err) {
			return conn, err
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Close implements net.Listener.
func (l *patientListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func short(err error) bool {
	for _, s := range shortages {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}
