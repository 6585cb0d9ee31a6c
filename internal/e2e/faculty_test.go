package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"playground/faculty"
	"playground/job"
	"playground/localapi/facultyapi"
	"playground/localapi/jobapi"
)

// workerToken is what only the worker and whoever speaks to it may know.
const workerToken = "wt-7c1f0e6b2a9d4f587c1f0e6b2a9d4f58"

// workerProgram is where the tests put the worker inside the sandbox.
const workerProgram = "/home/ada/mcpworker"

// faculties is a suite with a tenant ada and a worker of hers.
type faculties struct {
	*host
	client  *client
	session string
	api     *facultyapi.Client
}

// startFaculties starts a suite whose tenant has the worker program, and then once more with the worker defined.
func startFaculties(t *testing.T) *faculties {
	t.Helper()
	h := start(t)
	token := h.tenant("ada")
	f := &faculties{host: h, client: h.connect(token)}
	f.session = f.client.open()
	f.install()
	h.stop()
	write(t, filepath.Join(h.state, "token"), workerToken+"\n")
	f.define("serve")
	config := filepath.Join(h.state, "playground.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, config, string(text)+fmt.Sprintf("\n[faculty]\ndefinitions = %q\n", f.definitions()))
	h.launch()
	f.api = facultyapi.NewClient(filepath.Join(h.state, "run", "facultyd.sock"))
	t.Cleanup(f.api.Disconnect)
	f.client = h.connect(token)
	f.session = f.client.open()
	return f
}

func (f *faculties) definitions() string { return filepath.Join(f.state, "workers.json") }

// define writes the definitions: one worker, which behaves so.
func (f *faculties) define(behave string, more ...string) {
	f.t.Helper()
	text, err := json.Marshal(map[string]any{"workers": []any{map[string]any{
		"tenant": "ada", "program": workerProgram, "address": "127.0.0.1:9001", "token_file": filepath.Join(f.state, "token"),
		"args": append([]string{"--listen", "{address}", "--token-file", "{token_file}", "--behave", behave}, more...),
		"env":  map[string]string{"FACULTY_MODE": "test"}, "restart_delay": "200ms",
	}}})
	if err != nil {
		f.t.Fatal(err)
	}
	write(f.t, f.definitions(), string(text))
}

// buildWorker returns the worker program: the one beside the others where it is there, else it is built now.
func buildWorker(t *testing.T, bin string) []byte {
	t.Helper()
	path := filepath.Join(bin, "mcpworker")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(t.TempDir(), "mcpworker")
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "playground/internal/mcpworker")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// install puts the worker into the sandbox, through the sandbox.
func (f *faculties) install() {
	f.t.Helper()
	program := buildWorker(f.t, f.bin)
	jobs := jobapi.NewClient(filepath.Join(f.state, "run", "reaperd.sock"))
	defer jobs.Disconnect()
	for piece := range slices.Chunk(program, 3<<20) {
		spec := job.Spec{Tenant: "ada", Mode: job.Clean, Command: []byte(`cat >>"$1" && chmod 0755 "$1"`), Args: [][]byte{[]byte(workerProgram)}, Stdin: piece}
		done, err := jobs.Exec(f.t.Context(), spec, 100, 100)
		if err != nil || done.ExitCode == nil || *done.ExitCode != 0 {
			f.t.Fatalf("%+v, %v", done, err)
		}
	}
}

// worker returns the worker as "playground faculty list" tells of it, and that command's status.
func (f *faculties) worker() (faculty.Worker, int) {
	f.t.Helper()
	out, errs, status := f.playground("faculty", "list", "-o", "json")
	var listing faculty.Listing
	if err := json.Unmarshal([]byte(out), &listing); err != nil || len(listing.Workers) != 1 {
		f.t.Fatalf("list: status %d, %v\n%s%s", status, err, out, errs)
	}
	return listing.Workers[0], status
}

// reach waits until the worker is as wanted.
func (f *faculties) reach(what string, wanted func(faculty.Worker) bool) faculty.Worker {
	f.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		listing, err := f.api.List(f.t.Context())
		if err == nil && len(listing.Workers) == 1 && wanted(listing.Workers[0]) {
			return listing.Workers[0]
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("the worker is not %s: %+v, %v", what, listing, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// running waits for a life other than the given one, of which the process is known.
func (f *faculties) running(before string) faculty.Worker {
	f.t.Helper()
	return f.reach("running", func(w faculty.Worker) bool { return w.State == faculty.Running && w.Run != before && w.Pid > 0 })
}

// restart writes other definitions and takes them over.
func (f *faculties) restart(behave string, more ...string) {
	f.t.Helper()
	f.define(behave, more...)
	if out, errs, status := f.playground("faculty", "restart", "ada"); status > 1 {
		f.t.Fatalf("restart: status %d\n%s%s", status, out, errs)
	}
}

// probe makes an MCP initialize and a tools/list, as a command of the tenant.
func (f *faculties) probe() string {
	f.t.Helper()
	text, _ := f.client.call(nil, "exec", map[string]any{"session": f.session,
		"command": workerProgram + " probe --token-file /run/playground-faculty/token 2>&1"})
	return text
}

// tree returns the worker's process and all below it.
func tree(pid int) []proc {
	found := family(pid)
	for p := range processes() {
		if p.pid == pid {
			found = append(found, p)
		}
	}
	return found
}

func TestFacultyWorkers(t *testing.T) {
	f := startFaculties(t)
	f.running("")
	for _, part := range []struct {
		name string
		test func(*testing.T, *faculties)
	}{
		{"serves", testServes}, {"token is secret", testTokenSecret}, {"health", testHealth}, {"crash", testCrash},
		{"transport restarts", testTransportRestarts}, {"reaperd killed", testReaperdKilled},
		{"jaild killed", testJaildKilled}, {"facultyd killed", testFacultydKilled},
		{"crash loop", testCrashLoop}, {"daemonize", testDaemonize}, {"stubborn", testStubborn}, {"broken definitions", testBroken},
		{"tenant destroyed", testDestroyed},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			f.t, f.client.t = t, t
			part.test(t, f)
		}) {
			break
		}
	}
	f.t, f.client.t = t, t
	all := family(f.up.Process.Pid)
	f.stop()
	gone(t, all, 10*time.Second)
}

func testServes(t *testing.T, f *faculties) {
	if got := f.probe(); !strings.Contains(got, "tools: 1") {
		// It may only just have been started.
		time.Sleep(time.Second)
		if got = f.probe(); !strings.Contains(got, "tools: 1") {
			t.Errorf("probe: %s", got)
		}
	}
	out, errs, status := f.playground("status")
	if !strings.Contains(out, "faculty workers") || !strings.Contains(out, "1 running") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	if out, _, _ := f.playground("doctor"); !strings.Contains(out, "faculty workers") {
		t.Errorf("doctor: %s", out)
	}
	if out, errs, _ := f.playground("faculty", "logs", "ada"); !strings.Contains(out, "serving at 127.0.0.1:9001") {
		t.Errorf("logs: %s%s", out, errs)
	}
	if out, errs, status := f.playground("faculty", "check"); status != 0 || !strings.Contains(out, "1 workers") {
		t.Errorf("check: %d, %s%s", status, out, errs)
	}
}

// The token is a file of mode 0400 in a folder of mode 0700, and in no process's arguments or environment, which is exactly what
// the definition says.
func testTokenSecret(t *testing.T, f *faculties) {
	text := f.client.ok(nil, "exec", map[string]any{"session": f.session,
		"command": "stat -c %a /run/playground-faculty /run/playground-faculty/token; ls /run/playground-faculty; cat /run/playground-faculty/token"})
	if !strings.Contains(text, "700\n400\ntoken\n"+workerToken) {
		t.Errorf("staged: %s", text)
	}
	w, _ := f.worker()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
	for _, path := range files {
		for _, path := range []string{path, filepath.Join(filepath.Dir(path), "environ")} {
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(workerToken)) {
				t.Errorf("%s holds the token", path)
			}
		}
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(w.Pid) + "/environ")
	if err != nil {
		t.Skipf("another user's environment: %v", err)
	}
	got := make(map[string]string)
	for entry := range strings.SplitSeq(strings.TrimRight(string(environ), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		got[name] = value
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"FACULTY_MODE", "PATH", "PERSONA", "PILE", "TRIBLESPACE_KEY"}) ||
		got["PILE"] != "/pile/self.pile" || got["TRIBLESPACE_KEY"] != "/pile/self.key" || got["PERSONA"] != "ada assistant" || got["FACULTY_MODE"] != "test" {
		t.Errorf("environment %q", environ)
	}
	logs, _ := filepath.Glob(filepath.Join(f.state, "log", "*"))
	own, _ := filepath.Glob(filepath.Join(f.state, "data", "faculty", "*", "*"))
	for _, path := range append(logs, own...) {
		if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(workerToken)) {
			t.Errorf("%s holds the token, or cannot be read: %v", path, err)
		}
	}
}

