package main

import (
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refusedSyscalls answer EPERM in a job: what makes or enters namespaces and mounts, looks into other processes, loads code
// into the kernel, or has a history of holes that a job does not need. Calls that the table of known ones lacks, newer
// kernels' included, answer ENOSYS.
var refusedSyscalls = []string{
	// namespaces and mounts (clone and clone3: see filter)
	"unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount",
	"fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
	"open_by_handle_at", "name_to_handle_at", "fanotify_init",
	// other processes
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp", "move_pages", "migrate_pages",
	// the kernel and the host
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module",
	"get_kernel_syms", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"reboot", "syslog", "settimeofday", "adjtimex", "clock_settime", "clock_adjtime", "stime", "sethostname",
	"setdomainname", "iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "vhangup", "lookup_dcookie", "nfsservctl",
	"uselib", "ustat", "sysfs", "_sysctl", "lsm_set_self_attr",
	// the keyrings are not in a namespace: a job would share those of the daemon's user
	"add_key", "request_key", "keyctl",
}

// newNamespaces are the clone(2) flags that make a namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// setDelegation is F_SETDELEG of linux/fcntl.h: a lease on a folder, since Linux 6.19.
const setDelegation = 1040

// Offsets in struct seccomp_data (linux/seccomp.h): number, architecture, instruction pointer, six 64-bit arguments. Both
// of our architectures are little-endian, so an argument's low half comes first.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
	offArg2   = 32
	high      = 4 // from an argument's low half to its high one
)

// filter is the system-call filter of a job for one architecture. Arguments are compared by their low
// 32 bits where the kernel itself only looks at those: a comparison of all 64 would let set high bits pass.
func filter(machine *arch.Info) []bpf.Instruction {
	var (
		permit, kill         = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
		eperm, enosys, nofam = fail(unix.EPERM), fail(unix.ENOSYS), fail(unix.EAFNOSUPPORT)
	)
	number := func(name string) uint32 { return uint32(machine.SyscallNames[name]) }

	numbers := make([]uint32, 0, len(machine.SyscallNames))
	for _, n := range machine.SyscallNames {
		numbers = append(numbers, uint32(n))
	}
	slices.Sort(numbers)

	program := []bpf.Instruction{
		// Another architecture's calls (32-bit on amd64) have other numbers: nothing here would hold for them.
		load(offArch), bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1}, kill,
		load(offNumber),
		// Also refuses the x32 calls, which have bit 30 set.
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: numbers[len(numbers)-1], SkipTrue: 1}, enosys,
		// clone3 takes its flags through a pointer; on ENOSYS the C libraries use clone.
		skipUnless(number("clone3"), 1), enosys,
		skipUnless(number("clone"), 4),
		load(offArg0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1}, eperm, permit,
		// Typing into a terminal that a job might share.
		skipUnless(number("ioctl"), 5),
		load(offArg1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1}, eperm, permit,
		// Sockets: local, IP, and routing queries (interface lists). Others reach past network namespaces (vsock) or
		// deep into the kernel.
		skipUnless(number("socket"), 9),
		load(offArg0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 5},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 3},
		load(offArg2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		permit, nofam,
	}
	program = append(program, pairsAndLeases(machine)...)
	program = append(program, initsPeace(machine)...)
	for _, name := range refusedSyscalls {
		if _, ok := machine.SyscallNames[name]; ok { // some exist on one architecture only
			program = append(program, skipUnless(number(name), 1), eperm)
		}
	}
	program = append(program, gaps(numbers, enosys)...)
	return append(program, permit)
}

// pairsAndLeases refuses what socketpair(2) and fcntl(2) would offer beyond need.
func pairsAndLeases(machine *arch.Info) []bpf.Instruction {
	permit := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	return []bpf.Instruction{
		// A pair of another family is made, and its module loaded, before the kernel finds that the family has no pairs.
		skipUnless(uint32(machine.SyscallNames["socketpair"]), 4),
		load(offArg0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1}, fail(unix.EAFNOSUPPORT), permit,
		// A lease on a file makes whoever opens it next wait for fs.lease-break-time: a daemon at the pile, another tenant at
		// what they share. F_SETSIG: see initsPeace.
		skipUnless(uint32(machine.SyscallNames["fcntl"]), 6),
		load(offArg1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.F_SETLEASE, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.F_SETSIG, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: setDelegation, SkipTrue: 1}, fail(unix.EPERM), permit,
	}
}

// initsPeace refuses what would end a job's init, whose uid is the job's, with a page of stacks in the daemon's log: a signal that
// says it is not from a process, which Go's runtime takes for a fault of its own (sigFromUser of runtime/os_linux.go), and a limit
// below what it needs. Process ids are 32 bits for the kernel too, and the init's is 1.
func initsPeace(machine *arch.Info) []bpf.Instruction {
	permit, refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, fail(unix.EPERM)
	var program []bpf.Instruction
	for _, name := range []string{"rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64"} {
		program = append(program, skipUnless(uint32(machine.SyscallNames[name]), 4),
			load(offArg0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 1, SkipTrue: 1}, permit, refuse)
	}
	// Whom a pidfd stands for no filter can see; a null pointer stands for the kernel's own words.
	return append(program, skipUnless(uint32(machine.SyscallNames["pidfd_send_signal"]), 6),
		load(offArg2), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
		load(offArg2+high), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1}, permit, refuse)
}

func load(off uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: 4} }

// skipUnless goes on after the next n instructions unless the value is val.
func skipUnless(val uint32, n uint8) bpf.Instruction {
	return bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: val, SkipTrue: n}
}

// fail makes the call fail.
func fail(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// gaps refuses the numbers that no known call has.
func gaps(numbers []uint32, refuse bpf.Instruction) []bpf.Instruction {
	var out []bpf.Instruction
	for i := 1; i < len(numbers); i++ {
		if low, high := numbers[i-1], numbers[i]; high > low+1 {
			out = append(out,
				bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: low, SkipTrue: 2},
				bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: high, SkipTrue: 1},
				refuse)
		}
	}
	return out
}
