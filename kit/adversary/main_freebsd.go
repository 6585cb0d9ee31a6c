// Command adversary is what a hostile tenant would run: each subcommand tries to outlive its job in one way. The acceptance
// client puts it into a tenant's sandbox, starts it, ends the job and asks for the proof that nothing is left.
//
//	pgadversary NAME [SIZE] [leave]
//
// It writes "ready" when its processes stand, or "refused CALL: ERROR" where the kernel does not even let it try. Then it
// stays for ever, or with "leave" its first process ends and leaves the others behind. PATIENCE in the environment multiplies
// the time in which its processes have to stand.
//
// There is no C compiler on the hosts where it runs, so it forks by raw system calls. A forked child of a Go program has one
// thread and no scheduler: from there on the code makes raw calls only, allocates nothing, and calls nothing that blocks in
// the runtime. Its stack was grown beforehand and no collection can move it.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// An act makes size processes of its kind. It returns nil when they stand and the first process is to wait.
type act struct {
	size  int // when none is given
	about string
	run   func(size int) error
}

// acts are the subcommands by name.
func acts() map[string]act {
	return map[string]act{
		"double":    {20, "double fork, own session, every descriptor closed", doubleFork},
		"nested":    {60, "live nested reapers, each a child of the one before", nestedReapers},
		"zombies":   {40, "a chain of zombie nested reapers that hides a live process", zombieReapers},
		"treadmill": {200, "become a reaper, fork, exit, again and again", treadmill},
		"bomb":      {256, "processes that all fork without end", bomb},
		"stopped":   {20, "processes stopped by SIGSTOP, with children", stopped},
		"traced":    {5, "processes stopped in ptrace(2) under a live tracer", traced},
		"rfork":     {20, "rfork(2) children that send no SIGCHLD and have no parent here", rforked},
		"pdfork":    {10, "pdfork(2) children whose descriptors are parked in a socket", parked},
		"vfork":     {5, "parents blocked in vfork(2)", vforked},
		"threads":   {32, "a process that forks from many threads at once", threads},
		"cpu":       {8, "busy loops under the CPU limit", busy},
		"memory":    {16384, "MiB of private memory, in one process that then ends", grab},
		"term":      {10, "processes that ignore every signal that can be ignored", ignoring},
	}
}

func main() {
	// One thread does everything: what it forks is a copy of it alone.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	growStack(0)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pgadversary:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "inside" {
		return inside()
	}
	all := acts()
	if len(args) == 0 || all[args[0]].run == nil {
		for name, a := range all {
			fmt.Printf("%s\t%d\t%s\n", name, a.size, a.about)
		}
		return nil
	}
	size, leave := all[args[0]].size, false
	for _, arg := range args[1:] {
		if arg == "leave" {
			leave = true
			continue
		}
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return fmt.Errorf("size %q is not a number above 0", arg)
		}
		size = n
	}
	if err := all[args[0]].run(size); err != nil {
		fmt.Printf("refused %v\n", err)
		return nil
	}
	if leave {
		exit(0)
	}
	sleepForever()
	return nil
}
