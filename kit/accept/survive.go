package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ticker is a job that counts, so that lost output shows.
const ticker = `i=0; while :; do i=$((i+1)); echo "tick $i"; sleep 0.2; done`

// ticking starts a counting job and waits for its first line.
func (w *world) ticking(ctx context.Context, t *tenant) (*job, error) {
	j, err := t.run(ctx, ticker)
	if err != nil {
		return nil, err
	}
	return j, j.until(ctx, w.limit(20*time.Second), func(j *job) bool { return strings.Contains(j.text, "tick 1\n") })
}

// whole reports whether text is an unbroken count, and how far it went.
func whole(text string) (last int, ok bool) {
	for line := range strings.Lines(text) {
		if line != fmt.Sprintf("tick %d\n", last+1) {
			return last, false
		}
		last++
	}
	return last, true
}

// survive runs a command, such as "service playground restart", while a job runs: the job and its output must still be there.
func (w *world) survive(ctx context.Context) error {
	command := w.options.command[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return errors.New("no command is named")
	}
	t, err := w.tenant(ctx, "kit-survivor")
	if err != nil {
		return err
	}
	j, err := w.ticking(ctx, t)
	if err != nil {
		return err
	}
	began := time.Now()
	limited, cancel := w.within(ctx, programTime)
	defer cancel()
	cmd := exec.CommandContext(limited, command[0], command[1:]...)
	cmd.WaitDelay = time.Second // a daemon that it starts may keep its output open
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	name := strings.Join(command, " ")
	w.report.check(err == nil, "survive: "+name, "exit 0", "%v after %v: %s", whyEnded(limited, err), time.Since(began).Round(time.Millisecond), out)
	return w.still(ctx, t, j, "survive")
}

// still connects again and checks that the job ran on.
func (w *world) still(ctx context.Context, t *tenant, j *job, name string) error {
	if err := w.reconnect(ctx, t); err != nil {
		w.report.check(false, name+": the client can connect again", "it connects", "%v", err)
		return nil
	}
	before, _ := whole(j.text)
	err := j.until(ctx, w.limit(20*time.Second), func(j *job) bool {
		last, _ := whole(j.text)
		return last > before+5
	})
	last, ok := whole(j.text)
	w.report.check(err == nil && j.end == nil && ok && last > before, name+": the job runs on and no output is lost", fmt.Sprintf("more than %d ticks, in order", before), "%d ticks, in order %v; end %v; %v", last, ok, j.end, err)
	if j.end == nil {
		if err := j.cancel(ctx); err != nil {
			return err
		}
		if err := j.finish(ctx, w.limit(jobEnd)); err != nil {
			return err
		}
	}
	w.report.check(j.end != nil && j.end.Cleanup.clean(), name+": then it is cancelled with proof", "proven", "%v", j.end)
	return nil
}

