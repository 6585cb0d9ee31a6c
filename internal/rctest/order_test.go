package rctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A header is what rcorder(8) reads of a script.
type header struct{ provide, require, before, keyword []string }

// base holds the headers of the base system's scripts that ours stand between, with what lies between those (FreeBSD 13 to
// 15, shortened to names that matter here).
func base() map[string]header {
	return map[string]header{
		"FILESYSTEMS":     {provide: []string{"FILESYSTEMS"}},
		"NETWORKING":      {provide: []string{"NETWORKING", "NETWORK"}, require: []string{"FILESYSTEMS", "pf", "ipfw"}},
		"pf":              {provide: []string{"pf"}, require: []string{"FILESYSTEMS"}},
		"ipfw":            {provide: []string{"ipfw"}},
		"adjkerntz":       {provide: []string{"adjkerntz"}, require: []string{"FILESYSTEMS"}},
		"SERVERS":         {provide: []string{"SERVERS"}, require: []string{"NETWORKING", "FILESYSTEMS"}},
		"DAEMON":          {provide: []string{"DAEMON"}, require: []string{"NETWORKING", "SERVERS"}},
		"LOGIN":           {provide: []string{"LOGIN"}, require: []string{"DAEMON"}},
		"sysctl_lastload": {provide: []string{"sysctl_lastload"}, require: []string{"LOGIN"}, before: []string{"jail"}},
		"jail":            {provide: []string{"jail"}, require: []string{"LOGIN", "FILESYSTEMS"}, before: []string{"securelevel"}},
		"securelevel":     {provide: []string{"securelevel"}, require: []string{"adjkerntz", "ipfw", "pf", "sysctl_lastload"}},
	}
}

// headerLine has exactly one space after the sign: rcorder(8) reads no other form.
var headerLine = regexp.MustCompile(`^# (PROVIDE|REQUIRE|BEFORE|KEYWORD): (\S.*)$`)

// parse reads a script's block of header lines, which ends with the first line of another form.
func parse(text string) header {
	var h header
	began := false
	for line := range strings.Lines(text) {
		match := headerLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			if began {
				break
			}
			continue
		}
		began = true
		words := strings.Fields(match[2])
		switch match[1] {
		case "PROVIDE":
			h.provide = append(h.provide, words...)
		case "REQUIRE":
			h.require = append(h.require, words...)
		case "BEFORE":
			h.before = append(h.before, words...)
		case "KEYWORD":
			h.keyword = append(h.keyword, words...)
		}
	}
	return h
}

