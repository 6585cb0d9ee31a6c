package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inspected looks at a worker from outside while it thinks, fills the host's one place and is refused another, and lets it end.
func (p *workplay) inspected(ctx context.Context) error {
	thread, err := p.underWay(ctx, goalSlow, "slow 1")
	if err != nil {
		return err
	}
	_, err = p.api.start(ctx, p.member, goalNote)
	r := refused(err)
	numbers := r.Capacity != nil && *r.Capacity == 1 && r.Available != nil && *r.Available == 0
	p.report.check(r.Status == http.StatusServiceUnavailable && r.Code == "ADMISSION_CEILING" && numbers, "work: a start over the ceiling is refused",
		"503 ADMISSION_CEILING with capacity 1 and available 0", "%v, numbers %v", err, numbers)
	pid, err := p.workerOf(ctx, thread)
	if err != nil {
		p.report.check(false, "work: the worker is found by the daemon's log", "a line \"running sandboxed\" and a child of playground-reaperd", "%v", err)
	} else {
		p.look(ctx, pid)
	}
	row, err := p.api.ended(ctx, thread, p.limit(runEnd))
	p.report.check(err == nil && row.State == "done" && row.OK == 2, "work: the run that was looked at goes to its end", "done, 2 calls ok", "%s %v", row, err)
	p.nothingLeft("work: after the run that was looked at")
	if _, err = p.api.start(ctx, p.member, goalNote); err != nil {
		p.report.check(false, "work: then a start is admitted again", "a thread", "%v", err)
		return nil
	}
	return p.quiet(ctx)
}

