package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A host is the machine under the suite, asked with its own tools and not with the suite's.
type host struct {
	prefix  string
	config  string // of the suite, by which its daemons are known
	freebsd bool
}

// A process is one line of ps(1).
type process struct {
	pid, parent, rssKiB int
	name                string
}

// processes lists what runs on the host, in jails or not.
func (h host) processes() ([]process, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=", "-o", "ppid=", "-o", "rss=", "-o", "comm=").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run ps: %w", err)
	}
	var list []process
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		rss, _ := strconv.Atoi(f[2])
		list = append(list, process{pid, parent, rss, f[3]})
	}
	return list, nil
}

// named counts the processes whose name begins so.
func (h host) named(name string) (list []process, err error) {
	all, err := h.processes()
	for _, p := range all {
		if strings.HasPrefix(p.name, name) {
			list = append(list, p)
		}
	}
	return list, err
}

// A command is a process with its whole command line.
type command struct {
	pid, parent int
	line        string
}

// commands lists the processes whose command lines match.
func (h host) commands(match func(line string) bool) (list []command, err error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=", "-o", "ppid=", "-o", "command=").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run ps: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		ids := numbersOf(f[0] + " " + f[1])
		if text := strings.Join(f[2:], " "); len(ids) == 2 && match(text) {
			list = append(list, command{ids[0], ids[1], text})
		}
	}
	return list, nil
}

// instances lists the processes that are this suite's daemon of that name. A child that has not become another program yet is
// none.
func (h host) instances(daemon string) (pids []int, err error) {
	all, err := h.commands(func(line string) bool { return strings.HasSuffix(line, daemon+" -c "+h.config) })
	for _, one := range all {
		if !slices.ContainsFunc(all, func(other command) bool { return other.pid == one.parent }) {
			pids = append(pids, one.pid)
		}
	}
	return pids, err
}

// leaves lists the jails of jobs: children of the suite's tenant jails.
func (h host) leaves() ([]string, error) { return h.jails(h.prefix+"-", true) }

// jails lists the living jails whose names begin so; with a leaf, only children of others.
func (h host) jails(prefix string, leaf bool) (names []string, err error) {
	if !h.freebsd {
		return nil, nil
	}
	out, err := exec.Command("/usr/sbin/jls", "-n", "name").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run jls: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.Trim(strings.TrimPrefix(strings.TrimSpace(line), "name="), `"`)
		if strings.HasPrefix(name, prefix) && (!leaf || strings.Contains(name, ".")) {
			names = append(names, name)
		}
	}
	return names, nil
}

// workers lists what is left of work-loop workers: on FreeBSD their jails, elsewhere children of this suite's playground-reaperd
// and orphans.
func (h host) workers() (found []string, err error) {
	if h.freebsd {
		return h.jails(h.prefix+workerInfix, false)
	}
	list, err := h.named("playground-work") // ps(1) cuts long names
	if err != nil || len(list) == 0 {
		return nil, err
	}
	parents, err := h.instances("playground-reaperd")
	for _, p := range list {
		if p.parent == 1 || slices.Contains(parents, p.parent) {
			found = append(found, fmt.Sprintf("process %d", p.pid))
		}
	}
	return found, err
}

// workerInfix follows the prefix in the names of workers' jails.
const workerInfix = "w-"

// rules lists the limits of jails whose names begin so.
func (h host) rules(prefix string) (rules []string, err error) {
	if !h.freebsd {
		return nil, nil
	}
	out, err := exec.Command("/usr/bin/rctl").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run rctl: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "jail:"+prefix) {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules, nil
}

// left says what jobs left on the host; "" is nothing. It waits a little, because the kernel takes jails away on its own time.
func (h host) left(most time.Duration) string {
	for deadline := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		text := h.leftNow()
		if text == "" || time.Now().After(deadline) {
			return text
		}
	}
}

func (h host) leftNow() string {
	var found []string
	adversaries, err := h.named(adversaryName)
	if err != nil {
		found = append(found, err.Error())
	}
	if len(adversaries) > 0 {
		found = append(found, fmt.Sprintf("%d processes, such as %d", len(adversaries), adversaries[0].pid))
	}
	leaves, err := h.leaves()
	if err != nil {
		found = append(found, err.Error())
	}
	if len(leaves) > 0 {
		found = append(found, fmt.Sprintf("%d leaf jails, such as %s", len(leaves), leaves[0]))
	}
	workers, err := h.workers()
	if err != nil {
		found = append(found, err.Error())
	}
	if len(workers) > 0 {
		found = append(found, fmt.Sprintf("%d work-loop workers, such as %s", len(workers), workers[0]))
	}
	rules, err := h.rules(h.prefix)
	if err != nil {
		found = append(found, err.Error())
	}
	if len(rules) > 0 {
		found = append(found, fmt.Sprintf("%d rctl rules, such as %s", len(rules), rules[0]))
	}
	return strings.Join(found, "; ")
}
