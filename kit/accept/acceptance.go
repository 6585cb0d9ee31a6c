package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An acceptance is the play of two tenants on a running suite.
type acceptance struct {
	*world
	first, second *tenant
	job           string // of first, for second to try
	enforced      bool   // the session says that the kernel keeps piles append-only
}

// acceptance shows that tenants get what was promised. A wrong answer is a failed check; an error ends the play.
func (w *world) acceptance(ctx context.Context) error {
	a := &acceptance{world: w}
	var err error
	if a.first, err = w.tenant(ctx, "kit-first"); err != nil {
		return err
	}
	if a.second, err = w.tenant(ctx, "kit-second"); err != nil {
		return err
	}
	err = a.steps(ctx, a.opened, a.commands, a.limits, a.environment, a.files, a.bigOutput, a.liveJob, a.cancelled, a.timedOut, a.background, a.sharedWorld,
		a.pile, a.isolation, a.attempts, a.foreign, a.admission, a.stdio, a.reopened, a.revoked)
	if err != nil {
		return err
	}
	left := w.host.left(w.limit(5 * time.Second))
	w.report.check(left == "", "acceptance: jobs left nothing on the host", "no process, leaf jail or rctl rule", "%s", left)
	return nil
}

func (a *acceptance) opened(ctx context.Context) error {
	list, err := a.first.client.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	a.report.check(len(list.Tools) == 8, "mcp: tools", "8", "%d", len(list.Tools))
	answer, err := a.first.call(ctx, "open_session", nil)
	if err != nil {
		return err
	}
	var o opened
	answer.Into(&o)
	want := a.options.prefix + "-" + a.first.name
	a.report.check(o.Session == want, "session: its name", want, "%s", o.Session)
	a.report.check(o.Persona == a.first.name+" assistant", "session: persona", a.first.name+" assistant", "%s", o.Persona)
	isolation := "jail"
	if !a.host.freebsd {
		isolation = "namespaces"
	}
	a.report.check(o.Isolation == isolation, "session: isolation", isolation, "%s", o.Isolation)
	a.enforced = o.AppendOnly.Enforced
	a.report.check(o.AppendOnly.Reason != "", "session: says whether piles are append-only", "a reason", "enforced %v: %s", o.AppendOnly.Enforced, o.AppendOnly.Reason)
	if a.host.freebsd {
		jails, err := a.host.jails(want, false)
		a.report.check(err == nil && len(jails) > 0, "session: jls shows its jail", want, "%v %v", jails, err)
	}
	_, err = a.first.call(ctx, "close_session", nil) // the second handle
	return err
}

func (a *acceptance) commands(ctx context.Context) error {
	for _, c := range []struct {
		name, command string
		code          int
		text          string
	}{
		{"exec: output of both streams", "echo to-stdout; echo to-stderr >&2", 0, "to-stdout"},
		{"exec: a non-zero exit is a result", "exit 7", 7, ""},
		{"exec: pipes and here-documents", "cat <<END | tr a-z A-Z\nhere\nEND", 0, "HERE"},
		{"exec: root in its own jail", `echo "uid $(id -u)."`, 0, "uid 0."},
		{"exec: standard input is closed", "cat; echo end", 0, "end"},
		{"exec: unknown command", "no-such-command-here", 127, "not found"},
	} {
		e, answer, err := a.first.exec(ctx, c.command)
		if err != nil {
			return err
		}
		a.report.check(e.exited(c.code) && strings.Contains(answer.Text, c.text) && e.Cleanup.clean(), c.name,
			fmt.Sprintf("exit %d with %q, clean-up proven", c.code, c.text), "%s; text %q", e, answer.Text)
	}
	e, answer, err := a.first.execWith(ctx, map[string]any{"command": `n=$(wc -c); echo "got $((n))."`, "stdin": "twelve bytes"})
	a.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "got 12."), "exec: standard input", "got 12.", "%s; text %q", e, answer.Text)
	return err
}

// limits shows that a running job is bounded by rctl(8), and that rules which somebody wiped come back.
func (a *acceptance) limits(ctx context.Context) error {
	const name = "limits: rules on the job's leaf jail"
	if !a.host.freebsd {
		a.report.skip(name, "rctl is FreeBSD's")
		return nil
	}
	j, err := a.first.run(ctx, "echo up; sleep 600")
	if err != nil {
		return err
	}
	if err := j.until(ctx, a.limit(20*time.Second), func(j *job) bool { return strings.Contains(j.text, "up") }); err != nil {
		return err
	}
	prefix := a.first.session + "."
	rules, err := a.host.rules(prefix)
	text := strings.Join(rules, " ")
	a.report.check(err == nil && strings.Contains(text, ":maxproc:deny=") && strings.Contains(text, ":coredumpsize:deny=0"), name,
		"maxproc and coredumpsize at least", "%d rules: %s %v", len(rules), text, err)
	if len(rules) > 0 {
		jail, _, _ := strings.Cut(strings.TrimPrefix(rules[0], "jail:"), ":")
		out, err := exec.Command("/usr/bin/rctl", "-r", "jail:"+jail).CombinedOutput()
		back := 0
		for deadline := time.Now().Add(a.limit(90 * time.Second)); time.Now().Before(deadline) && back < len(rules); time.Sleep(time.Second) {
			now, _ := a.host.rules(prefix)
			back = len(now)
		}
		a.report.check(err == nil && back == len(rules), "limits: wiped rules of a running job come back", fmt.Sprintf("%d rules within 90 s", len(rules)), "%d %s %v", back, out, err)
	}
	return a.endJob(ctx, j, "limits: the job is cancelled")
}

