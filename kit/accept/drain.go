package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// drain restarts playground-reaperd while it has a job that does not want to end: the daemon that stops and the one that starts
// must never serve side by side, and nothing of the job may be left. FreeBSD 13's daemon(8) does not wait for its child.
func (w *world) drain(ctx context.Context) error {
	const daemon = "playground-reaperd"
	t, err := w.tenant(ctx, "kit-drain")
	if err != nil {
		return err
	}
	j, err := t.run(ctx, `trap '' TERM; echo up; while :; do sleep 1; done`)
	if err != nil {
		return err
	}
	if err := j.until(ctx, w.limit(20*time.Second), func(j *job) bool { return strings.Contains(j.text, "up") }); err != nil {
		return err
	}
	before, err := w.status(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	most := w.countWhile(daemon, func() { err = w.service(ctx, "playground_reaperd", "onerestart") })
	took := time.Since(began).Round(time.Millisecond)
	w.report.check(err == nil, "drain: service playground_reaperd onerestart with a job that ignores SIGTERM", "exit 0", "%v after %v", err, took)
	w.report.check(took > time.Second, "drain: the daemon took its time, so that there was something to see", "more than 1 s", "%v", took)
	w.report.check(most == 1, "drain: never two of it at once", "1", "%d", most)
	old := before.pid(daemon)
	now, _ := w.comesBack(ctx, daemon, old)
	list, err := w.host.instances(daemon)
	w.report.check(err == nil && now != 0 && len(list) == 1 && list[0] == now, "drain: there is one instance, and it answers", fmt.Sprintf("one, other than %d", old), "pid %d, processes %v, %v", now, list, err)
	left := w.host.left(w.limit(30 * time.Second))
	w.report.check(left == "", "drain: the job is gone with all it had", "no process, leaf jail or rctl rule", "%s", left)
	w.mendProof(ctx, "drain")
	if err := w.reconnect(ctx, t); err != nil {
		return err
	}
	e, answer, err := t.exec(ctx, "echo again")
	w.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "again"), "drain: commands run again", "again", "%s; %q %v", e, answer.Text, err)
	return nil
}

// countWhile returns how many instances of a daemon there were at most while act went on.
func (w *world) countWhile(daemon string, act func()) (most int) {
	done := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			if list, err := w.host.instances(daemon); err == nil {
				most = max(most, len(list))
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	act()
	close(done)
	counting.Wait()
	return most
}
