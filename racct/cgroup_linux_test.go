package racct

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCgroupDir(t *testing.T) {
	const mounts = "24 1 254:0 / / rw - ext4 /dev/vda rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	tests := []struct{ name, self, mounts, want string }{
		{"unified", "0::/system.slice/x.service\n", mounts, "/sys/fs/cgroup/system.slice/x.service"},
		{"hybrid", "4:memory:/a\n0::/\n", mounts, "/sys/fs/cgroup"},
		{"v1 only", "4:memory:/a\n", mounts, ""},
		{"not mounted", "0::/\n", "24 1 254:0 / / rw - ext4 /dev/vda rw\n", ""},
		{"nonsense", "0::\n", "- cgroup2 \n", ""},
	}
	for _, tt := range tests {
		got, err := cgroupDir(tt.self, tt.mounts)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestLimitFiles(t *testing.T) {
	got := limitFiles(Limits{Threads: 2048, MemoryBytes: 5 << 29, SwapBytes: 3 << 30, CPUPercent: 200})
	want := []limitFile{
		{"memory.oom.group", "1", false}, {"memory.max", "2684354560", false}, {"memory.swap.max", "536870912", true},
		{"pids.max", "2048", false}, {"cpu.max", "200000 100000", true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limitFile{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// fakeCgroup makes a folder with the files a delegated cgroup has.
func fakeCgroup(t *testing.T, controllers string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.procs": ""} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNotDelegated(t *testing.T) {
	for name, dir := range map[string]string{"no controllers": fakeCgroup(t, "cpu hugetlb\n"), "no files": t.TempDir(), "only memory": fakeCgroup(t, "memory\n")} {
		if _, err := openCgroups(dir, 1); err == nil {
			t.Errorf("%s: taken for delegated", name)
		}
		if entries, _ := filepath.Glob(filepath.Join(dir, "daemon")); len(entries) > 0 {
			t.Errorf("%s: left %v", name, entries)
		}
	}
}

func TestHints(t *testing.T) {
	g := &Cgroup{dir: t.TempDir()}
	if hints := g.Hints(); hints != nil {
		t.Errorf("without events: %v", hints)
	}
	os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte("low 0\noom 1\noom_kill 3\n"), 0o600)
	os.WriteFile(filepath.Join(g.dir, "pids.events"), []byte("max 0\n"), 0o600)
	if hints := strings.Join(g.Hints(), ";"); hints != "the memory limit was hit" {
		t.Errorf("got %q", hints)
	}
}
