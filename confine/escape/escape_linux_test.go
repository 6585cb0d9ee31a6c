package escape_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"playground/confine"
	"playground/confine/escape"
	"playground/internal/workertest"
)

// A pair is the stand-in for a worker and a daemon of one worker.
type pair struct{ worker, starter string }

func build(tags ...string) (pair, error) {
	var p pair
	var err error
	if p.worker, err = workertest.Build("worker", "playground/internal/workertest/testdata/worker", tags...); err == nil {
		p.starter, err = workertest.Build("starter", "playground/internal/workertest/testdata/starter", tags...)
	}
	return p, err
}

var (
	normal = sync.OnceValues(func() (pair, error) { return build() })
	// weak programs can leave out a layer; those for use cannot.
	weak = sync.OnceValues(func() (pair, error) { return build("-tags", "weaken") })
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

func programs(t *testing.T, get func() (pair, error)) pair {
	t.Helper()
	workertest.Allowed(t)
	p, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A shape is what the daemon runs as.
type shape struct {
	name string
	uid  int // of the worker; 0: the daemon's own
	cred *syscall.Credential
}

// shapes are those that this test's user can have: an ordinary user's, and root's.
func shapes(t *testing.T) []shape {
	if os.Geteuid() != 0 {
		return []shape{{name: "user"}}
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatalf("user nobody has the ids %s and %s", nobody.Uid, nobody.Gid)
	}
	return []shape{
		{name: "user", cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
		{name: "root", uid: 905_001},
	}
}

// A result is what came of one start.
type result struct {
	rows    []escape.Row
	refused string
	said    string // on standard error
	exit    confine.Exit
}

// reach starts a worker and lets it reach for what there is: a process, a port, a socket and a file of its daemon's user.
func reach(t *testing.T, p pair, s shape, weaken, useUp string, bounds confine.Bounds) result {
	t.Helper()
	dir, err := os.MkdirTemp("", "esc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	secret, socket := filepath.Join(dir, "hub.db"), filepath.Join(dir, "operator.sock")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	local, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	os.Chmod(socket, 0o777)
	victim := exec.Command("sleep", "300")
	victim.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Pdeathsig: syscall.SIGKILL}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Wait()
	defer victim.Process.Kill()
	line, err := json.Marshal(map[string]any{"thread": "th_own", "bearer": "right", "plan": escape.Plan{
		Shape: s.name, Processes: []int{victim.Process.Pid}, Ports: []int{tcp.Addr().(*net.TCPAddr).Port}, Sockets: []string{socket},
		Files: []string{secret, "/etc/passwd", "/etc/shadow"}, Folders: []string{dir, "/tmp", "/home", "/dev/shm"},
		Programs: []string{"/bin/sh", "/usr/bin/su"}, Other: "th_other", Ended: "ended", UseUp: useUp,
	}})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := json.Marshal(bounds)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(p.starter, p.worker, strconv.Itoa(s.uid), string(limits))
	cmd.Env = []string{"PLAYGROUND_WEAKEN=" + weaken}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(append(line, '\n'))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	// What a careless parent leaves to the daemon reaches the daemon's children. 3 is the doors' number in a worker.
	left, err := os.Open(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	cmd.ExtraFiles = []*os.File{left, left}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

func parse(t *testing.T, out []byte) result {
	t.Helper()
	var r result
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "refused: "); ok {
			r.refused = text
		} else if text, ok := strings.CutPrefix(line, "said: "); ok {
			r.said = text
		} else if text, ok := strings.CutPrefix(line, "exit: "); ok {
			if err := json.Unmarshal([]byte(text), &r.exit); err != nil {
				t.Fatal(err)
			}
		} else if strings.HasPrefix(line, "{") {
			var row escape.Row
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			r.rows = append(r.rows, row)
		}
	}
	return r
}

// red returns the layers that have a red row.
func red(rows []escape.Row) []confine.Layer {
	var layers []confine.Layer
	for _, r := range rows {
		if !r.Pass && !slices.Contains(layers, r.Layer) {
			layers = append(layers, r.Layer)
		}
	}
	return layers
}

// TestSuite is the escape suite, in both shapes: every row is green.
func TestSuite(t *testing.T) {
	p := programs(t, normal)
	for _, s := range shapes(t) {
		t.Run(s.name, func(t *testing.T) {
			r := reach(t, p, s, "", "", confine.Bounds{})
			if r.refused != "" {
				t.Fatal(r.refused)
			}
			var table bytes.Buffer
			if err := escape.Write(&table, r.rows); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", table.String())
			if len(r.rows) < 200 || len(red(r.rows)) > 0 {
				t.Errorf("%d rows, red: %v", len(r.rows), red(r.rows))
			}
			for _, layer := range []confine.Layer{confine.User, confine.Network, confine.Root, confine.Privileges, confine.Syscalls, confine.Limits,
				confine.Environment, confine.Descriptors, confine.Tracing, confine.Lifetime, escape.Doors} {
				if !slices.ContainsFunc(r.rows, func(row escape.Row) bool { return row.Layer == layer }) {
					t.Errorf("no row is about layer %s", layer)
				}
			}
			for i, row := range r.rows {
				if row.Row != i+1 || row.Shape != s.name {
					t.Fatalf("row %d is %+v", i, row)
				}
			}
			if r.exit.Status != 0 || !r.exit.Cleanup.Proven {
				t.Errorf("exit %+v", r.exit)
			}
		})
	}
}

// TestUseUp: what a worker uses up ends it.
func TestUseUp(t *testing.T) {
	p := programs(t, normal)
	for _, s := range shapes(t) {
		for what, bounds := range map[string]confine.Bounds{"cpu": {CPUSeconds: 2}, "memory": {DataBytes: 160 << 20}, "threads": {}} {
			t.Run(s.name+" "+what, func(t *testing.T) {
				r := reach(t, p, s, "", what, bounds)
				if row := escape.Used(s.name, 1, what, r.exit); !row.Pass {
					t.Errorf("%+v (%s)", row, r.refused)
				}
				// A crash alone would also be that of a worker that may make no thread at all.
				if again := fmt.Sprintf("errno=%d)", syscall.EAGAIN); what == "threads" && !strings.Contains(r.said, again) {
					t.Errorf("not the limit ended it: %.300s", r.said)
				}
			})
		}
	}
}

// TestWeakened leaves out one layer after the other: its rows go red, and with the verification on nothing is started at all.
func TestWeakened(t *testing.T) {
	p := programs(t, weak)
	for _, s := range shapes(t) {
		for _, layer := range confine.Layers() {
			t.Run(s.name+" "+string(layer), func(t *testing.T) {
				if s.name == "user" && layer == confine.User || layer == confine.Image {
					t.Skip("an ordinary user has no other namespace without it; the image is not the worker's to leave out")
				}
				r := reach(t, p, s, string(layer), "", confine.Bounds{})
				if r.refused != "" {
					t.Errorf("unverified, it is refused: %s", r.refused)
				} else if !slices.Contains(red(r.rows), layer) {
					t.Errorf("no row is red; red are %v", red(r.rows))
				}
				r = reach(t, p, s, string(layer)+"+verify", "", confine.Bounds{})
				if !strings.Contains(r.refused, string(layer)+" (") || len(r.rows) > 0 {
					t.Errorf("verified: %q, %d rows", r.refused, len(r.rows))
				}
			})
		}
	}
}

// TestNoSwitch: only a build for tests has the way to leave out a layer.
func TestNoSwitch(t *testing.T) {
	const name = "PLAYGROUND_WEAKEN"
	has := func(path string) bool {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(data, []byte(name))
	}
	w := programs(t, weak)
	if !has(w.starter) {
		t.Error("the build that has it does not show it")
	}
	n := programs(t, normal)
	found := []string{n.worker, n.starter}
	if bin := os.Getenv("PLAYGROUND_BIN"); bin != "" {
		more, err := filepath.Glob(filepath.Join(bin, "playground*"))
		if err != nil || len(more) == 0 {
			t.Fatalf("no programs in %s: %v", bin, err)
		}
		found = append(found, more...)
	}
	for _, path := range found {
		if has(path) {
			t.Errorf("%s has the switch", path)
		}
	}
}
