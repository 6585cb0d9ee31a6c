package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"playground/cli"
)

// cancel runs a job that does what it can to survive, and cancels it.
func (d *demo) cancel(ctx context.Context) error {
	d.t.title("A job that forks twice, ignores SIGTERM, and is cancelled")
	// An odd number of seconds is a mark that the host's process list can be searched for.
	mark := fmt.Sprintf("86%d.%09d", time.Now().Unix()%1000, time.Now().Nanosecond())
	id, err := d.start(ctx, fmt.Sprintf(`trap '' TERM; (setsid sh -c 'trap "" TERM; sleep %s & sleep %s' &) ; echo up; while :; do sleep %s; done`, mark, mark, mark))
	if err != nil {
		return err
	}
	d.job = id
	if _, err = d.ada.call(ctx, "job_poll", map[string]any{"job_id": id, "cursor": 0, "wait_ms": 5000}); err != nil {
		return err
	}
	before, known := d.waitForMarks(ctx, mark)
	a, err := d.ada.call(ctx, "job_cancel", map[string]any{"job_id": id})
	if err != nil {
		return err
	}
	d.t.check(!a.IsError, "the cancel was taken")
	last, _, _, err := d.follow(ctx, id)
	if err != nil {
		return err
	}
	r := last.Result
	d.t.check(r.Outcome == "cancelled", "the outcome is %s", r.Outcome)
	d.t.check(r.Cleanup.Proven && r.Cleanup.Survivors == 0, "the receipt: %d killed, %d survivors, proven: %v", r.Cleanup.Killed, r.Cleanup.Survivors, r.Cleanup.Proven)
	if known {
		after, _ := marked(mark)
		d.t.check(before > 0 && after == 0, "the host's own process list agrees: %d before, %d after", before, after)
	}
	return nil
}

// waitForMarks waits until the job's processes show in the host's list: they were only just forked.
func (d *demo) waitForMarks(ctx context.Context, mark string) (count int, known bool) {
	for range 50 {
		if count, known = marked(mark); count >= 3 || !known || ctx.Err() != nil {
			return count, known
		}
		time.Sleep(20 * time.Millisecond)
	}
	return count, known
}

// marked counts the host's processes that have mark as an argument. It knows only where /proc is as on Linux.
func marked(mark string) (count int, known bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("sleep\x00"+mark)) {
			count++
		}
	}
	return count, len(files) > 0
}

// foreign lets the second tenant try what is the first one's.
func (d *demo) foreign(ctx context.Context) error {
	d.t.title("Another tenant tries the first one's session and job")
	a, err := d.grace.call(ctx, "exec", map[string]any{"session": d.session, "command": "id"})
	if err != nil {
		return err
	}
	unknown, err := d.grace.quiet(ctx, "exec", map[string]any{"session": "pg-nobody", "command": "id"})
	if err != nil {
		return err
	}
	d.t.check(a.IsError && strings.Contains(a.Text, "unknown session"), "refused, with a text that says what to do")
	d.t.check(strings.ReplaceAll(a.Text, d.session, "X") == strings.ReplaceAll(unknown.Text, "pg-nobody", "X"), "the same text as for a session that nobody has")
	for _, tool := range []string{"job_poll", "job_cancel"} {
		if a, err = d.grace.call(ctx, tool, map[string]any{"job_id": d.job}); err != nil {
			return err
		}
		d.t.check(a.IsError, "%s is refused", tool)
	}
	return nil
}

// closeSession gives the session back.
func (d *demo) closeSession(ctx context.Context) error {
	d.t.title("Close; the files stay")
	a, err := d.ada.call(ctx, "close_session", map[string]any{"session": d.session})
	if err != nil {
		return err
	}
	d.t.check(!a.IsError, "the session is closed")
	if a, err = d.exec(ctx, "true"); err != nil {
		return err
	}
	d.t.check(a.IsError && strings.Contains(a.Text, "open_session"), "a closed session refuses commands and names open_session")
	if _, err = d.ada.call(ctx, "open_session", map[string]any{}); err != nil {
		return err
	}
	if a, err = d.exec(ctx, "wc -c < random.bin"); err != nil {
		return err
	}
	d.t.check(strings.Contains(a.Text, "100000"), "opened again, the file is still there")
	return nil
}

// revoke takes a token away: the next request is refused.
func (d *demo) revoke(ctx context.Context) error {
	d.t.title("A token is revoked")
	var info map[string]any
	err := d.operator(ctx, "user token revoke "+second, func(e *cli.Env, ctx context.Context) error { return e.TokenRevoke(ctx, second) }, &info)
	if err != nil {
		return err
	}
	d.t.asked(second, "open_session")
	began := time.Now()
	_, err = d.grace.quiet(ctx, "open_session", map[string]any{})
	d.t.answered(fmt.Sprint(err), time.Since(began))
	d.t.check(err != nil && strings.Contains(err.Error(), "Unauthorized"), "refused at the very next request")
	return nil
}
