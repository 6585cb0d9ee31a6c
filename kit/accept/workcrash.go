package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"playground/record"
)

// service calls service(8), or what stands for it.
func (w *world) service(ctx context.Context, name, verb string) error {
	ctx, cancel := w.within(ctx, programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.options.service, name, verb)
	cmd.WaitDelay = time.Second // a daemon that it starts may keep its output open
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("service %s %s: %w: %s", name, verb, whyEnded(ctx, err), out)
	}
	return nil
}

// cutShort lets something end a run that would go on for long, and wants its outcome recorded and nothing of it left.
func (p *workplay) cutShort(ctx context.Context, what, words string, end func(thread string) error) error {
	if err := p.quiet(ctx); err != nil {
		return err
	}
	thread, err := p.underWay(ctx, goalLong, "long 1")
	if err != nil {
		return err
	}
	if err := end(thread); err != nil {
		p.report.check(false, "work: "+what, "it can be done", "%v", err)
		return nil
	}
	r, err := p.api.ended(ctx, thread, p.limit(2*time.Minute))
	summary := ""
	if r.Summary != nil {
		summary = *r.Summary
	}
	p.report.check(err == nil && r.State == "stopped_short" && strings.Contains(summary, words), "work: "+what+" in mid-run is recorded", "stopped_short: ..."+words+"...", "%s %v", r, err)
	p.nothingLeft("work: after " + what)
	p.mendProof(ctx, "work: "+what)
	return nil
}

func (p *workplay) workerKilled(ctx context.Context) error {
	return p.cutShort(ctx, "SIGKILL for a worker", "SIGKILL", func(thread string) error {
		pid, err := p.workerOf(ctx, thread)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	})
}

// killed kills a daemon and waits until another one answers.
func (w *world) killed(ctx context.Context, daemon string) error {
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	pid := s.pid(daemon)
	if pid == 0 {
		return fmt.Errorf("%s is down before the test", daemon)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	if again, took := w.comesBack(ctx, daemon, pid); again == 0 {
		return fmt.Errorf("%s is not started again within %v", daemon, took.Round(time.Millisecond))
	}
	return nil
}

func (p *workplay) reaperKilled(ctx context.Context) error {
	return p.cutShort(ctx, "SIGKILL for playground-reaperd", "worker", func(string) error { return p.killed(ctx, "playground-reaperd") })
}

func (p *workplay) daemonKilled(ctx context.Context) error {
	return p.cutShort(ctx, "SIGKILL for playgroundd", "the daemon restarted", func(string) error { return p.killed(ctx, "playgroundd") })
}

func (p *workplay) daemonRestarted(ctx context.Context) error {
	return p.cutShort(ctx, "a restart of playgroundd", "the daemon", func(string) error { return p.service(ctx, "playground", "onerestart") })
}

// verified checks the log, its audit files, and that a copy which somebody changed is found out.
func (p *workplay) verified(ctx context.Context) error {
	if err := p.quiet(ctx); err != nil {
		return err
	}
	var v struct {
		OK      bool
		Records int64
		First   *struct{ Reason string }
	}
	err := p.operator(ctx, &v, "records", "verify")
	p.report.check(err == nil && v.OK && v.Records > 50, "work: playground records verify", "more than 50 records, all as they were", "%d records, ok %v, first %+v, %v", v.Records, v.OK, v.First, err)
	p.audited(ctx)
	clean, reason, err := p.tampered(ctx)
	p.report.check(err == nil && clean, "work: a copy of the log verifies", "nothing is wrong with it", "%v %s %v", clean, reason, err)
	if clean {
		p.report.check(err == nil && strings.Contains(reason, "record 5"), "work: a copy in which one record was changed is found out", "record 5 is named", "%s %v", reason, err)
	}
	return nil
}

// audited looks at the files beside the log that only grow.
func (p *workplay) audited(ctx context.Context) {
	const name = "work: the log's audit files bear the append-only flag"
	if !p.host.freebsd {
		p.report.skip(name, "sappnd is FreeBSD's")
		return
	}
	files, err := filepath.Glob(filepath.Join(p.options.data, "records.audit", "*"))
	var loose []string
	regular := 0
	for _, file := range files {
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			continue
		}
		regular++
		flags, err := program(ctx, "/usr/bin/stat", "-f", "%Sf", file)
		if err != nil || !strings.Contains(flags, "sappnd") {
			loose = append(loose, fmt.Sprintf("%s: %s %v", filepath.Base(file), strings.TrimSpace(flags), err))
		}
	}
	p.report.check(err == nil && regular > 0 && len(loose) == 0, name, "sappnd on each", "%d files, without it: %q %v", regular, loose, err)
}

// tampered copies the log, verifies the copy, changes one record in it and verifies it again.
func (p *workplay) tampered(ctx context.Context) (clean bool, reason string, err error) {
	dir, err := os.MkdirTemp("", "pgkit-log-")
	if err != nil {
		return false, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "records.db")
	if err := p.copyLog(ctx, path); err != nil {
		return false, "", err
	}
	bad, err := firstBad(ctx, path)
	if err != nil || bad != "" {
		return false, bad, err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return true, "", err
	}
	_, err = db.ExecContext(ctx, "DROP TRIGGER records_stay")
	if err == nil {
		_, err = db.ExecContext(ctx, `UPDATE records SET body = json_set(body, '$.kit', 'changed') WHERE sequence = 5`)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return true, "", err
	}
	reason, err = firstBad(ctx, path)
	return true, reason, err
}

// copyLog copies the log as it is at one moment, beside the daemon that writes it. It only reads.
func (p *workplay) copyLog(ctx context.Context, to string) (err error) {
	from := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.Join(p.options.data, "records.db")}).EscapedPath(), RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", from.String()) // the driver comes with package record
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}

// firstBad verifies a log and says what is wrong with it first; "" is nothing.
func firstBad(ctx context.Context, path string) (string, error) {
	log, err := record.Open(path, record.Options{})
	if err != nil {
		return "", err
	}
	report, err := log.Verify(ctx)
	if err = errors.Join(err, log.Close()); err != nil || report.First == nil {
		return "", err
	}
	return fmt.Sprintf("record %d: %s", report.First.Sequence, report.First.Reason), nil
}