// shortTime is the time limit of a command that has something to say before.
const shortTime = 1500 * time.Millisecond

// endJob cancels a job and checks its receipt.
func (a *acceptance) endJob(ctx context.Context, j *job, name string) error {
	if err := j.cancel(ctx); err != nil {
		return err
	}
	if err := j.finish(ctx, a.limit(jobEnd)); err != nil {
		return err
	}
	a.report.check(j.end != nil && j.end.Outcome == "cancelled" && j.end.Cleanup.clean(), name, "cancelled, proven, 0 survivors", "%v", j.end)
	return nil
}

func (a *acceptance) environment(ctx context.Context) error {
	e, answer, err := a.first.exec(ctx, `echo "$HOME|$USER|$PILE|$TRIBLESPACE_KEY|$PERSONA"; pwd`)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("|/pile/self.pile|/pile/self.key|%s assistant", a.first.name)
	a.report.check(e.exited(0) && strings.Contains(answer.Text, want), "environment: HOME, USER, PILE, TRIBLESPACE_KEY, PERSONA", "..."+strings.ReplaceAll(want, "|", " "), "%s",
		strings.ReplaceAll(answer.Text, "|", " "))
	if _, err = a.first.call(ctx, "open_session", map[string]any{"cwd": "/tmp", "env": map[string]string{"KIT": "yes"}}); err != nil {
		return err
	}
	e, answer, err = a.first.exec(ctx, `echo "$KIT in $(pwd)"`)
	a.report.check(err == nil && strings.Contains(answer.Text, "yes in /tmp"), "environment: cwd and env of open_session", "yes in /tmp", "%s; %q", e, answer.Text)
	if err == nil {
		_, err = a.first.call(ctx, "open_session", map[string]any{"cwd": "/workspace", "env": map[string]string{}})
	}
	for range 2 { // the handles of the two opens
		if err == nil {
			_, err = a.first.call(ctx, "close_session", nil)
		}
	}
	return err
}

func (a *acceptance) files(ctx context.Context) error {
	data := make([]byte, 300_000)
	if _, err := rand.Read(data); err != nil {
		return err
	}
	const path = "/workspace/random.bin"
	answer, err := a.first.call(ctx, "write", map[string]any{"path": path, "base64": base64.StdEncoding.EncodeToString(data)})
	if err != nil {
		return err
	}
	var written struct {
		Size   int64
		Atomic bool
	}
	answer.Into(&written)
	a.report.check(!answer.IsError && written.Size == int64(len(data)) && written.Atomic, "files: binary write", "300000 bytes, atomic", "%d bytes, atomic %v %s", written.Size, written.Atomic, answer.Text)
	answer, err = a.first.call(ctx, "read", map[string]any{"path": path})
	if err != nil {
		return err
	}
	a.report.check(bytes.Equal(answer.Blob, data), "files: read it back", "the same 300000 bytes", "%d bytes, equal %v", len(answer.Blob), bytes.Equal(answer.Blob, data))
	for _, c := range []struct{ name, path, want string }{
		{"files: a folder is refused", "/workspace", "folder"},
		{"files: a missing file is refused", "/workspace/none", ""},
	} {
		answer, err = a.first.call(ctx, "read", map[string]any{"path": c.path})
		if err != nil {
			return err
		}
		a.report.check(answer.IsError, c.name, "an error result", "error %v: %s", answer.IsError, answer.Text)
	}
	return nil
}

func (a *acceptance) bigOutput(ctx context.Context) error {
	e, answer, err := a.first.exec(ctx, "jot 200000 2>/dev/null || seq 200000")
	if err != nil {
		return err
	}
	a.report.check(e.exited(0) && e.Truncated && e.StdoutBytes == 1288895 && len(answer.Text) < 64<<10 && strings.Contains(answer.Text, "200000"),
		"exec: long output is cut in the middle", "1288895 bytes counted, truncated, less than 64 KiB of text with the end", "%d bytes, truncated %v, %d bytes of text; %s", e.StdoutBytes, e.Truncated, len(answer.Text), e)
	return nil
}

