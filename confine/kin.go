package confine

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"playground/reaper/bsdproc"
)

// A kin is by what a worker's processes are told on FreeBSD: its jail, and, until it is verified, the session that it began as a
// process of the host. What it started before it entered the jail is outside, and root's.
type kin struct {
	jid     int
	session int    // the worker's process id; 0: verified, it was alone and can start no other
	start   uint64 // of the worker, which tells its session from a later one by the same number
}

// living returns those of list that run.
func (k kin) living(list []bsdproc.Process) []Leftover {
	session := k.session
	for _, p := range list {
		if p.Pid == session && p.Start != k.start {
			session = 0 // it is another's now
		}
	}
	var left []Leftover
	for _, p := range list {
		ours := k.jid > 0 && p.Jail == k.jid || session > 0 && p.Session == session
		if ours && p.State != bsdproc.Zombie {
			left = append(left, Leftover{p.Pid, p.Start})
		}
	}
	return left
}

// awaitExec calls look again while it is answered EBUSY, as FreeBSD answers whoever looks into a process that is within execve(2):
// the descriptor whose end tells a parent that the program runs is closed before that is over (kern_exec.c do_execve,
// kern_prot.c p_candebug).
func awaitExec(look func() ([]byte, error), limit time.Duration) ([]byte, error) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		b, err := look()
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return b, err
		}
	}
}
