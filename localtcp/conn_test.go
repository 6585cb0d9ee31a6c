package localtcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve listens, has f serve each connection, and waits for all of them at the end of the test.
func serve(t *testing.T, f func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				f(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// echo answers each line of five bytes after a while.
func echo(after time.Duration) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		var line [5]byte
		for {
			if _, err := io.ReadFull(c, line[:]); err != nil {
				return
			}
			time.Sleep(after)
			if _, err := c.Write(line[:]); err != nil {
				return
			}
		}
	}
}

func begin(t *testing.T, d *Dialer, to netip.AddrPort) *Conn {
	t.Helper()
	c, err := d.Dial(to, time.Now().Add(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestConn: answers come whole, those that take longer than anybody's patience too, one connection at a time and many.
func TestConn(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * patience} {
		to := serve(t, echo(after))
		var d Dialer
		var all sync.WaitGroup
		for range 16 {
			c := begin(t, &d, to)
			all.Go(func() {
				for _, word := range []string{"hello", "again"} {
					if _, err := io.WriteString(c, word); err != nil {
						t.Error(err)
						return
					}
					var got [5]byte
					if _, err := io.ReadFull(c, got[:]); err != nil || string(got[:]) != word {
						t.Errorf("%q, %v", got, err)
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if d.waiting.Load() {
			t.Error("somebody seems to wait still")
		}
	}
}

// TestConnLarge: what is larger than the kernel's buffers goes both ways at once.
func TestConnLarge(t *testing.T) {
	to := serve(t, func(c *net.TCPConn) {
		_, _ = io.Copy(c, io.LimitReader(c, 16<<20))
	})
	var d Dialer
	c := begin(t, &d, to)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	var all sync.WaitGroup
	all.Go(func() {
		if n, err := c.Write(sent); err != nil || n != len(sent) {
			t.Error(n, err)
		}
	})
	got, err := io.ReadAll(c)
	all.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestConnEnds(t *testing.T) {
	var d Dialer
	buf := make([]byte, 8)
	t.Run("end", func(t *testing.T) {
		c := begin(t, &d, serve(t, func(*net.TCPConn) {}))
		if n, err := c.Read(buf); n != 0 || err != io.EOF {
			t.Error(n, err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		c := begin(t, &d, serve(t, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		}))
		if _, err := c.Write(buf[:1]); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(buf); n != 0 || !errors.Is(err, unix.ECONNRESET) {
			t.Error(n, err)
		}
		for err := error(nil); !errors.Is(err, unix.EPIPE); { // the first may be taken for the reset
			if _, err = c.Write(buf); err == nil {
				t.Fatal("it can be written to")
			}
		}
	})
	hold := make(chan struct{})
	silent := serve(t, func(*net.TCPConn) { <-hold })
	defer close(hold)
	t.Run("deadline", func(t *testing.T) {
		for _, wait := range []time.Duration{0, 5 * patience} { // before the poller has it, and after
			c := begin(t, &d, silent)
			time.AfterFunc(wait, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
			if n, err := c.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(n, err)
			}
		}
	})
	t.Run("closed", func(t *testing.T) {
		for _, wait := range []time.Duration{0, 5 * patience} {
			c := begin(t, &d, silent)
			time.AfterFunc(wait, func() { _ = c.Close() })
			if n, err := c.Read(buf); n != 0 || !errors.Is(err, os.ErrClosed) {
				t.Error(n, err)
			}
			if _, err := c.Write(buf); !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			if err := errors.Join(c.SetDeadline(time.Now()), c.Close()); !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			if c.Quiet() {
				t.Error("a closed connection is of no use")
			}
		}
	})
	t.Run("nobody", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, err := d.Dial(l.Addr().(*net.TCPAddr).AddrPort(), time.Now().Add(time.Second)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Error(err)
		}
		if _, err := d.Dial(netip.MustParseAddrPort("192.0.2.1:80"), time.Now().Add(time.Second)); !errors.Is(err, ErrAddress) {
			t.Error(err)
		}
	})
}

func TestQuiet(t *testing.T) {
	var d Dialer
	said, hold := make(chan struct{}), make(chan struct{})
	defer close(hold)
	to := serve(t, func(c *net.TCPConn) {
		<-said
		_, _ = io.WriteString(c, "x")
		<-hold
	})
	c, gone := begin(t, &d, to), begin(t, &d, serve(t, func(*net.TCPConn) {}))
	watched := begin(t, &d, to)
	watched.file() // as for one that was not made at once
	if !c.Quiet() || !watched.Quiet() {
		t.Error("its peer said nothing yet")
	}
	close(said)
	for end := time.Now().Add(10 * time.Second); c.Quiet() || watched.Quiet() || gone.Quiet(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a peer that spoke, or left, is not noticed")
		}
	}
	for _, c := range []*Conn{c, watched} {
		if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Error("what it said is lost:", n, err)
		}
	}
	_ = watched.Close()
	if watched.Quiet() {
		t.Error("a closed connection is of no use")
	}
}
