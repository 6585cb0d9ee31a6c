package holder

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/seqpacket"
)

// A jobInit is a started init.
type jobInit struct {
	conn  *seqpacket.Conn
	proc  *os.Process
	pidfd *os.File // for the job's owner
	watch int      // a pidfd of our own
	used  bool     // it has had a job, and tend looks after it; guarded by the holder's mu
}

// spawn starts an init. In a pid namespace of its own it is process 1; /proc/self/exe is this same program, whatever the
// private root shows.
func (h *holder) spawn() (*jobInit, error) {
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir: "/",
		// One thread at a time is enough, and spares the threads' waking of each other; the init allocates next to nothing.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=8MiB", "GODEBUG=asyncpreemptoff=1"},
		Files: []*os.File{null, null, os.Stderr, theirs.File()},
		Sys:   &syscall.SysProcAttr{},
	}
	if h.cfg.Isolated {
		attr.Sys.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	proc, err := os.StartProcess("/proc/self/exe", []string{"playground-supervise", "init"}, attr)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("cannot start init: %w", err)
	}
	// One of its own for the job's owner, which sets it non-blocking; our Wait could not have that.
	pidfd, err := unix.PidfdOpen(proc.Pid, 0)
	var watch int
	if err == nil {
		watch, err = unix.PidfdOpen(proc.Pid, 0)
	}
	if err != nil {
		proc.Kill()
		proc.Wait()
		ours.Close()
		return nil, fmt.Errorf("cannot watch init: %w", err)
	}
	in := &jobInit{conn: ours, proc: proc, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), watch: watch}
	data, err := json.Marshal(InitConfig{Isolated: h.cfg.Isolated, Limits: h.cfg.Limits})
	if err == nil {
		err = ours.Send(data)
	}
	if err != nil {
		in.discard()
		return nil, fmt.Errorf("cannot prepare init: %w", err)
	}
	return in, nil
}

// awaitReady waits for the init's word that it is confined.
func (in *jobInit) awaitReady() error {
	in.conn.SetDeadline(time.Now().Add(10 * time.Second))
	defer in.conn.SetDeadline(time.Time{})
	data, _, err := in.conn.Recv(make([]byte, 4096))
	if err != nil {
		in.discard()
		return fmt.Errorf("cannot prepare init: %w", err)
	}
	var ready InitReady
	if err := json.Unmarshal(data, &ready); err != nil || ready.Error != "" {
		in.discard()
		return fmt.Errorf("cannot prepare init: %s", ready.Error)
	}
	return nil
}

// discard ends an init that has no job.
func (in *jobInit) discard() {
	in.proc.Kill()
	if in.used {
		return // tend does the rest
	}
	go func() {
		in.proc.Wait()
		in.close()
	}()
}

func (in *jobInit) close() {
	in.conn.Close()
	in.pidfd.Close()
	unix.Close(in.watch)
}

// ended reports whether the init is gone, which its owner may know before our Wait does.
func (in *jobInit) ended() bool {
	fds := []unix.PollFd{{Fd: int32(in.watch), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}
