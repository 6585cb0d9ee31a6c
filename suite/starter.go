package suite

import (
	"os/exec"
	"runtime"
)

// A starter starts every child from one operating system thread that lives as long as the starter. Linux sends the
// parent-death signal when the thread that forked ends, not the process, and the Go runtime ends idle threads.
type starter struct {
	requests chan startRequest
	done     chan struct{}
}

type startRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range s.requests {
			request.reply <- request.cmd.Start()
		}
	}()
	return s
}

// start is cmd.Start on the starter's thread.
func (s *starter) start(cmd *exec.Cmd) error {
	reply := make(chan error, 1)
	s.requests <- startRequest{cmd, reply}
	return <-reply
}

// close ends the thread. No child may be running and no start may follow.
func (s *starter) close() {
	close(s.requests)
	<-s.done
}
