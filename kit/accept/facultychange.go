package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// crashed kills the worker: it is started again and counted, and its clean-up proved.
func (p *facultyplay) crashed(ctx context.Context) error {
	f, err := p.worker(ctx)
	if err != nil {
		return err
	}
	list, err := p.processes()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(one command) bool { return one.pid == f.Pid }) {
		p.report.check(false, "faculty: SIGKILL for the worker", "its pid is that of the tenant's "+bundleName, "pid %d, processes %v", f.Pid, list)
		return nil
	}
	if err := syscall.Kill(f.Pid, syscall.SIGKILL); err != nil {
		return err
	}
	now, err := p.served(ctx, f.Run)
	p.report.check(err == nil && now.Restarts == 1 && now.Pid != f.Pid && now.LastExit != nil && now.LastExit.Result.Cleanup.clean(), "faculty: a worker that crashed is started again and counted",
		"another pid, 1 restart, proven", "%s %v", now, err)
	p.one("faculty: after the crash")
	p.kept(ctx, "faculty: its notes outlive the crash")
	return nil
}

// processes lists those of the worker: its command line names the tenant.
func (p *facultyplay) processes() ([]command, error) {
	program := p.program()
	return p.host.commands(func(line string) bool { return strings.HasPrefix(line, program+" ") })
}

// program is the worker's program, in its sandbox.
func (p *facultyplay) program() string {
	return "/home/" + p.tenant + "/faculties/" + bundleName + "/current/" + bundleName
}

// one checks that there is one process of the worker.
func (p *facultyplay) one(after string) {
	list, err := p.processes()
	p.report.check(err == nil && len(list) == 1, after+": there is one process of it", "1", "%d %v", len(list), err)
}

// keeperKilled kills playground-facultyd: the next one ends what it finds and starts anew.
func (p *facultyplay) keeperKilled(ctx context.Context) error {
	const name = "faculty: SIGKILL for playground-facultyd"
	f, err := p.worker(ctx)
	if err != nil {
		return err
	}
	list, err := p.host.instances("playground-facultyd")
	if err != nil || len(list) != 1 {
		p.report.check(false, name, "one process of it", "%d %v", len(list), err)
		return nil
	}
	if err := syscall.Kill(list[0], syscall.SIGKILL); err != nil {
		return err
	}
	now, err := p.served(ctx, f.Run)
	p.report.check(err == nil, name+": the next one starts the worker anew", "running and serving", "%s %v", now, err)
	p.one(name)
	p.kept(ctx, name+": its notes are there")
	return nil
}

// reaperKilled kills the daemon whose child the worker is.
func (p *facultyplay) reaperKilled(ctx context.Context) error {
	const name = "faculty: SIGKILL for playground-reaperd"
	f, err := p.worker(ctx)
	if err != nil {
		return err
	}
	if err := p.killed(ctx, "playground-reaperd"); err != nil {
		p.report.check(false, name, "another one answers", "%v", err)
		return nil
	}
	now, err := p.served(ctx, f.Run)
	p.report.check(err == nil, name+": the worker runs again", "running and serving", "%s %v", now, err)
	p.one(name)
	p.mendProof(ctx, name)
	return nil
}

// changed brings a second build to the tenant, and goes back.
func (p *facultyplay) changed(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(p.source, "second"), []byte("another state of the source\n"), 0o644); err != nil {
		return err
	}
	second, err := p.cohort(ctx)
	p.report.check(err == nil && !second.Reused && second.Fingerprint != p.first, "faculty: another source is another cohort", "a new fingerprint", "%+v %v", second, err)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		verb, want string
	}{{"install", second.Fingerprint}, {"rollback", p.first}} {
		if err := p.operator(ctx, nil, "faculty", step.verb, bundleName, p.tenant); err != nil {
			return err
		}
		if err := p.current(ctx, "faculty: after "+step.verb+" the tenant has the right build", step.want); err != nil {
			return err
		}
		f, err := p.worker(ctx)
		if err == nil {
			err = p.operator(ctx, nil, "faculty", "restart", p.tenant)
		}
		if err == nil {
			f, err = p.served(ctx, f.Run)
		}
		p.report.check(err == nil, "faculty: after "+step.verb+" a restart runs it", "running and serving", "%s %v", f, err)
	}
	p.kept(ctx, "faculty: the notes outlive both")
	return nil
}
