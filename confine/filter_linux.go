package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// permitted are the system calls that a Go program with one connected socket needs once it runs, and no others:
// memory, threads and their scheduling, time, the poller, and reading and writing what is open. Some are bound further by
// their arguments, see filter. openat(2) is here so that a look-up is answered by the empty root; the call adds nothing to it.
var permitted = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_OPENAT,
	unix.SYS_MUNMAP, unix.SYS_MADVISE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_SCHED_YIELD,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// threadFlags are the flags of clone(2) with which the Go runtime makes a thread (runtime/os_linux.go, and sys_linux_GOARCH.s for
// threadLocal); other flags make what is no thread of this process.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD |
	threadLocal

// Offsets in struct seccomp_data (linux/seccomp.h): number, architecture, instruction pointer, six 64-bit arguments. Both of our
// architectures are little-endian, so that an argument's low half comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// low and high are the halves of an argument.
func low(arg uint32) bpf.Instruction  { return bpf.LoadAbsolute{Off: offArgs + 8*arg, Size: 4} }
func high(arg uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*arg + 4, Size: 4} }

// filter is the system-call filter of the worker with this process id. What is not permitted answers EPERM; clone3(2), whose
// flags no filter can read, ENOSYS, upon which callers use clone(2). Numbers above all known ones, x32's with them, are not
// permitted either.
func filter(pid int) []bpf.Instruction {
	permit, kill := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	eperm := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	enosys := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	unless := func(value uint32, skip uint8) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: skip}
	}
	program := []bpf.Instruction{
		// Another architecture's calls (32-bit on amd64) have other numbers: nothing here would hold for them.
		bpf.LoadAbsolute{Off: offArch, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1}, kill,
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		unless(unix.SYS_CLONE3, 1), enosys,
		unless(unix.SYS_CLONE, 4), low(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: threadFlags, SkipFalse: 1}, permit, eperm,
		// Nothing may become executable.
		unless(unix.SYS_MMAP, 4), low(2), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.PROT_EXEC, SkipFalse: 1}, eperm, permit,
		unless(unix.SYS_MPROTECT, 4), low(2), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.PROT_EXEC, SkipFalse: 1}, eperm, permit,
		// The runtime signals its own threads. Process and thread ids are 32 bits for the kernel too.
		unless(unix.SYS_TGKILL, 4), low(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(pid), SkipFalse: 1}, permit, eperm,
		// Own limits may be read.
		unless(unix.SYS_PRLIMIT64, 8), low(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 5},
		low(2), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 3},
		high(2), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1}, permit, eperm,
	}
	for _, number := range permitted {
		program = append(program, unless(number, 1), permit)
	}
	return append(program, eperm)
}

// loadFilter installs the filter on all threads.
func loadFilter(pid int) error {
	raw, err := bpf.Assemble(filter(pid))
	if err != nil {
		return fmt.Errorf("cannot assemble system-call filter: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	got, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("cannot load system-call filter: %w", errno)
	}
	if got != 0 {
		return fmt.Errorf("cannot load system-call filter: thread %d has another one", got)
	}
	return nil
}
