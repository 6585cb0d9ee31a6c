package daemon

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scriptedListener answers Accept with errors in turn.
type scriptedListener struct {
	net.Listener
	errs []error
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	err := l.errs[0]
	if len(l.errs) > 1 {
		l.errs = l.errs[1:]
	}
	return nil, err
}

func (l *scriptedListener) Close() error { return nil }

func TestAcceptOutlivesShortages(t *testing.T) {
	l := patient(&scriptedListener{errs: []error{
		&net.OpError{Op: "accept", Err: unix.ENOSPC}, &net.OpError{Op: "accept", Err: unix.EMFILE}, &net.OpError{Op: "accept", Err: unix.EINVAL},
	}})
	if _, err := l.Accept(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v, want the error that is no shortage", err)
	}
}

func TestCloseEndsAWait(t *testing.T) {
	l := patient(&scriptedListener{errs: []error{&net.OpError{Op: "accept", Err: unix.ENOMEM}}})
	time.AfterFunc(50*time.Millisecond, func() { l.Close() })
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