// Health is what the transport reports of one life.
func testHealth(t *testing.T, f *faculties) {
	w, _ := f.worker()
	if err := f.api.Report(t.Context(), "ada", faculty.Health{Run: w.Run, Problem: "no answer within 5s"}); err != nil {
		t.Fatal(err)
	}
	out, errs, status := f.playground("faculty", "list")
	if status != 1 || !strings.Contains(out, "FAILING") || !strings.Contains(errs, "no answer") {
		t.Errorf("failing: %d, %s%s", status, out, errs)
	}
	if err := f.api.Report(t.Context(), "ada", faculty.Health{Run: w.Run, OK: true, Tools: 1}); err != nil {
		t.Fatal(err)
	}
	if out, _, status := f.playground("faculty", "list"); status != 0 || !strings.Contains(out, "ok, 1 tools") {
		t.Errorf("well: %d, %s", status, out)
	}
}

// A worker that ends is started again, and the restart is counted.
func testCrash(t *testing.T, f *faculties) {
	w, _ := f.worker()
	if err := syscall.Kill(w.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := f.running(w.Run)
	if next.Restarts != 1 || next.Pid == w.Pid || next.LastExit == nil || next.LastExit.Result.Signal != "SIGKILL" || !next.LastExit.Result.Cleanup.Proven {
		t.Errorf("got %+v", next)
	}
	if next.Health != nil {
		t.Error("the health of an earlier life stays")
	}
}

// Workers do not live in the transport.
func testTransportRestarts(t *testing.T, f *faculties) {
	w, _ := f.worker()
	if err := syscall.Kill(f.daemonPid("playgroundd"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.waitFor("playgroundd is ready again", 60*time.Second)
	if now, _ := f.worker(); now.Pid != w.Pid || now.Run != w.Run {
		t.Errorf("before %+v, now %+v", w, now)
	}
}

// A reaperd that is killed takes its workers with it; facultyd starts them anew, and does not count that as an end of theirs.
func testReaperdKilled(t *testing.T, f *faculties) {
	w, _ := f.worker()
	all := tree(w.Pid)
	if err := syscall.Kill(f.daemonPid("playground-reaperd"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, all, 20*time.Second)
	if next := f.running(w.Run); next.State != faculty.Running {
		t.Errorf("got %+v", next)
	}
}

// A jaild that is killed takes all sandboxes with it, on Linux, and has forgotten who held them: the worker gets its own back.
func testJaildKilled(t *testing.T, f *faculties) {
	w, _ := f.worker()
	all := tree(w.Pid)
	if err := syscall.Kill(f.daemonPid("playground-jaild"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, all, 20*time.Second)
	f.running(w.Run)
	f.session = f.client.open()
}

// A facultyd that is killed leaves its workers to the next one, which ends them and starts them anew.
func testFacultydKilled(t *testing.T, f *faculties) {
	w, _ := f.worker()
	all := tree(w.Pid)
	if err := syscall.Kill(f.daemonPid("playground-facultyd"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.waitFor("playground-facultyd is ready again", 60*time.Second)
	f.running(w.Run)
	gone(t, all, 20*time.Second)
}

func testCrashLoop(t *testing.T, f *faculties) {
	f.restart("crash", "--after", "10ms")
	w := f.reach("failed", func(w faculty.Worker) bool { return w.State == faculty.Failed })
	if w.Restarts != 4 || !strings.Contains(w.Problem, "5 times") || *w.LastExit.Result.ExitCode != 7 {
		t.Errorf("got %+v", w)
	}
	if _, status := f.worker(); status != 1 {
		t.Errorf("list ends with %d", status)
	}
}

// A worker that puts itself into the background has ended, and what it left is killed.
func testDaemonize(t *testing.T, f *faculties) {
	f.restart("daemonize")
	w := f.reach("ended", func(w faculty.Worker) bool { return w.LastExit != nil && w.LastExit.Result.Cleanup.Killed > 0 })
	if r := w.LastExit.Result; r.Outcome != job.Exited || !r.Cleanup.Proven || !strings.Contains(w.LastExit.String(), "foreground") {
		t.Errorf("got %+v", w)
	}
}

// A worker that ignores every polite signal, and has a child that does too, is gone after a stop, all of it.
func testStubborn(t *testing.T, f *faculties) {
	f.restart("stubborn")
	w := f.running("")
	var all []proc
	for deadline := time.Now().Add(20 * time.Second); len(all) < 2; all = tree(w.Pid) {
		if time.Now().After(deadline) {
			t.Fatalf("its child does not run: %v", all)
		}
		time.Sleep(10 * time.Millisecond)
	}
	out, errs, status := f.playground("faculty", "stop", "ada")
	if status != 0 || !strings.Contains(out, "is stopped; killed 2, nothing is left: true") {
		t.Errorf("stop: %d, %s%s", status, out, errs)
	}
	gone(t, all, 0)
	if out, _, _ := f.playground("faculty", "list"); !strings.Contains(out, "stopped (by hand)") {
		t.Errorf("list: %s", out)
	}
	text := f.client.ok(nil, "exec", map[string]any{"session": f.session, "command": "ls /run/playground-faculty"})
	if strings.Contains(text, "token") {
		t.Errorf("the token stays: %s", text)
	}
}

// Neither definitions nor a configuration that have become invalid keep the operator from stopping a worker.
func testBroken(t *testing.T, f *faculties) {
	config := filepath.Join(f.state, "playground.toml")
	sound, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	defer write(t, config, string(sound))
	f.define("serve")
	if out, errs, status := f.playground("faculty", "start", "--all"); status != 0 {
		t.Fatalf("start: %d, %s%s", status, out, errs)
	}
	write(t, f.definitions(), `{"workers":[{"tenant":"ada","uid":0}]}`)
	if out, errs, status := f.playground("faculty", "list"); status != 1 || !strings.Contains(out, "running") || !strings.Contains(errs, `unknown key "uid"`) {
		t.Errorf("list: %d, %s%s", status, out, errs)
	}
	if _, errs, status := f.playground("faculty", "check"); status != 1 || !strings.Contains(errs, `unknown key "uid"`) || !strings.Contains(errs, f.definitions()) {
		t.Errorf("check: %d, %s", status, errs)
	}
	if _, errs, status := f.playground("faculty", "restart", "ada"); status != 1 || !strings.Contains(errs, "uid") {
		t.Errorf("restart: %d, %s", status, errs)
	}
	write(t, config, "[host\nnonsense")
	out, errs, status := f.playground("faculty", "stop", "ada")
	if status != 0 || !strings.Contains(out, "nothing is left: true") || !strings.Contains(errs, "warning") {
		t.Errorf("stop: %d, %s%s", status, out, errs)
	}
	f.define("serve")
}

// A tenant that is destroyed takes its workers with it.
func testDestroyed(t *testing.T, f *faculties) {
	if out, errs, status := f.playground("faculty", "start", "ada"); status != 0 {
		t.Fatalf("start: %d, %s%s", status, out, errs)
	}
	w := f.running("")
	all := tree(w.Pid)
	f.must(nil, "user", "destroy", "--force", "ada")
	gone(t, all, 0)
	f.reach("waiting for its tenant", func(w faculty.Worker) bool {
		return w.State == faculty.Backoff && strings.Contains(w.Problem, "no tenant")
	})
}