// quiet waits until no run is going.
func (p *workplay) quiet(ctx context.Context) error {
	for deadline := time.Now().Add(p.limit(runEnd)); ; {
		h, err := p.health(ctx)
		if err == nil && h.WorkLoop.Available == h.WorkLoop.Capacity {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("%d of %d places are free", h.WorkLoop.Available, h.WorkLoop.Capacity))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// workerOf finds a run's worker as the manual says: by the daemon's log. The process must be a child of playground-reaperd, so
// that nobody else's is ever looked at or killed.
func (p *workplay) workerOf(ctx context.Context, thread string) (int, error) {
	pid, err := logged(filepath.Join(p.options.logs, "playgroundd.log"), thread)
	if err != nil {
		return 0, err
	}
	s, err := p.status(ctx)
	if err != nil {
		return 0, err
	}
	all, err := p.host.processes()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all, func(one process) bool { return one.pid == pid })
	if i < 0 || all[i].parent != s.pid("playground-reaperd") {
		return 0, fmt.Errorf("process %d is no child of playground-reaperd (%d)", pid, s.pid("playground-reaperd"))
	}
	return pid, nil
}

// logged finds the last line about a worker of this thread in a daemon's log.
func logged(path, thread string) (pid int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Message, Thread string
			PID             int
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "running sandboxed" && line.Thread == thread {
			pid = line.PID
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if pid <= 1 {
		return 0, fmt.Errorf("%s has no line \"running sandboxed\" for %s", path, thread)
	}
	return pid, nil
}

// The ids that work.worker_uid_base gives to workers by default.
const (
	firstWorkerID = 990_000
	workerIDs     = 256
)

// look asks the base system's tools about a worker.
func (p *workplay) look(ctx context.Context, pid int) {
	if !p.host.freebsd {
		p.report.skip("work: the worker as the host sees it", "jails, capability mode and rctl are FreeBSD's")
		return
	}
	number := strconv.Itoa(pid)
	out, err := program(ctx, "/bin/ps", "-o", "jid=", "-o", "uid=", "-o", "ruid=", "-p", number)
	ids := numbersOf(out)
	named := len(ids) == 3 && ids[0] > 0
	p.report.check(named && ids[1] == ids[2] && ids[1] >= firstWorkerID && ids[1] < firstWorkerID+workerIDs, "work: ps shows the worker in a jail, as a user of its own",
		fmt.Sprintf("jid above 0, uid and ruid equal and from %d to %d", firstWorkerID, firstWorkerID+workerIDs-1), "jid uid ruid: %s %v", out, err)
	if named {
		p.lookJail(ctx, strconv.Itoa(ids[0]))
	}
	out, err = program(ctx, "/usr/bin/procstat", "-s", number)
	p.report.check(err == nil && column(out, "FLAGS") == "C", "work: procstat -s shows capability mode", "FLAGS C", "%s %v", lastLine(out), err)
	out, err = program(ctx, "/usr/bin/procstat", "-f", number)
	strange := strangeFiles(out)
	p.report.check(err == nil && len(strange) == 0, "work: procstat -f shows pipes, the doors and a kqueue, and /var/empty as its root", "nothing else", "%q %v", strange, err)
	out, err = program(ctx, "/usr/bin/procstat", "-l", number)
	wrong := wrongLimits(out)
	p.report.check(err == nil && len(wrong) == 0, "work: procstat -l shows its limits", "no core, no file, no locked memory, one process", "%q %v", wrong, err)
	out, err = program(ctx, "/usr/bin/procstat", "-e", number)
	p.report.check(err == nil && strings.Count(out, "=") == 1 && strings.Contains(out, "PATH=/usr/bin:/bin"), "work: procstat -e shows that its environment is a path", "PATH and no more", "%s %v", lastLine(out), err)
	out, err = program(ctx, "/usr/bin/proccontrol", "-m", "trace", "-q", "-p", number)
	p.report.check(err == nil && strings.Contains(out, "disabled"), "work: proccontrol shows that it cannot be traced", "disabled", "%s %v", out, err)
}

// lookJail asks about the worker's jail and its limits.
func (p *workplay) lookJail(ctx context.Context, jid string) {
	out, err := program(ctx, "/usr/sbin/jls", "-j", jid, "-n", "name", "path", "ip4", "ip6", "children.max")
	p.report.check(err == nil && strings.Contains(out, "name="+p.options.prefix+workerInfix) && strings.Contains(out, "path=/var/empty") &&
		strings.Contains(out, "ip4=disable") && strings.Contains(out, "ip6=disable") && strings.Contains(out, "children.max=0"), "work: jls shows its jail",
		"called "+p.options.prefix+workerInfix+"..., at /var/empty, without network and children", "%s %v", out, err)
	_, name, _ := strings.Cut(out, "name=")
	name, _, _ = strings.Cut(name, " ")
	rules, err := p.host.rules(p.options.prefix + workerInfix)
	text := strings.Join(rules, " ")
	p.report.check(err == nil && name != "" && strings.Contains(text, "jail:"+name+":maxproc:deny=1") && strings.Contains(text, "jail:"+name+":memoryuse:"), "work: rctl shows its limits",
		"maxproc:deny=1 and memoryuse at least", "%s %v", text, err)
}

// numbersOf returns the numbers of a line; anything else in it makes them none.
func numbersOf(line string) (numbers []int) {
	for _, field := range strings.Fields(line) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// lastLine returns the last line that is not empty.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// column returns the field of a table's last line that stands below a title. No field before it may be empty or hold a space.
func column(table, title string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(table), "\n")
	i := slices.Index(strings.Fields(first), title)
	fields := strings.Fields(lastLine(table))
	if i < 0 || i >= len(fields) {
		return ""
	}
	return fields[i]
}

// strangeFiles returns what "procstat -f" shows of a worker that it must not have. Its fields are pid, command, descriptor and
// type first, and the path last.
func strangeFiles(table string) (strange []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] == "FD" {
			continue
		}
		switch fd, kind := f[2], f[3]; fd {
		case "text":
		case "cwd", "root", "jail":
			seen[fd] = true
			if f[len(f)-1] != "/var/empty" {
				strange = append(strange, strings.Join(f, " "))
			}
		default:
			seen[fd] = true
			if !strings.Contains("psk", kind) || kind == "s" && fd != "3" {
				strange = append(strange, strings.Join(f, " "))
			}
		}
	}
	for _, fd := range []string{"0", "1", "2", "3", "root"} {
		if !seen[fd] {
			strange = append(strange, "no "+fd)
		}
	}
	return strange
}

// wrongLimits returns what "procstat -l" does not show of a worker's limits. Its fields are pid, command, name, and the soft and
// the hard value with their units.
func wrongLimits(table string) (wrong []string) {
	want := map[string]string{"coredumpsize": "0", "filesize": "0", "memorylocked": "0", "maxprocesses": "1"}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		if value, known := want[f[2]]; known {
			if f[3] != value {
				wrong = append(wrong, strings.Join(f[2:], " "))
			}
			delete(want, f[2])
		}
	}
	for name := range want {
		wrong = append(wrong, "no "+name)
	}
	return wrong
}
