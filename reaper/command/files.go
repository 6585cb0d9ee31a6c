package command

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"playground/job"
	"playground/ring"
)

const (
	firstBytes = 4 << 10 // most commands write less
	readBytes  = 128 << 10
	pipeMost   = 1 << 20 // what a pipe may hold (fs.pipe-max-size)
	// drainTime bounds reading what is left in the pipes once every process is gone. Only a write end that the job passed
	// to another job of its tenant can keep them open that long.
	drainTime = 200 * time.Millisecond
)

// Files are this side's ends of a running command's standard files. The zero value has none.
type Files struct {
	stdin   *os.File // nil without input
	outputs [2]*os.File
	readers sync.WaitGroup
}

// Open makes the command's standard files and returns its ends, which the caller closes once they are passed on, also
// when there is an error.
func (f *Files) Open(stdin []byte) ([]*os.File, error) {
	var theirs []*os.File
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, null)
	} else {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		// The job's end stays blocking; ours is watched by the poller.
		theirs, f.stdin = append(theirs, os.NewFile(uintptr(r), "stdin")), nonblocking(w, "stdin")
	}
	for i, name := range []string{"stdout", "stderr"} {
		r, w, err := pipe()
		if err != nil {
			return theirs, err
		}
		enlarge(r)
		theirs, f.outputs[i] = append(theirs, os.NewFile(uintptr(w), name)), nonblocking(r, name)
	}
	return theirs, nil
}

func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], err
}

func nonblocking(fd int, name string) *os.File {
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// Pump feeds the input and copies the output until the pipes end or are closed.
func (f *Files) Pump(stdin []byte, out job.Output) {
	if f.stdin != nil {
		f.readers.Go(func() {
			f.stdin.Write(stdin) // a command that reads only a part of it is no error
			f.stdin.Close()
		})
	}
	for i, stream := range []ring.Stream{ring.Stdout, ring.Stderr} {
		output := f.outputs[i]
		f.readers.Go(func() {
			buf := make([]byte, firstBytes)
			for {
				n, err := output.Read(buf)
				if n > 0 {
					out.Write(stream, buf[:n])
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					rest(output, buf, func(p []byte) { out.Write(stream, p) })
				}
				if err != nil {
					return
				}
				if n == len(buf) && n < readBytes {
					buf = make([]byte, readBytes) // it writes much
				}
			}
		})
	}
}

// rest passes on what is in the pipe now, without waiting: what was written in time is not lost because this side was late.
func rest(output *os.File, buf []byte, pass func([]byte)) {
	raw, err := output.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		for left := pipeMost; left > 0; {
			n, err := unix.Read(int(fd), buf)
			if err != nil || n <= 0 {
				return
			}
			pass(buf[:n])
			left -= n
		}
	})
}

// Drain reads what is left in the pipes, once every process is gone, and closes everything.
func (f *Files) Drain() {
	if f.stdin != nil {
		f.stdin.Close()
	}
	for _, output := range f.outputs {
		output.SetReadDeadline(time.Now().Add(drainTime))
	}
	f.readers.Wait()
	f.Close()
}

// Close closes everything; what has not been read is lost.
func (f *Files) Close() {
	for _, file := range []*os.File{f.stdin, f.outputs[0], f.outputs[1]} {
		if file != nil {
			file.Close()
		}
	}
}
