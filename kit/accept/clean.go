package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// oldLeaf is the name of a leaf jail as a reaperd of the year 2024 would have given it.
const oldLeaf = "j01hx0000000000000000000000"

// clean makes by hand what an earlier reaperd could have left, a leaf jail with a process and a limit under a tenant's jail, and
// lets "playground clean" remove it while another job runs.
func (w *world) clean(ctx context.Context, t *tenant) error {
	const name = "clean: a leaf jail of an earlier daemon"
	if !w.host.freebsd {
		w.report.skip(name, "jails are FreeBSD's")
		return nil
	}
	j, err := w.ticking(ctx, t)
	if err != nil {
		return err
	}
	leaf := t.session + "." + oldLeaf
	sleeper, err := leaveBehind(leaf)
	if err != nil {
		w.report.skip(name, "it cannot be made by hand: %v", err)
		return nil
	}
	var cleaned struct{ Jails, Limits, Left []string }
	err = w.operator(ctx, &cleaned, "clean")
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	gone := "its process is gone"
	select {
	case <-ended:
	case <-time.After(w.limit(10 * time.Second)):
		gone = "its process is still there"
	}
	jails, _ := w.host.jails(leaf, true)
	rules, _ := w.host.rules(leaf)
	w.report.check(err == nil && len(jails)+len(rules) == 0 && strings.HasSuffix(gone, "gone") && slices.Contains(cleaned.Jails, leaf), name,
		"playground clean removes jail, process and limit, and names the jail", "%+v, %v; jails %v, rules %v, %s", cleaned, err, jails, rules, gone)
	if len(jails) > 0 {
		_ = exec.Command("/usr/sbin/jail", "-R", leaf).Run() // the failure is told
	}
	if len(rules) > 0 {
		_ = exec.Command("/usr/bin/rctl", "-r", "jail:"+leaf).Run() // the failure is told
	}
	return w.still(ctx, t, j, "clean: what runs is left alone")
}

// leaveBehind makes the leaf and starts a process in it. Nothing is left when it fails.
func leaveBehind(leaf string) (*exec.Cmd, error) {
	if out, err := exec.Command("/usr/bin/rctl", "-a", "jail:"+leaf+":maxproc:deny=20").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("rctl: %w: %s", err, out)
	}
	out, err := exec.Command("/usr/sbin/jail", "-c", "name="+leaf, "path=/", "persist").CombinedOutput()
	if err != nil {
		_ = exec.Command("/usr/bin/rctl", "-r", "jail:"+leaf).Run() // the first error is told
		return nil, fmt.Errorf("jail: %w: %s", err, out)
	}
	sleeper := exec.Command("/usr/sbin/jexec", leaf, "/bin/sleep", "600")
	if err := sleeper.Start(); err != nil {
		_ = exec.Command("/usr/sbin/jail", "-R", leaf).Run()        // the first error is told
		_ = exec.Command("/usr/bin/rctl", "-r", "jail:"+leaf).Run() // the first error is told
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // until it is in the jail
	return sleeper, nil
}
