package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// jobEnd is how long the end of a job may take until it is an error of the play; what it may take to be right is proofTime.
const (
	jobEnd    = time.Minute
	proofTime = 15 * time.Second // the product's own deadline
)

// A hostile is one attack: the adversary's subcommand and its size when it runs alone, and in each of many jobs.
type hostile struct {
	name         string
	alone, small int
	leaks        bool // FreeBSD 13 never gives the process numbers of its reapers back
	mayFail      bool // the jail need not let it try at all
}

// hostiles are the adversaries of "pgadversary", weaker where many run at once, so that a host with 1 GB keeps its memory.
var hostiles = [...]hostile{
	{name: "double", alone: 20, small: 5},
	{name: "nested", alone: 60, small: 10, leaks: true},
	{name: "zombies", alone: 40, small: 10, leaks: true},
	{name: "treadmill", alone: 200, small: 50, leaks: true},
	{name: "bomb", alone: 256, small: 32},
	{name: "stopped", alone: 20, small: 5},
	{name: "traced", alone: 5, small: 2, mayFail: true},
	{name: "rfork", alone: 20, small: 5},
	{name: "pdfork", alone: 10, small: 4},
	{name: "vfork", alone: 5, small: 2},
	{name: "threads", alone: 32, small: 4},
	{name: "cpu", alone: 8, small: 2},
	{name: "term", alone: 10, small: 4},
}

// adversaries lets each attack loose in as many jobs at once as was asked for, ends them all, and wants a proof for each and a
// host on which nothing is left. Half of the jobs are cancelled, the others leave their first process's children behind.
func (w *world) adversaries(ctx context.Context) error {
	if !w.host.freebsd {
		w.report.note("this host is not FreeBSD: the adversary is whatever -adversary names")
	}
	const perTenant = 8
	var tenants []*tenant
	for i := range (w.options.atOnce + perTenant - 1) / perTenant {
		t, err := w.tenant(ctx, fmt.Sprintf("kit-hostile-%d", i+1))
		if err != nil {
			return err
		}
		if err := w.place(ctx, t); err != nil {
			return err
		}
		tenants = append(tenants, t)
	}
	for _, h := range hostiles {
		endings := []string{""}
		if w.options.atOnce == 1 {
			endings = []string{"", " leave"}
		}
		for _, ending := range endings {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.attack(ctx, h, tenants, ending)
		}
	}
	return nil
}

// attackCommand is what starts the adversary in a sandbox.
func (w *world) attackCommand(form string, args ...any) string {
	return fmt.Sprintf("PATIENCE=%g exec %s ", w.options.patience, adversaryPath) + fmt.Sprintf(form, args...)
}

// An outcome is what one job of an attack came to.
type outcome struct {
	err     error
	refused string // the kernel did not let the adversary try
	end     *ended
	took    time.Duration
}

// attack runs one adversary in all jobs and reports. It returns no error: the next adversary has its turn whatever happens.
func (w *world) attack(ctx context.Context, h hostile, tenants []*tenant, ending string) {
	n := w.options.atOnce
	size := h.alone
	if n > 1 || w.options.small && h.leaks {
		size = h.small
	}
	outcomes := make([]outcome, n)
	var standing, done sync.WaitGroup
	standing.Add(n)
	for i := range n {
		mine := ending
		if n > 1 && i%2 == 1 {
			mine = " leave"
		}
		done.Go(func() {
			outcomes[i] = w.fight(ctx, tenants[i%len(tenants)], w.attackCommand("%s %d%s", h.name, size, mine), mine == "", &standing)
		})
	}
	done.Wait()
	name := fmt.Sprintf("adversary %s%s, %d at once", h.name, ending, n)
	w.judge(name, h, outcomes)
	left := w.host.left(w.limit(10 * time.Second))
	w.report.check(left == "", name+": nothing left on the host", "no process, leaf jail or rctl rule", "%s", left)
	w.mendProof(ctx, name)
}

// fight runs one job until the adversary stands, waits for the others to stand, and ends it.
func (w *world) fight(ctx context.Context, t *tenant, command string, cancel bool, standing *sync.WaitGroup) (o outcome) {
	arrived := sync.OnceFunc(standing.Done)
	defer arrived()
	j, err := t.run(ctx, command)
	if err != nil {
		return outcome{err: err}
	}
	err = j.until(ctx, w.limit(jobEnd), func(j *job) bool { return strings.Contains(j.text, "\n") })
	if err != nil {
		_ = j.cancel(ctx) // the first error is told
	}
	arrived()
	standing.Wait()
	if text, ok := strings.CutPrefix(j.text, "refused "); ok {
		o.refused = strings.TrimSpace(text)
	}
	began := time.Now()
	if err == nil && cancel && j.end == nil {
		err = j.cancel(ctx)
	}
	if j.end == nil {
		if endErr := j.finish(ctx, w.limit(jobEnd)); err == nil {
			err = endErr
		}
	}
	o.err, o.end, o.took = err, j.end, time.Since(began)
	if err == nil && o.refused == "" && !strings.Contains(j.text, "ready") {
		o.err = fmt.Errorf("the adversary never stood: it wrote %q and ended: %v", j.text, j.end)
	}
	return o
}

// judge sums the outcomes up in one line.
func (w *world) judge(name string, h hostile, outcomes []outcome) {
	var wrong []string
	var proven, killed int
	var refused string
	var receipts, walls []int64
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			wrong = append(wrong, o.err.Error())
			continue
		case o.end == nil:
			wrong = append(wrong, "no end")
			continue
		}
		if o.refused != "" {
			refused = o.refused
			if !h.mayFail { // nothing was shown then
				wrong = append(wrong, "the adversary could not try")
			}
		}
		killed += o.end.Cleanup.Killed
		receipts, walls = append(receipts, o.end.Cleanup.ElapsedMS), append(walls, o.took.Milliseconds())
		if o.end.Cleanup.clean() {
			proven++
		} else {
			wrong = append(wrong, o.end.String())
		}
	}
	slow := int64(-1)
	if len(receipts) > 0 {
		slow = slices.Max(receipts)
	}
	if slow > w.limit(proofTime).Milliseconds() {
		wrong = append(wrong, fmt.Sprintf("a clean-up of %d ms", slow))
	}
	seen := fmt.Sprintf("%d proven, %d killed, slowest clean-up %d ms", proven, killed, slow)
	if len(walls) > 0 {
		seen += fmt.Sprintf(", slowest end as its client sees it %d ms", slices.Max(walls))
	}
	if refused != "" {
		seen += "; the kernel refused the attack: " + refused
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		seen += "; WRONG: " + strings.Join(slices.Compact(wrong), "; ")
	}
	w.report.check(len(wrong) == 0 && proven == len(outcomes), name, fmt.Sprintf("%d proven, 0 survivors, each within %v", len(outcomes), w.limit(proofTime)), "%s", seen)
}
