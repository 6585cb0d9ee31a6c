//go:build host

package reaper_test

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each adversary is a command inside a job's jail that builds a tree which is hard to end, says "ready" and the pid of its
// parent, and then only lives. Children are made with bare system calls and stay within them: after a fork the Go runtime
// of the child is of no use.
var adversaries = map[string]func(){
	"daemons": func() { // two forks, a session of its own, no descriptor
		for range 5 {
			if fork() == 0 {
				raw(unix.SYS_SETSID)
				if fork() == 0 {
					for fd := range uintptr(64) {
						raw(unix.SYS_CLOSE, fd)
					}
					sleepForever()
				}
				exit()
			}
		}
	},
	"live-reapers":   func() { nested(100, false) },
	"zombie-reapers": func() { nested(100, true) },
	// Acquire, fork, exit, again and again. Bounded, because on FreeBSD 13 every turn loses the host a process number for
	// ever (reaper_abandon_children there), and a host without numbers hangs.
	"treadmill": func() {
		if fork() == 0 {
			for range 300 {
				acquire()
				if fork() != 0 {
					exit()
				}
			}
			sleepForever()
		}
	},
	"forkbomb": func() {
		if fork() == 0 {
			for {
				fork()
			}
		}
	},
	"stopped": func() {
		for range 5 {
			if pid := fork(); pid == 0 {
				sleepForever()
			} else {
				raw(unix.SYS_KILL, pid, uintptr(unix.SIGSTOP))
			}
		}
	},
	"traced": func() { // stopped by a sibling that traces it
		victim := fork()
		if victim == 0 {
			sleepForever()
		}
		if fork() == 0 {
			raw(unix.SYS_PTRACE, ptAttach, victim, 0, 0)
			sleepForever()
		}
	},
	"rfork": func() { // children that announce their end with SIGUSR1, the living and the dead
		for i := range 6 {
			if rfork(rfProc|rfFDG|rfNoWait|rfSignal|uintptr(unix.SIGUSR1)<<rfSignalShift) == 0 {
				if i%2 == 0 {
					exit()
				}
				sleepForever()
			}
		}
	},
	"pdfork": func() { // the process descriptor lies in a socket whose ends are open in another process
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			fatal(err)
		}
		for i := range 4 {
			var fd int32
			pid, _, errno := unix.RawSyscall(unix.SYS_PDFORK, uintptr(unsafe.Pointer(&fd)), 0, 0)
			if errno != 0 {
				fatal(errno)
			}
			if pid == 0 {
				if i%2 == 0 {
					exit()
				}
				sleepForever()
			}
			if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
				fatal(err)
			}
			unix.Close(int(fd))
		}
		if fork() == 0 {
			raw(unix.SYS_SETSID)
			sleepForever()
		}
	},
	"vfork-threads": func() { // forks from 64 threads
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if fork() == 0 {
					sleepForever()
				}
			})
		}
		wg.Wait()
	},
	"deaf": func() { signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT) },
	"plain": func() {
		for range 20 {
			if fork() == 0 {
				sleepForever()
			}
		}
	},
}

// runAdversary is the whole program inside the jail.
func runAdversary(name string) {
	build := adversaries[name]
	if build == nil {
		fatal(fmt.Errorf("there is no adversary %q", name))
	}
	build()
	fmt.Println("ready", os.Getppid())
	time.Sleep(time.Hour)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "adversary:", err)
	os.Exit(1)
}

// nested makes reapers inside each other; with zombies, all but the last have ended and nobody collects them.
func nested(depth int, zombies bool) {
	if fork() != 0 {
		return
	}
	for range depth {
		acquire()
		if fork() != 0 {
			if zombies {
				exit()
			}
			sleepForever()
		}
	}
	sleepForever()
}

const (
	ptAttach      = 10      // PT_ATTACH
	rfFDG         = 1 << 2  // RFFDG: a copy of the descriptors
	rfProc        = 1 << 4  // RFPROC
	rfNoWait      = 1 << 6  // RFNOWAIT: the child goes to the reaper
	rfSignal      = 1 << 19 // RFTSIGZMB
	rfSignalShift = 20      // RFTSIGSHIFT
	reapAcquire   = 2
)

// fork returns 0 in the child, which must do nothing but bare calls from then on. A failure looks like a parent.
//
//go:noinline
func fork() uintptr {
	pid, _, errno := syscall.RawSyscall(syscall.SYS_FORK, 0, 0, 0)
	if errno != 0 {
		return ^uintptr(0)
	}
	return pid
}

//go:noinline
func rfork(flags uintptr) uintptr {
	pid, _, errno := syscall.RawSyscall(syscall.SYS_RFORK, flags, 0, 0)
	if errno != 0 {
		return ^uintptr(0)
	}
	return pid
}

func acquire() { syscall.RawSyscall6(unix.SYS_PROCCTL, 0, 0, reapAcquire, 0, 0, 0) }

func exit() {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

func sleepForever() {
	for {
		syscall.RawSyscall(unix.SYS_POLL, 0, 0, ^uintptr(0))
	}
}

func raw(number uintptr, args ...uintptr) {
	var a [4]uintptr
	copy(a[:], args)
	syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], 0, 0)
}
