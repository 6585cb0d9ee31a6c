package main

import (
	"fmt"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// doubleFork leaves processes that have no tie to the job but the kernel's own records.
func doubleFork(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := fork()
		switch {
		case pid < 0:
			return refused("fork", pid)
		case pid == 0:
			call(syscall.SYS_SETSID, 0, 0, 0)
			if child := fork(); child != 0 {
				exit(0)
			}
			call(syscall.SYS_SETSID, 0, 0, 0)
			closeAll()
			b.count.Add(1)
			sleepForever()
		}
		wait4(pid, 0)
	}
	return b.await(size, "double fork")
}

// nestedReapers makes a chain: each process is a reaper and the parent of the next, so that the outer list shows only the first.
func nestedReapers(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	pid := fork()
	if pid < 0 {
		return refused("fork", pid)
	}
	if pid == 0 {
		for range size {
			if r := acquire(); r < 0 {
				b.flag.Store(int32(r))
				exit(1)
			}
			b.count.Add(1)
			if child := fork(); child != 0 {
				sleepForever()
			}
		}
		sleepForever()
	}
	return b.await(size, "PROC_REAP_ACQUIRE")
}

// zombieReapers makes the same chain, but each link dies as soon as it has a child. Nobody waits for them, so that the last
// process lives below zombies, where PROC_REAP_KILL does not look.
func zombieReapers(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	pid := fork()
	if pid < 0 {
		return refused("fork", pid)
	}
	if pid == 0 {
		for range size {
			if r := acquire(); r < 0 {
				b.flag.Store(int32(r))
				exit(1)
			}
			b.count.Add(1)
			if child := fork(); child != 0 {
				exit(0)
			}
		}
		b.count.Add(1)
		sleepForever()
	}
	return b.await(size+1, "PROC_REAP_ACQUIRE")
}

// treadmill moves its only process on to a new number all the time. FreeBSD 13 loses a process number for ever in each round,
// so the rounds are counted.
func treadmill(rounds int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	pid := fork()
	if pid < 0 {
		return refused("fork", pid)
	}
	if pid == 0 {
		for range rounds {
			acquire()
			child := fork()
			for child < 0 { // the freeze
				call(syscall.SYS_SCHED_YIELD, 0, 0, 0)
				child = fork()
			}
			if child != 0 {
				exit(0)
			}
			b.count.Add(1)
			pause()
		}
		sleepForever()
	}
	return b.await(5, "treadmill")
}

// bomb fills the job's share of processes and goes on forking.
func bomb(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	pid := fork()
	if pid < 0 {
		return refused("fork", pid)
	}
	if pid == 0 {
		b.count.Add(1)
		b.forkOn(int32(size))
	}
	for range looks() {
		// The first process counts too, so that the last fork fails where the limit is the size.
		if int(b.count.Load()) >= size || b.flag.Load() != 0 && int(b.count.Load()) >= size/2 {
			say()
			return nil
		}
		pause()
	}
	return b.await(size, "fork bomb")
}

// forkOn forks for ever. Children beyond the size exit at once, so that there is always something to fork.
//
//go:nosplit
func (b *board) forkOn(size int32) {
	for {
		child := fork()
		switch {
		case child == 0:
			if b.count.Add(1) > size {
				b.count.Add(-1)
				exit(0)
			}
		case child < 0:
			b.flag.Store(1)
			call(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		default:
			wait4(-1, syscall.WNOHANG)
		}
	}
}

// stopped leaves processes that cannot run until somebody continues them, each with a child that is not stopped.
func stopped(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := fork()
		switch {
		case pid < 0:
			return refused("fork", pid)
		case pid == 0:
			if fork() != 0 {
				kill(0, syscall.SIGSTOP)
			}
			sleepForever()
		}
		if got := wait4(pid, syscall.WUNTRACED); got < 0 {
			return refused("wait4", got)
		}
		b.count.Add(1)
	}
	return b.await(size, "SIGSTOP")
}