func (a *acceptance) liveJob(ctx context.Context) error {
	j, err := a.first.run(ctx, `for i in 1 2 3 4; do echo "line $i"; sleep 0.5; done`)
	if err != nil {
		return err
	}
	if err := j.finish(ctx, a.limit(jobEnd)); err != nil {
		return err
	}
	a.report.check(j.live > 1, "jobs: output comes while the job runs", "2 or more pages with news", "%d", j.live)
	a.report.check(j.text == "line 1\nline 2\nline 3\nline 4\n", "jobs: every line comes once", "4 lines", "%q", j.text)
	a.report.check(j.end.exited(0) && j.end.Cleanup.clean(), "jobs: the end", "exited 0, proven", "%v", j.end)
	return nil
}

// cancelled ends a job that does what a shell can to survive.
func (a *acceptance) cancelled(ctx context.Context) error {
	j, err := a.first.run(ctx, `trap '' TERM; (sh -c 'trap "" TERM; sleep 601 & sleep 601' &); echo up; while :; do sleep 601; done`)
	if err != nil {
		return err
	}
	a.job = j.id
	if err := j.until(ctx, a.limit(20*time.Second), func(j *job) bool { return strings.Contains(j.text, "up") }); err != nil {
		return err
	}
	return a.endJob(ctx, j, "jobs: cancel of one that ignores SIGTERM")
}

func (a *acceptance) timedOut(ctx context.Context) error {
	began, most := time.Now(), min(a.limit(shortTime), 20*time.Second)
	e, _, err := a.first.execWith(ctx, map[string]any{"command": "echo partial; sleep 600", "timeout_ms": most.Milliseconds()})
	if err != nil {
		return err
	}
	took := time.Since(began)
	a.report.check(e.Outcome == "timed_out" && e.Cleanup.clean() && e.StdoutBytes == 8 && took < a.limit(20*time.Second), "exec: time limit",
		fmt.Sprintf("timed_out after %v, output kept, proven", most), "%s; %d bytes after %v", e, e.StdoutBytes, took.Round(time.Millisecond))
	return nil
}

func (a *acceptance) background(ctx context.Context) error {
	e, answer, err := a.first.exec(ctx, "sleep 600 & sleep 600 & echo started")
	if err != nil {
		return err
	}
	a.report.check(e.exited(0) && e.Cleanup.clean() && e.Cleanup.Killed >= 2 && strings.Contains(answer.Text, "started"), "exec: what stays in the background is killed",
		"exited 0, at least 2 killed, proven", "%s", e)
	return nil
}

// sharedWorld shows that commands of one tenant share files, and that a job's server answers the others on localhost where the
// network allows sockets at all.
func (a *acceptance) sharedWorld(ctx context.Context) error {
	if _, _, err := a.first.exec(ctx, "echo kept > /workspace/kept; echo kept > /tmp/kept"); err != nil {
		return err
	}
	e, answer, err := a.first.exec(ctx, "cat /workspace/kept /tmp/kept")
	a.report.check(err == nil && e.exited(0) && strings.Count(answer.Text, "kept") >= 2, "files: /workspace and /tmp are shared by commands", "kept twice", "%s; %q", e, answer.Text)
	if err != nil {
		return err
	}
	e, answer, err = a.second.exec(ctx, "ls /workspace/kept /tmp/kept /home")
	a.report.check(err == nil && !e.exited(0) && !strings.Contains(answer.Text, a.first.name), "files: another tenant does not see them", "no such file, no home of another", "%s; %q", e, answer.Text)
	return err
}

// pile appends to the tenant's pile.
func (a *acceptance) pile(ctx context.Context) error {
	e, answer, err := a.first.exec(ctx, `echo record >> "$PILE" && tail -n 1 "$PILE" && test -r "$TRIBLESPACE_KEY" && echo readable`)
	a.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "record") && strings.Contains(answer.Text, "readable"), "pile: can be appended to; the key can be read",
		"exit 0", "%s; %q", e, answer.Text)
	return err
}

func (a *acceptance) stdio(ctx context.Context) error {
	t := &tenant{name: a.first.name + " over stdio", session: a.first.session, most: a.first.most}
	cmd := exec.Command(a.options.cli, "-c", a.options.config, "mcp", "--tenant", a.first.name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := t.over(ctx, &mcp.CommandTransport{Command: cmd}); err != nil {
		a.report.check(false, "stdio: playground mcp", "it connects", "%v: %s", err, stderr.String())
		return nil
	}
	defer t.hangUp()
	if err := t.open(ctx); err != nil {
		return err
	}
	e, answer, err := t.exec(ctx, "cat /workspace/kept")
	a.report.check(err == nil && e.exited(0) && strings.Contains(answer.Text, "kept"), "stdio: the same sandbox over playground mcp", "kept", "%s; %q", e, answer.Text)
	return err
}
