package confine

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What is no part of the runtime's poller is told from it by what the kernel says of it.
func TestOnlyPolls(t *testing.T) {
	openers := map[string]func() (int, error){
		"epoll":    func() (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) },
		"eventfd":  func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC) },
		"timerfd":  func() (int, error) { return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC) },
		"signalfd": func() (int, error) { return unix.Signalfd(-1, &unix.Sigset_t{}, unix.SFD_CLOEXEC) },
		"pidfd":    func() (int, error) { return unix.PidfdOpen(os.Getpid(), 0) },
	}
	own, err := anonymousInode()
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range openers {
		fd, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer unix.Close(fd)
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		inode, _ := lineOf(string(text), "ino:")
		polls := inode == own && onlyPolls(string(text))
		if want := name == "epoll" || name == "eventfd"; polls != want {
			t.Errorf("%s is taken for a part of the poller: %v, want %v\n%s", name, polls, want, text)
		}
		if isEvent(string(text)) != (name == "eventfd") {
			t.Errorf("%s is taken for an eventfd, or is not", name)
		}
	}
}
