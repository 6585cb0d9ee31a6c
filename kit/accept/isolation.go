package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// isolation asks from within what a command can see.
func (a *acceptance) isolation(ctx context.Context) error {
	sees := func(name, command, expected string, ok func(e ended, text string) bool) error {
		e, answer, err := a.first.exec(ctx, command)
		if err != nil {
			return err
		}
		a.report.check(ok(e, answer.Text), name, expected, "%s; %q", e, answer.Text)
		return nil
	}
	if err := sees("isolation: only its own processes", "ps -axww | wc -l", "fewer than 8 lines", func(e ended, text string) bool {
		return e.exited(0) && firstNumber(text) > 0 && firstNumber(text) < 8
	}); err != nil {
		return err
	}
	if err := sees("isolation: the suite's folders are not there", "ls /var/db/playground /var/run/playground /usr/local/etc/playground; echo end", "no such file, three times",
		func(_ ended, text string) bool { return strings.Count(strings.ToLower(text), "no such file") == 3 }); err != nil {
		return err
	}
	if !a.host.freebsd {
		a.report.skip("isolation: the rest", "jails are FreeBSD's")
		return nil
	}
	if err := sees("isolation: one mount is visible", "mount -p | wc -l", "1", func(e ended, text string) bool { return firstNumber(text) == 1 }); err != nil {
		return err
	}
	return sees("isolation: no other jail is visible", "jls | wc -l", "1 (the title)", func(e ended, text string) bool { return firstNumber(text) == 1 })
}

// firstNumber finds the first line that is a number.
func firstNumber(text string) int {
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "%d", &n); err == nil {
			return n
		}
	}
	return -1
}

// attempts runs the adversary's "inside": each attempt must fail.
func (a *acceptance) attempts(ctx context.Context) error {
	if !a.host.freebsd {
		a.report.skip("attempts: what a tenant must not do", "the adversary attacks FreeBSD")
		return nil
	}
	if err := a.place(ctx, a.first); err != nil {
		return err
	}
	s, err := a.status(ctx)
	if err != nil {
		return err
	}
	endpoint, err := url.Parse(a.options.endpoint)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("HOST_PID=%d HOST_CLIENT=%d HOST_TCP=%s NETWORK=%s HOST_PATHS='%s' %s inside", s.pid("playground-reaperd"), os.Getpid(), endpoint.Host,
		a.first.created.User.Sandbox.Network, "/var/db/playground /var/run/playground /usr/local/etc/playground/playground.toml /usr/local/sbin/playgroundd /boot/loader.conf", adversaryPath)
	e, answer, err := a.first.exec(ctx, command)
	if err != nil {
		return err
	}
	if !e.exited(0) {
		a.report.check(false, "attempts: the program runs", "exit 0", "%s; %q", e, answer.Text)
		return nil
	}
	tried := 0
	for line := range strings.Lines(answer.Text) {
		name, verdict, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		tried++
		a.attempted(name, verdict)
	}
	a.report.check(tried >= 40, "attempts: all were made", "40 or more", "%d", tried)
	return a.memory(ctx)
}

// attempted judges one attempt. Where the session says that piles are not append-only, as on ZFS, they can be cut and removed.
func (a *acceptance) attempted(name, verdict string) {
	if verdict == "ok" && !a.enforced && (name == "shorten the pile" || name == "remove the pile") {
		a.report.skip("attempt: "+name, "it can be done, and the session says that append-only is not enforced here")
		return
	}
	a.report.check(verdict != "ok", "attempt: "+name, "an error", "%s", verdict)
}

// memory takes more private memory than a job may have; 3 GiB is the highest limit there is by default.
func (a *acceptance) memory(ctx context.Context) error {
	e, answer, err := a.first.exec(ctx, adversaryPath+" memory 4096 leave")
	if err != nil {
		return err
	}
	a.report.check(strings.Contains(answer.Text, "refused mmap") && e.Cleanup.clean(), "limits: private memory ends at the limit", "an error of mmap(2) before 4096 MiB", "%s; %q", e, answer.Text)
	return nil
}

