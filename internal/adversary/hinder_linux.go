package main

import (
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What one job of a tenant may do to the end of another.

// hindrances are attempts on the way around the filter, and on whoever opens the tenant's files.
func hindrances() []attempt {
	return []attempt{
		{"socketpair AF_VSOCK", func() error {
			_, err := unix.Socketpair(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
			if err == unix.EOPNOTSUPP {
				return nil // the socket was made: it got past the filter
			}
			return err
		}},
		// It would make jaild, which probes the pile, wait at its open(2).
		{"lease on the pile", func() error {
			f, err := os.Open("/pile/self.pile")
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		}},
		// Without memory or threads it would end with a page of stacks in the daemon's log.
		{"limit init", func() error {
			var limit unix.Rlimit
			if err := unix.Prlimit(1, unix.RLIMIT_DATA, nil, &limit); err != nil {
				return err
			}
			return unix.Prlimit(1, unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1, Max: limit.Max}, nil)
		}},
	}
}

// forge sends process 1 and its threads a signal that says it is not from a process, and so looks like a fault of their own.
func forge(sig unix.Signal, threads []int) {
	info := [16]uint64{uint64(sig), 0xffffffff} // siginfo_t: si_signo, si_errno, and SI_QUEUE as si_code
	at := uintptr(unsafe.Pointer(&info))
	unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), at)
	unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1<<32|1, uintptr(sig), at) // the kernel looks at the low half
	for _, tid := range threads {
		unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, 1, uintptr(tid), uintptr(sig), at, 0, 0)
	}
	if fd, err := unix.PidfdOpen(1, 0); err == nil {
		unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(sig), at, 0, 0, 0)
		unix.Close(fd)
	}
	// The news of a pipe, as any signal that its reader likes.
	var p [2]int
	if unix.Pipe(p[:]) != nil {
		return
	}
	unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, 1)
	unix.FcntlInt(uintptr(p[0]), unix.F_SETSIG, int(sig))
	unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC)
	unix.Write(p[1], []byte("x"))
	time.Sleep(10 * time.Millisecond) // so that what was sent has come before the next
}

// starve starts count processes that spin on one processor: as idle ones, or each in a session, and so in a scheduling group,
// of its own.
func starve(idle bool, count string) {
	if len(count) > 0 && count[0] == 'x' {
		if !idle {
			unix.Setsid()
		} else if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			fmt.Println(err)
		}
		var last unix.CPUSet
		last.Set(runtime.NumCPU() - 1)
		unix.SchedSetaffinity(0, &last)
		for spins := uint64(0); ; spins++ { // that is the attack
			if spins == math.MaxUint64 {
				return
			}
		}
	}
	runtime.LockOSThread()
	n, _ := strconv.Atoi(count)
	for range n {
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"adversary", os.Args[1], "x"}, &syscall.ProcAttr{Env: []string{"GOMAXPROCS=1"}}); err != nil {
			fmt.Println(err)
			break
		}
	}
	time.Sleep(time.Hour)
}

// take waits for a descriptor on the socket at path and writes to it for good.
func take(path string) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := listener.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		fmt.Println("no descriptor came:", err)
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	conn.Write([]byte("x"))
	for {
		unix.Write(fds[0], []byte("theirs\n"))
		time.Sleep(10 * time.Millisecond)
	}
}

// give passes its standard output to the one that waits at path, and ends when that has it.
func give(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("mine")
	conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(1), nil)
	conn.Read(make([]byte, 1))
}