// order sorts scripts as rcorder(8) does, and fails where that would complain: a requirement that nobody provides, or a
// circle. A BEFORE that nobody provides is nothing to rcorder.
func order(all map[string]header) ([]string, error) {
	provider := map[string]string{}
	for _, file := range names(all) {
		for _, p := range all[file].provide {
			provider[p] = file
		}
	}
	needs := map[string][]string{}
	for _, file := range names(all) {
		for _, r := range all[file].require {
			if provider[r] == "" {
				return nil, fmt.Errorf("%s requires %s, which nobody provides", file, r)
			}
			needs[file] = append(needs[file], provider[r])
		}
		for _, b := range all[file].before {
			if later := provider[b]; later != "" {
				needs[later] = append(needs[later], file)
			}
		}
	}
	var sorted []string
	state := map[string]int{} // 1: on the way here, 2: done
	var visit func(file string, way []string) error
	visit = func(file string, way []string) error {
		way = append(way, file)
		switch state[file] {
		case 1:
			return fmt.Errorf("circle: %s", strings.Join(way, " "))
		case 2:
			return nil
		}
		state[file] = 1
		for _, need := range needs[file] {
			if err := visit(need, way); err != nil {
				return err
			}
		}
		state[file] = 2
		sorted = append(sorted, file)
		return nil
	}
	for _, file := range names(all) {
		if err := visit(file, nil); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

func script(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "rc.d", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOrderAtBoot(t *testing.T) {
	all := base()
	for _, name := range scripts(t) {
		h := parse(script(t, name))
		if !slices.Equal(h.provide, []string{name}) || !slices.Contains(h.keyword, "nojail") || !slices.Contains(h.keyword, "shutdown") {
			t.Errorf("%s: %+v", name, h)
		}
		all[name] = h
	}
	sorted, err := order(all)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) int { return slices.Index(sorted, name) }
	for _, pair := range [][2]string{
		{"FILESYSTEMS", "playground_jaild"}, {"playground_jaild", "securelevel"}, {"playground_jaild", "playground_reaperd"},
		{"playground_reaperd", "playground_facultyd"}, {"securelevel", "playground_facultyd"},
		{"playground_reaperd", "playground"}, {"securelevel", "playground"}, {"NETWORKING", "playground"},
	} {
		if at(pair[0]) < 0 || at(pair[0]) > at(pair[1]) {
			t.Errorf("%s comes after %s: %v", pair[0], pair[1], sorted)
		}
	}
}

// The check itself must see what it is there for.
func TestOrderFinds(t *testing.T) {
	tests := []struct {
		name string
		all  map[string]header
		want string
	}{
		{"nothing", map[string]header{"a": {provide: []string{"a"}, before: []string{"nobody"}}}, ""},
		{"nobody provides", map[string]header{"a": {provide: []string{"a"}, require: []string{"b"}}}, "a requires b"},
		{"circle", map[string]header{"a": {provide: []string{"a"}, require: []string{"b"}}, "b": {provide: []string{"b"}, require: []string{"a"}}}, "circle: a b a"},
		{"circle by before", map[string]header{"a": {provide: []string{"a"}, require: []string{"b"}, before: []string{"b"}}, "b": {provide: []string{"b"}}}, "circle"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := order(tt.all)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	h := parse("#!/bin/sh\n#\n# PROVIDE: a\n#REQUIRE: b\n# BEFORE: c\n")
	if !slices.Equal(h.provide, []string{"a"}) || h.require != nil || h.before != nil {
		t.Errorf("parsed %+v: a line of another form ends the block", h)
	}
}

// knob is a default: `: "${NAME:=`.
var knob = regexp.MustCompile(`(?m)^: "\$\{(\w+):=`)

// Every variable of rc.conf is described in the header, and every described one exists.
func TestKnobsAreDocumented(t *testing.T) {
	described := regexp.MustCompile(`(?m)^# (\w+) \((?:bool|path|int|str)\):\t\S`)
	for _, name := range scripts(t) {
		text := script(t, name)
		var have, want []string
		for _, match := range knob.FindAllStringSubmatch(text, -1) {
			want = append(want, match[1])
		}
		for _, match := range described.FindAllStringSubmatch(text, -1) {
			have = append(have, match[1])
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s: the header describes %v, the script has %v", name, have, want)
		}
		code := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, "")
		for _, forbidden := range []string{"sudo ", "which ", "bash", "[[", "function "} {
			if strings.Contains(code, forbidden) {
				t.Errorf("%s holds %q", name, forbidden)
			}
		}
		if !strings.HasSuffix(text, "\nrun_rc_command \"$1\"\n") {
			t.Errorf("%s does not end with run_rc_command", name)
		}
	}
}

// newsyslog(8) signals the process that holds the log open.
func TestLogsAreRotated(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(t), "etc", "newsyslog.conf.sample"))
	if err != nil {
		t.Fatal(err)
	}
	rotated := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 8 && !strings.HasPrefix(line, "#") {
			rotated[fields[0]] = fields[7]
		}
	}
	h := newHost(t, "")
	for _, name := range scripts(t) {
		v := h.variables(name)
		if got := rotated[v["logfile"]]; got != v["pidfile"] {
			t.Errorf("%s is rotated with a signal to %q, want %q", v["logfile"], got, v["pidfile"])
		}
	}
	if len(rotated) != len(scripts(t)) {
		t.Errorf("rotated: %v", rotated)
	}
}

func TestShellSyntax(t *testing.T) {
	for _, shell := range [][]string{{"sh", "-n"}, {"dash", "-n"}, {"shellcheck", "-s", "sh"}} {
		t.Run(shell[0], func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip("not installed")
			}
			for _, name := range scripts(t) {
				args := append(slices.Clone(shell[1:]), filepath.Join(repository(t), "rc.d", name))
				if out, err := exec.CommandContext(t.Context(), shell[0], args...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			}
		})
	}
}