// traced leaves processes that a live tracer stopped: SIGKILL waits until the tracer is gone.
func traced(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		victim := fork()
		if victim < 0 {
			return refused("fork", victim)
		}
		if victim == 0 {
			sleepForever()
		}
		tracer := fork()
		if tracer < 0 {
			return refused("fork", tracer)
		}
		if tracer == 0 {
			r, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptAttach, uintptr(victim), 0, 0, 0, 0)
			if errno != 0 {
				b.flag.Store(-int32(errno))
				exit(1)
			}
			_ = r
			wait4(victim, 0)
			b.count.Add(1)
			sleepForever()
		}
	}
	err = b.await(size, "ptrace(PT_ATTACH)")
	if err != nil {
		wait4(-1, syscall.WNOHANG)
	}
	return err
}

// rforked leaves children that belong to the reaper and tell nobody of their end: wait4(2) without WLINUXCLONE does not see
// them.
func rforked(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := call(sysRfork, rfProc|rfFdg|rfNoWait|rfTsigZmb|uintptr(syscall.SIGUSR1)<<rfTsigShift, 0, 0)
		if pid < 0 {
			return refused("rfork", pid)
		}
		if pid == 0 {
			b.count.Add(1)
			sleepForever()
		}
	}
	return b.await(size, "rfork")
}

// parked leaves pdfork children, which wait4(-1) passes over while their descriptors are open. These travel in a socket that
// another process holds. Every second one would outlive its descriptor.
func parked(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	for i := range size {
		fd := int32(-1)
		pid := call(sysPdfork, uintptr(unsafe.Pointer(&fd)), uintptr(i%2), 0)
		if pid < 0 {
			return refused("pdfork", pid)
		}
		if pid == 0 {
			b.count.Add(1)
			sleepForever()
		}
		if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
			return err
		}
		_ = unix.Close(int(fd))
	}
	if holder := fork(); holder == 0 {
		sleepForever()
	}
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	return b.await(size, "pdfork")
}

// vforked leaves parents that sleep in the kernel until their children exec or exit, which these never do.
func vforked(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := fork()
		if pid < 0 {
			return refused("fork", pid)
		}
		if pid == 0 {
			if call(sysVfork, 0, 0, 0) == 0 {
				b.count.Add(1)
			}
			sleepForever()
		}
	}
	return b.await(size, "vfork")
}

// threads forks from many threads: the kernel has to stop them all before it can kill the process.
func threads(size int) error {
	for range size {
		go func() {
			runtime.LockOSThread()
			for {
				child := fork()
				if child == 0 {
					exit(0)
				}
				if child > 0 {
					wait4(child, 0)
				}
			}
		}()
	}
	time.Sleep(300 * time.Millisecond)
	say()
	return nil
}

// busy leaves loops, which racctd(9) puts to a sleep that SIGKILL does not end.
func busy(size int) error {
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := fork()
		if pid < 0 {
			return refused("fork", pid)
		}
		if pid == 0 {
			b.count.Add(1)
			for {
				b.flag.Load()
			}
		}
	}
	time.Sleep(1500 * time.Millisecond) // the limit is looked at once a second
	return b.await(size, "busy loops")
}

// ignoring leaves processes that only SIGKILL ends.
func ignoring(size int) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	b, err := newBoard()
	if err != nil {
		return err
	}
	for range size {
		pid := fork()
		if pid < 0 {
			return refused("fork", pid)
		}
		if pid == 0 {
			b.count.Add(1)
			sleepForever()
		}
	}
	return b.await(size, "fork")
}

// grab takes private memory until the kernel refuses: what is promised counts, whether it is used or not. It always returns an
// error, but where nothing stops it.
func grab(mebibytes int) error {
	const chunk = 16
	for got := 0; got < mebibytes; got += chunk {
		if _, err := unix.Mmap(-1, 0, chunk<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return fmt.Errorf("mmap after %d MiB: %w", got, err)
		}
	}
	say()
	return nil
}
