package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descriptors looks at what the kernel tells of each open file (proc_pid_fdinfo(5)).
func (l look) descriptors() (string, error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", l.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	own, err := anonymousInode()
	if err != nil {
		return "", err
	}
	pollers, seen := make(map[bool]int), make([]int, 0, len(entries)) // pollers: eventfds and others
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return "", err
		}
		text, err := l.file("fdinfo/" + e.Name())
		if err != nil {
			return "", err
		}
		inode, ok := lineOf(text, "ino:")
		seen = append(seen, fd)
		switch {
		case !ok:
			return "", errors.New("the kernel does not tell what its descriptors are (Linux 5.14 does)")
		case fd <= DoorsFD && inode == strconv.FormatUint(l.expect.files[fd], 10):
		case fd > DoorsFD && inode == own && onlyPolls(text) && pollers[isEvent(text)] == 0:
			pollers[isEvent(text)]++
		default:
			return "", fmt.Errorf("descriptor %d is not one it was given", fd)
		}
	}
	slices.Sort(seen)
	if len(seen) < DoorsFD+1 || seen[DoorsFD] != DoorsFD {
		return "", fmt.Errorf("it has the descriptors %v", seen)
	}
	return "standard input, output and error, and the doors", nil
}

// isEvent reports whether an anonymous file is an eventfd.
func isEvent(fdinfo string) bool { return strings.Contains(fdinfo, "\neventfd-count:") }

// onlyPolls reports whether an anonymous file is one of the two of the runtime's poller: an epoll instance or an eventfd.
func onlyPolls(fdinfo string) bool {
	for line := range strings.Lines(fdinfo) {
		key, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "pos", "flags", "mnt_id", "ino", "tfd", "eventfd-count", "eventfd-id", "eventfd-semaphore":
		default:
			return false
		}
	}
	return true
}

// anonymousInode is the inode that all files without a name share.
func anonymousInode() (string, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return strconv.FormatUint(st.Ino, 10), err
}
