package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"playground/reaper/bsdproc"
)

// bareKill is what an administrator with nothing but jails would do: a jail with the same number of busy forks is frozen, then
// removed with one call, and the time runs until no process is in it. Its jail has a name of its own and is always removed.
func bareKill(ctx context.Context, o options, forks int) (took time.Duration, err error) {
	name := fmt.Sprintf("%sbare%d", o.prefix, time.Now().UnixNano()%1_000_000)
	program, err := filepath.Abs(o.adversary)
	if err != nil {
		return 0, err
	}
	tool := func(path string, args ...string) error {
		if out, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot run %s %s: %w: %s", path, strings.Join(args, " "), err, out)
		}
		return nil
	}
	rule := "jail:" + name + ":maxproc:deny="
	if err := tool("/usr/bin/rctl", "-a", rule+"256"); err != nil {
		return 0, err
	}
	defer func() { _ = exec.Command("/usr/bin/rctl", "-r", "jail:"+name).Run() }() // the freeze's rule takes the first one's place
	out, err := exec.CommandContext(ctx, "/usr/sbin/jail", "-i", "-c", "name="+name, "path=/", "persist").Output()
	if err != nil {
		return 0, fmt.Errorf("cannot make jail %s: %w", name, err)
	}
	jid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || jid <= 0 {
		return 0, fmt.Errorf("jail(8) gave no number but %q", out)
	}
	defer func() { _ = bsdproc.RemoveJail(jid) }() // gone already unless something failed
	if err := startBomb(ctx, o, jid, program, forks); err != nil {
		return 0, err
	}
	if err := tool("/usr/bin/rctl", "-a", rule+"0"); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := bsdproc.RemoveJail(jid); err != nil {
		return 0, err
	}
	for time.Since(began) < patient(o) {
		if empty, err := emptyJail(jid); err != nil || empty {
			return time.Since(began), err
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("jail %d still has processes %v after its removal", jid, patient(o))
}

// patient is how long the forks may take to stand, and to go.
func patient(o options) time.Duration { return time.Duration(float64(time.Minute) * o.patience) }

// startBomb starts the forks and waits until they stand. Init reaps what the removal leaves.
func startBomb(ctx context.Context, o options, jid int, program string, forks int) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // read to its end or given up
	cmd := exec.CommandContext(ctx, "/usr/sbin/jexec", strconv.Itoa(jid), program, "bomb", strconv.Itoa(forks))
	cmd.Stdout = writer
	cmd.Env = append(os.Environ(), fmt.Sprintf("PATIENCE=%g", o.patience))
	err = cmd.Start()
	_ = writer.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("cannot start the forks: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it is killed with its jail
	if err := reader.SetReadDeadline(time.Now().Add(patient(o))); err != nil {
		return err
	}
	word := make([]byte, 64)
	n, err := reader.Read(word)
	if err != nil || !strings.HasPrefix(string(word[:n]), "ready") {
		return fmt.Errorf("the forks did not stand: %q %v", word[:n], err)
	}
	return nil
}

// emptyJail reports whether no process is in the jail; zombies that nobody waited for yet count as processes.
func emptyJail(jid int) (bool, error) {
	list, err := bsdproc.Processes()
	for _, p := range list {
		if p.Jail == jid {
			return false, err
		}
	}
	return true, err
}

// freeMiB is what can be had without writing any page out.
func freeMiB() int {
	pages := 0
	for _, name := range []string{"vm.stats.vm.v_free_count", "vm.stats.vm.v_inactive_count"} {
		if n, err := unix.SysctlUint32(name); err == nil {
			pages += int(n)
		}
	}
	return pages / (1 << 20 / os.Getpagesize())
}
