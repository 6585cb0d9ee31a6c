package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReport(t *testing.T) {
	good, poor, bad := pass("disk", "%d GiB", 9), warn("cgroup", "set Delegate=yes", "none"), fail("kernel", "install 5.12", "5.4")
	tests := []struct {
		name   string
		checks []Check
		worst  Status
		exit   int
	}{
		{"pass", []Check{good}, Pass, 0},
		{"warn", []Check{good, poor, good}, Warn, 1},
		{"fail", []Check{bad, poor, good}, Fail, 2},
		{"nothing checked passes nothing", nil, Fail, 2},
		{"unknown status", []Check{{Name: "x", Status: "odd"}}, "odd", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Report{tt.checks}
			if r.Worst() != tt.worst || r.ExitCode() != tt.exit {
				t.Errorf("Worst = %s, ExitCode = %d; want %s, %d", r.Worst(), r.ExitCode(), tt.worst, tt.exit)
			}
		})
	}
	if diff := cmp.Diff([]Check{bad}, Report{[]Check{good, bad, poor}}.Failed()); diff != "" {
		t.Errorf("Failed (-want +got):\n%s", diff)
	}
}

func TestWriteText(t *testing.T) {
	r := Report{[]Check{pass("disk", "9 GiB free"), warn("cgroup", "set Delegate=yes", "not delegated")}}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `PASS  disk    9 GiB free
WARN  cgroup  not delegated
              -> set Delegate=yes

result: warn
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if err := r.WriteText(broken{}); err == nil {
		t.Error("a broken writer was not told")
	}
}

func TestWriteFailures(t *testing.T) {
	r := Report{[]Check{pass("disk", "9 GiB free"), fail("racct", "reboot", "off"), warn("cgroup", "x", "y"), fail("root", "su", "no")}}
	var b bytes.Buffer
	if err := r.WriteFailures(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("racct: off\n  -> reboot\nroot: no\n  -> su\n", b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if err := r.WriteFailures(broken{}); err == nil {
		t.Error("a broken writer was not told")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestRefusal(t *testing.T) {
	good, bare := pass("disk", "9 GiB"), fail("seccomp", "", "not there")
	one, two := fail("kernel", "install 5.12", "5.4 is too old"), fail("proc", "unmask it", "masked")
	if err := (Report{[]Check{good, warn("cgroup", "x", "y")}}).Refusal("no"); err != nil {
		t.Errorf("no check failed, and the refusal is %v", err)
	}
	err := Report{[]Check{bare, one, good, two}}.Refusal("sandboxes cannot be made")
	if !errors.Is(err, fault.Unavailable) {
		t.Fatalf("refusal = %v", err)
	}
	if diff := cmp.Diff("sandboxes cannot be made:\n  seccomp: not there\n  kernel: 5.4 is too old\n  proc: masked", err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if hint := fault.HintOf(err); hint != "install 5.12; then: unmask it" {
		t.Errorf("hint = %q", hint)
	}
}

func TestReportJSON(t *testing.T) {
	for want, r := range map[string]Report{
		`{"status":"fail","checks":[]}`: {},
		`{"status":"warn","checks":[{"name":"a","status":"pass","detail":"b"},{"name":"c","status":"warn","detail":"d","remedy":"e"}]}`: {
			[]Check{pass("a", "b"), warn("c", "e", "d")}},
	} {
		got, err := json.Marshal(r)
		if err != nil || string(got) != want {
			t.Errorf("JSON = %s, %v; want %s", got, err, want)
		}
	}
}

func TestRelease(t *testing.T) {
	for text, want := range map[string][3]int{
		"6.18.44-fc": {6, 18, 1}, "5.12": {5, 12, 1}, "5.12-rc1": {5, 12, 1}, "13.2-RELEASE-p4": {13, 2, 1},
		"": {0, 0, 0}, "6": {0, 0, 0}, "x.1": {0, 0, 0}, "6.": {6, 0, 0}, "6.x": {6, 0, 0},
	} {
		major, minor, ok := release(text)
		if ok != (want[2] == 1) || ok && (major != want[0] || minor != want[1]) {
			t.Errorf("release(%q) = %d, %d, %v", text, major, minor, ok)
		}
	}
}

func TestLocate(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(base, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, nearest := locate(link)
	if !s.exists || s.resolved != real || nearest != link || s.err != nil || s.mode.Perm() != 0o700 {
		t.Errorf("locate(link) = %+v, %q", s, nearest)
	}
	// A folder to be made is judged by where it will be.
	s, nearest = locate(filepath.Join(link, "a", "b"))
	if s.exists || s.resolved != filepath.Join(real, "a", "b") || nearest != link || s.err != nil {
		t.Errorf("locate(link/a/b) = %+v, %q", s, nearest)
	}
	if s, _ = locate(file); s.err == nil {
		t.Error("a file passed as a folder")
	}
	if s, _ = locate(filepath.Join(file, "a")); s.err == nil {
		t.Error("a folder below a file passed")
	}
}

func TestCgroupDir(t *testing.T) {
	const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	const hybrid = "29 23 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n31 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n"
	tests := []struct {
		name, mountinfo, membership string
		dir, root                   string
	}{
		{"unified", unified, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup"},
		{"hybrid", hybrid, "1:cpu:/x\n0::/y\n", "/sys/fs/cgroup/unified/y", "/sys/fs/cgroup/unified"},
		{"root of a namespace", unified, "0::/\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		{"part of the tree", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/docker/1/a\n", "/sys/fs/cgroup/a", "/sys/fs/cgroup"},
		{"another part", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/user\n", "", ""},
		{"version 1", "29 23 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "1:cpu:/x\n", "", ""},
		{"not mounted", "", "0::/x\n", "", ""},
		{"nonsense", "a\nb - cgroup2 x\n", "0::\n", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, root := cgroupDir(tt.mountinfo, tt.membership)
			if dir != tt.dir || root != tt.root {
				t.Errorf("cgroupDir = %q, %q; want %q, %q", dir, root, tt.dir, tt.root)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	for text, want := range map[string]uint64{
		"MemTotal:  2 kB\nMemAvailable:    1024 kB\n": 1 << 20, "": 0, "MemAvailable: many kB\n": 0, "MemAvailable: 18446744073709551615 kB\n": 0,
	} {
		if got := available(text); got != want {
			t.Errorf("available(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzCgroupDir(f *testing.F) {
	f.Add("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/a\n")
	f.Add("30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/docker/1/a\n")
	f.Fuzz(func(t *testing.T, mountinfo, membership string) {
		if dir, root := cgroupDir(mountinfo, membership); (dir == "") != (root == "") {
			t.Errorf("cgroupDir = %q, %q", dir, root)
		}
	})
}

// What this host is, nobody knows; but every check is made and says something, and nothing is left behind.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for _, isolation := range []string{"namespaces", "jail", "none"} {
		r := Run(t.Context(), Options{StateDir: dir, RunDir: "/tmp/r", Isolation: isolation})
		seen := make(map[string]bool)
		for _, c := range r.Checks {
			if c.Name == "" || c.Detail == "" || seen[c.Name] || (c.Status == Fail && c.Remedy == "") {
				t.Errorf("check %+v", c)
			}
			seen[c.Name] = true
			t.Logf("%s %s: %s -> %s", c.Status, c.Name, c.Detail, c.Remedy)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the state folder: %v, %v", left, err)
	}
}