// foreign lets the second tenant try what is the first one's.
func (a *acceptance) foreign(ctx context.Context) error {
	theirs, err := a.second.call(ctx, "exec", map[string]any{"session": a.first.session, "command": "id"})
	if err != nil {
		return err
	}
	unknown, err := a.second.call(ctx, "exec", map[string]any{"session": a.options.prefix + "-nobody", "command": "id"})
	if err != nil {
		return err
	}
	a.report.check(theirs.IsError && strings.Contains(theirs.Text, "unknown session"), "foreign: another's session is refused", "unknown session", "%s", theirs.Text)
	same := strings.ReplaceAll(theirs.Text, a.first.session, "X") == strings.ReplaceAll(unknown.Text, a.options.prefix+"-nobody", "X")
	a.report.check(same, "foreign: with the text for one that nobody has", "the same text", "%q and %q", theirs.Text, unknown.Text)
	for _, tool := range []string{"job_poll", "job_cancel"} {
		answer, err := a.second.call(ctx, tool, map[string]any{"job_id": a.job})
		if err != nil {
			return err
		}
		a.report.check(answer.IsError, "foreign: "+tool+" of another's job is refused", "an error result", "%s", answer.Text)
	}
	return nil
}

// admission fills a tenant's share of jobs: the next is refused, and nothing else suffers.
func (a *acceptance) admission(ctx context.Context) error {
	var jobs []*job
	var refusal string
	for range 12 {
		j, err := a.second.run(ctx, "sleep 600")
		if err != nil {
			refusal = err.Error()
			break
		}
		jobs = append(jobs, j)
	}
	a.report.check(len(jobs) == 8 && refusal != "", "admission: jobs of one tenant at once", "8, then a refusal", "%d, then %q", len(jobs), refusal)
	e, answer, err := a.first.exec(ctx, "echo fine")
	if err != nil {
		return err
	}
	a.report.check(e.exited(0) && strings.Contains(answer.Text, "fine"), "admission: another tenant goes on", "fine", "%s; %q", e, answer.Text)
	proven := 0
	for _, j := range jobs {
		if err := j.cancel(ctx); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		if err := j.finish(ctx, a.limit(jobEnd)); err != nil {
			return err
		}
		if j.end.Cleanup.clean() {
			proven++
		}
	}
	a.report.check(proven == len(jobs), "admission: all are cancelled with proof", fmt.Sprint(len(jobs)), "%d", proven)
	return nil
}

// reopened closes the session and opens it again: the files stay.
func (a *acceptance) reopened(ctx context.Context) error {
	var text string
	for range 8 { // every handle that is still open
		answer, err := a.first.call(ctx, "close_session", nil)
		if err != nil {
			return err
		}
		text = answer.Text
		if answer.IsError {
			break
		}
	}
	_, answer, err := a.first.exec(ctx, "true")
	if err != nil {
		return err
	}
	a.report.check(answer.IsError && strings.Contains(answer.Text, "open_session"), "session: a closed one refuses commands and names open_session", "an error with open_session", "%q after %q", answer.Text, text)
	if err := a.first.open(ctx); err != nil {
		return err
	}
	e, answer, err := a.first.exec(ctx, "cat /workspace/kept")
	a.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "kept"), "session: opened again, the files are there", "kept", "%s; %q", e, answer.Text)
	return err
}

// revoked takes a token away: the next request is refused, and the new one works.
func (a *acceptance) revoked(ctx context.Context) error {
	if err := a.operator(ctx, nil, "user", "token", "revoke", a.second.name); err != nil {
		return err
	}
	_, err := a.second.call(ctx, "open_session", nil)
	a.report.check(err != nil && strings.Contains(err.Error(), "Unauthorized"), "tokens: a revoked one is refused at once", "Unauthorized", "%v", err)
	var fresh struct{ Token string }
	if err := a.operator(ctx, &fresh, "user", "token", "reset", a.second.name); err != nil {
		return err
	}
	a.second.hangUp()
	if err := a.second.connect(ctx, a.options.endpoint, fresh.Token); err != nil {
		return err
	}
	err = a.second.open(ctx)
	a.report.check(err == nil, "tokens: a new one works", "the session opens", "%v", err)
	return nil
}
