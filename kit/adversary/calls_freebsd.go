package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers and flags that neither syscall nor x/sys have (sys/syscall.h, sys/unistd.h, sys/procctl.h, sys/ptrace.h).
const (
	sysRfork  = 251
	sysVfork  = 66
	sysPdfork = 518

	rfProc      = 1 << 4
	rfFdg       = 1 << 2 // a copy of the descriptors
	rfNoWait    = 1 << 6
	rfTsigZmb   = 1 << 19 // the signal at the end is the one in the upper bits
	rfTsigShift = 20

	procReapAcquire = 2
	ptAttach        = 10
)

// second and tick are on the heap of the program, so that a forked child needs no stack for them.
var (
	second = syscall.Timespec{Sec: 3600}
	tick   = syscall.Timespec{Nsec: 2_000_000}
	ready  = []byte("ready\n")
)

// fork returns 0 in the child.
//
//go:nosplit
func fork() int { return call(syscall.SYS_FORK, 0, 0, 0) }

// call makes a raw system call and returns its result, or the negative error number.
//
//go:nosplit
func call(number, a, b, c uintptr) int {
	r, _, errno := syscall.RawSyscall(number, a, b, c)
	if errno != 0 {
		return -int(errno)
	}
	return int(r)
}

//go:nosplit
func exit(code uintptr) {
	for {
		call(syscall.SYS_EXIT, code, 0, 0)
	}
}

// sleepForever never returns; signals that are handled only wake it for a moment.
//
//go:nosplit
func sleepForever() {
	for {
		call(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&second)), 0, 0)
	}
}

//go:nosplit
func pause() { call(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&tick)), 0, 0) }

// say writes "ready" to the job's output.
//
//go:nosplit
func say() { call(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready))) }

// acquire makes the calling process a reaper.
//
//go:nosplit
func acquire() int {
	r, _, errno := syscall.RawSyscall6(unix.SYS_PROCCTL, 0, 0, procReapAcquire, 0, 0, 0)
	if errno != 0 {
		return -int(errno)
	}
	return int(r)
}

// wait4 waits for a child; any for -1.
//
//go:nosplit
func wait4(pid int, options uintptr) int {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, uintptr(pid), 0, options, 0, 0, 0)
	if errno != 0 {
		return -int(errno)
	}
	return int(r)
}

// kill signals a process; 0 is this one.
//
//go:nosplit
func kill(pid int, signal syscall.Signal) int {
	if pid == 0 {
		pid = call(syscall.SYS_GETPID, 0, 0, 0)
	}
	return call(syscall.SYS_KILL, uintptr(pid), uintptr(signal), 0)
}

// closeAll closes what a job and this program have open.
//
//go:nosplit
func closeAll() {
	for fd := uintptr(0); fd < 64; fd++ {
		call(syscall.SYS_CLOSE, fd, 0, 0)
	}
}

// refused is an error for a call that the kernel did not allow.
func refused(what string, result int) error {
	return fmt.Errorf("%s: %w", what, syscall.Errno(-result))
}

// A board is a page that forked processes share with each other.
type board struct {
	count atomic.Int32 // processes that stand
	flag  atomic.Int32 // an event, or a negative error number
}

func newBoard() (*board, error) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return (*board)(unsafe.Pointer(&page[0])), nil
}

// looks is how often an attack looks whether its processes stand, some 20 s in all, and longer on a slow host.
func looks() int {
	patience, err := strconv.ParseFloat(os.Getenv("PATIENCE"), 64)
	if err != nil {
		patience = 1
	}
	return int(10_000 * min(max(patience, 1), 100))
}

// await waits until that many processes stand, or one of them met an error.
func (b *board) await(count int, what string) error {
	for range looks() {
		if errno := b.flag.Load(); errno < 0 {
			return refused(what, int(errno))
		}
		if int(b.count.Load()) >= count {
			say()
			return nil
		}
		pause()
	}
	return fmt.Errorf("%s: only %d of %d processes stand", what, b.count.Load(), count)
}

// growStack makes the stack large enough for all that forked children do.
func growStack(depth int) byte {
	var room [4096]byte
	room[depth] = 1
	if depth < 16 {
		return growStack(depth+1) + room[depth]
	}
	return room[depth]
}