// reconnect makes a new MCP connection, as a client does whose server was restarted.
func (w *world) reconnect(ctx context.Context, t *tenant) (err error) {
	for deadline := time.Now().Add(w.limit(time.Minute)); ; {
		t.hangUp()
		if err = t.connect(ctx, w.options.endpoint, t.created.Token); err == nil {
			if err = t.open(ctx); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// crash kills each daemon with SIGKILL while a job runs. daemon(8) must bring it back; a job outlives the two daemons that do
// not own it, and dies with the one that does, leaving nothing.
func (w *world) crash(ctx context.Context) error {
	for _, c := range []struct {
		daemon string
		keeps  bool
	}{
		{"playgroundd", true},
		{"playground-jaild", w.host.freebsd}, // on Linux a sandbox's holder is its child
		{"playground-reaperd", false},
	} {
		t, err := w.tenant(ctx, "kit-crash-"+strings.TrimPrefix(c.daemon, "playground-"))
		if err != nil {
			return err
		}
		if err := w.crashOne(ctx, t, c.daemon, c.keeps); err != nil {
			return err
		}
		w.mendProof(ctx, "crash: "+c.daemon)
	}
	t, err := w.tenant(ctx, "kit-crash-supervisor")
	if err != nil {
		return err
	}
	if err := w.crashSupervisor(ctx, t); err != nil {
		return err
	}
	return w.clean(ctx, t)
}

func (w *world) crashOne(ctx context.Context, t *tenant, daemon string, keeps bool) error {
	name := "crash: " + daemon
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	pid := s.pid(daemon)
	if pid == 0 {
		w.report.check(false, name, "a pid in playground status", "it is down before the test")
		return nil
	}
	if err := w.place(ctx, t); err != nil {
		return err
	}
	// Something that hides, beside the job that counts.
	hidden, err := t.run(ctx, w.attackCommand("double 5"))
	if err != nil {
		return err
	}
	if err := hidden.until(ctx, w.limit(jobEnd), func(j *job) bool { return strings.Contains(j.text, "\n") }); err != nil {
		return err
	}
	j, err := w.ticking(ctx, t)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill %s: %w", daemon, err)
	}
	again, took := w.comesBack(ctx, daemon, pid)
	w.report.check(again != 0, name+": is started again after SIGKILL", "another pid within 60 s", "pid %d, then %d after %v", pid, again, took.Round(time.Millisecond))
	if keeps {
		return w.still(ctx, t, j, name)
	}
	left := w.host.left(w.limit(30 * time.Second))
	w.report.check(left == "", name+": its jobs are gone with all they had", "no process, leaf jail or rctl rule within 30 s", "%s", left)
	if err := w.reconnect(ctx, t); err != nil {
		w.report.check(false, name+": the client can connect again", "it connects", "%v", err)
		return nil
	}
	e, answer, err := t.exec(ctx, "echo again")
	w.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "again"), name+": commands run again", "again", "%s; %q %v", e, answer.Text, err)
	return nil
}

// comesBack waits until the daemon answers with another pid.
func (w *world) comesBack(ctx context.Context, daemon string, old int) (pid int, took time.Duration) {
	began := time.Now()
	for time.Since(began) < w.limit(time.Minute) && ctx.Err() == nil {
		if s, err := w.status(ctx); err == nil {
			if pid := s.pid(daemon); pid != 0 && pid != old {
				return pid, time.Since(began)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return 0, time.Since(began)
}

// crashSupervisor kills the supervisor of a job that hides processes: reaperd has to find and end them.
func (w *world) crashSupervisor(ctx context.Context, t *tenant) error {
	const name = "crash: supervisor of a job"
	if !w.host.freebsd {
		w.report.skip(name, "the adversary is FreeBSD's")
		return nil
	}
	if err := w.place(ctx, t); err != nil {
		return err
	}
	j, err := t.run(ctx, w.attackCommand("double 5"))
	if err != nil {
		return err
	}
	if err := j.until(ctx, w.limit(jobEnd), func(j *job) bool { return strings.Contains(j.text, "\n") }); err != nil {
		return err
	}
	pid, err := w.supervisor()
	if err != nil {
		w.report.check(false, name, "playground-supervise is the parent of the job", "%v", err)
	} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	if err := j.finish(ctx, w.limit(jobEnd)); err != nil {
		w.report.check(false, name+": the job ends", "an end", "%v", err)
		_ = j.cancel(ctx) // the failure is told
	} else {
		w.report.check(j.end.Cleanup.clean(), name+": the job ends with proof", "proven, 0 survivors", "%v", j.end)
	}
	left := w.host.left(w.limit(15 * time.Second))
	w.report.check(left == "", name+": nothing left on the host", "no process, leaf jail or rctl rule", "%s", left)
	w.mendProof(ctx, name)
	return nil
}

// supervisor finds the process that started the adversary's first process.
func (w *world) supervisor() (int, error) {
	all, err := w.host.processes()
	if err != nil {
		return 0, err
	}
	names := map[int]string{}
	for _, p := range all {
		names[p.pid] = p.name
	}
	var seen []string
	for _, p := range all {
		if p.name != adversaryName {
			continue
		}
		if strings.Contains(names[p.parent], "supervis") && p.parent != os.Getpid() { // ps(1) cuts long names
			return p.parent, nil
		}
		seen = append(seen, fmt.Sprintf("%d is a child of %d %s", p.pid, p.parent, names[p.parent]))
	}
	return 0, fmt.Errorf("no supervisor found: %s", strings.Join(seen, "; "))
}
