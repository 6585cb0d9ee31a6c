package escape

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// open opens a file, and closes it again if that can be done.
func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// connect makes a stream socket and begins a connection. One that goes on counts as one that is allowed.
func connect(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, to); err == unix.EINPROGRESS {
		return nil
	}
	return err
}

// thousand makes a thousand descriptors, and gives back what it gets.
func thousand(one func() (fd int, err error)) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range 1000 {
		fd, err := one()
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	return nil
}

// spin uses up processor time.
func spin() {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
	}
}

// hog uses up memory. What is not limited takes no more of the host than a gigabyte.
func hog() {
	const most, step = 1 << 30, 16 << 20
	var all [][]byte
	for range most / step {
		all = append(all, touched(step))
	}
	runtime.KeepAlive(all)
}

// touched is memory that is written to, a page at a time.
func touched(n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	return b
}
