package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Tables as procstat(1) of FreeBSD 13 prints them.
const (
	credentials = `  PID COMM              EUID  RUID SVUID  EGID  RGID SVGID UMASK FLAGS GROUPS
 1234 worker           990003 990003 990003 990003 990003 990003   022 C     990003
`
	files = `  PID COMM                FD T V FLAGS    REF  OFFSET PRO NAME
 1234 worker            text v r r-------   -       - -   /usr/local/libexec/playground/worker
 1234 worker             cwd v d r-------   -       - -   /var/empty
 1234 worker            root v d r-------   -       - -   /var/empty
 1234 worker            jail v d r-------   -       - -   /var/empty
 1234 worker               0 p - rw------   1       0 -   -
 1234 worker               1 p - rw------   1       0 -   -
 1234 worker               2 p - rw------   1       0 -   -
 1234 worker               3 s - rw---n--   1       0 UDS 0 0 0
 1234 worker               4 k - rw------   1       0 -   -
`
	limits = `  PID COMM             RLIMIT                  SOFT             HARD     
 1234 worker           cputime             600 sec          600 sec
 1234 worker           filesize              0 B              0 B
 1234 worker           coredumpsize          0 B              0 B
 1234 worker           memorylocked          0 B              0 B
 1234 worker           maxprocesses          1                1
 1234 worker           openfiles            16               16
`
)

func TestWorkerTables(t *testing.T) {
	if got := column(credentials, "FLAGS"); got != "C" {
		t.Errorf("flags %q", got)
	}
	if got := column(credentials, "NOTHING"); got != "" {
		t.Errorf("a title that is not there: %q", got)
	}
	if got := column(strings.ReplaceAll(credentials, " C ", " - "), "FLAGS"); got != "-" {
		t.Errorf("flags %q", got)
	}
	if got := strangeFiles(files); len(got) > 0 {
		t.Errorf("strange: %q", got)
	}
	if got := wrongLimits(limits); len(got) > 0 {
		t.Errorf("wrong: %q", got)
	}
	for name, c := range map[string]struct{ old, changed string }{
		"an open folder":       {"   4 k -", "   4 v d"},
		"another socket":       {"   4 k -", "   4 s -"},
		"another root":         {"root v d r-------   -       - -   /var/empty", "root v d r-------   -       - -   /"},
		"no doors":             {"   3 s -", "   5 p -"},
		"shared memory":        {"   2 p -", "   2 h -"},
		"nothing at all":       {files, ""},
		"a header and no more": {files, files[:64]},
	} {
		if got := strangeFiles(strings.Replace(files, c.old, c.changed, 1)); len(got) == 0 {
			t.Errorf("%s is not strange", name)
		}
	}
	for _, old := range []string{"coredumpsize          0", "maxprocesses          1", "filesize              0"} {
		if got := wrongLimits(strings.Replace(limits, old, old[:len(old)-1]+"7", 1)); len(got) != 1 {
			t.Errorf("%q is not seen: %q", old, got)
		}
	}
	if got := wrongLimits(""); len(got) != 4 {
		t.Errorf("no table: %q", got)
	}
}

func TestNumbersOf(t *testing.T) {
	for text, want := range map[string][]int{" 7  990003 990003\n": {7, 990003, 990003}, "7 x": nil, "": nil} {
		if got := numbersOf(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := `no json
{"message":"running sandboxed","thread":"th_a","pid":7}
{"message":"running sandboxed","thread":"th_b","pid":8}
{"message":"ended","thread":"th_a","pid":9}
{"message":"running sandboxed","thread":"th_a","pid":10}
{"message":"running sandboxed","thread":"th_c","pid":1}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, err := logged(path, "th_a"); pid != 10 || err != nil {
		t.Errorf("%d %v", pid, err)
	}
	for _, thread := range []string{"th_c", "th_d", ""} {
		if pid, err := logged(path, thread); err == nil {
			t.Errorf("%q: %d", thread, pid)
		}
	}
}

// The script is one that the suite takes, and stretches with patience within what it takes.
func TestScript(t *testing.T) {
	for _, patience := range []float64{1, 5, 1000} {
		var out bytes.Buffer
		if err := writeScript(&out, patience); err != nil {
			t.Fatal(err)
		}
		var steps []scriptStep
		if err := json.Unmarshal(out.Bytes(), &steps); err != nil || len(steps) < 6 {
			t.Fatalf("%v: %s", err, out.String())
		}
		for _, s := range steps {
			if s.DelayMS < 0 || s.DelayMS > 10*60*1000 || !slices.ContainsFunc([]string{goalNote, goalSlow, goalLong}, func(goal string) bool { return strings.Contains(goal, s.Match) }) {
				t.Errorf("%+v", s)
			}
		}
	}
}
