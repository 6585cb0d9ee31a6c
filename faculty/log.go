package faculty

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"playground/fault"
)

// Bounds of one worker's log.
const (
	logBytes = 4 << 20 // a file is set aside when it would grow over this
	logFiles = 3       // those that were set aside
	logPage  = 256 << 10
	// logPace is the time between two pages of output (jobs.page_bytes): a worker that writes without end costs the host some MiB
	// a second, and loses the rest.
	logPace = 50 * time.Millisecond
)

// A logFile is a worker's log: what it wrote, and a line of ours for each start and end. It takes at most
// (logFiles+1)*logBytes of disk.
type logFile struct {
	path string
	most int64

	// mu guards what follows.
	mu     sync.Mutex
	file   *os.File
	start  int64 // position of the file's first byte, counted since this process opened it
	before int64 // position of the first byte of the file set aside last
	size   int64
	broken bool  // the last line has no end yet
	failed error // of the last write
}

func newLog(path string) *logFile { return &logFile{path: path, most: logBytes} }

// openLocked opens the file unless it is open. Nobody but this user can put anything in its folder; O_NOFOLLOW makes sure.
func (l *logFile) openLocked() error {
	if l.file != nil {
		return nil
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// write appends p. A worker is never held up for its log: what cannot be written is lost, and the error returned once.
func (l *logFile) write(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeLocked(p)
}

func (l *logFile) writeLocked(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	l.broken = p[len(p)-1] != '\n'
	err := l.openLocked()
	for len(p) > 0 && err == nil {
		if l.size >= l.most {
			if err = l.rotateLocked(); err != nil {
				break
			}
		}
		n := min(int64(len(p)), l.most-l.size)
		var wrote int
		wrote, err = l.file.Write(p[:n])
		l.size += int64(wrote)
		p = p[wrote:]
	}
	told := l.failed != nil
	l.failed = err
	if told {
		return nil
	}
	return err
}

// note appends a line of ours.
func (l *logFile) note(now time.Time, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := ""
	if l.broken {
		end = "\n"
	}
	return l.writeLocked(fmt.Appendf(nil, "%s--- %s playground-facultyd: %s\n", end, now.Format(time.RFC3339), text))
}

// rotateLocked sets the file aside and opens a new one.
func (l *logFile) rotateLocked() error {
	for i := logFiles; i > 1; i-- {
		err := os.Rename(fmt.Sprintf("%s.%d", l.path, i-1), fmt.Sprintf("%s.%d", l.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return err
	}
	_ = l.file.Close() // written through: O_APPEND without a buffer
	l.before, l.start, l.file = l.start, l.start+l.size, nil
	return l.openLocked()
}

// read returns what there is from a position on, a negative one being counted from the end.
func (l *logFile) read(from int64) (LogPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(); err != nil {
		return LogPage{}, fault.Wrap(fault.Unavailable, err, "cannot open the log")
	}
	page := LogPage{}
	end := l.start + l.size
	if from < 0 {
		from = max(end+from, l.before)
	}
	if from < l.before || from > end {
		page.Gap, from = true, l.before
	}
	file, offset, length := l.file, from-l.start, l.size
	if from < l.start {
		old, err := os.Open(l.path + ".1")
		if err != nil {
			page.Gap, from, offset = true, l.start, 0
		} else {
			defer old.Close()
			file, offset, length = old, from-l.before, l.start-l.before
		}
	}
	data, err := io.ReadAll(io.NewSectionReader(file, offset, min(length-offset, logPage)))
	if err != nil {
		return LogPage{}, fault.Wrap(fault.Unavailable, err, "cannot read the log")
	}
	page.Data, page.Next = data, from+int64(len(data))
	return page, nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
		l.before, l.start, l.size = 0, 0, 0
	}
}
