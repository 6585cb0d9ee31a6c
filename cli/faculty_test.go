package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/cli"
	"playground/faculty"
	"playground/fault"
	"playground/job"
	"playground/localapi"
	"playground/localapi/facultyapi"
	"playground/localapi/userapi"
)

// fakeWorkers stands for facultyd: what it keeps, and what it was asked.
type fakeWorkers struct {
	listing faculty.Listing
	log     []byte
	asked   []string
}

func (f *fakeWorkers) List(context.Context) (faculty.Listing, error) { return f.listing, nil }

func (f *fakeWorkers) change(verb, id string, to faculty.State) (faculty.Worker, error) {
	f.asked = append(f.asked, verb+" "+id)
	for _, w := range f.listing.Workers {
		if w.ID == id {
			w.State = to
			return w, nil
		}
	}
	return faculty.Worker{}, fault.New(fault.NotFound, "there is no worker %q", id)
}

func (f *fakeWorkers) Start(_ context.Context, id string) (faculty.Worker, error) {
	return f.change("start", id, faculty.Running)
}

func (f *fakeWorkers) Stop(_ context.Context, id string) (faculty.Worker, error) {
	return f.change("stop", id, faculty.Stopped)
}

func (f *fakeWorkers) Restart(_ context.Context, id string) (faculty.Worker, error) {
	return f.change("restart", id, faculty.Running)
}

func (f *fakeWorkers) Log(_ string, from int64) (faculty.LogPage, error) {
	if from < 0 {
		return faculty.LogPage{Data: f.log, Next: int64(len(f.log))}, nil
	}
	return faculty.LogPage{Next: from}, nil
}

func (f *fakeWorkers) Report(string, faculty.Health) error { return nil }

// workers returns commands that talk to a facultyd with these workers.
func workers(t *testing.T, f *fakeWorkers, asJSON bool) (e *cli.Env, stdout, stderr *bytes.Buffer) {
	t.Helper()
	e, stdout, stderr = env(t, fakeUsers{status: userapi.Status{Daemons: []userapi.Daemon{{Name: "playgroundd", State: userapi.Up}}}}, asJSON)
	me := localapi.Uids(uint32(os.Geteuid()))
	serveRoutes(t, e, "facultyd.sock", facultyapi.Routes(f, facultyapi.Access{Callers: me, Operators: me}))
	return e, stdout, stderr
}

// exit is a worker's end.
func exit(code int, proven bool) *faculty.Exit {
	return &faculty.Exit{Run: "svc-0", At: time.Unix(1, 0), Result: job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Proven: proven}}}
}

func several() faculty.Listing {
	return faculty.Listing{Workers: []faculty.Worker{
		{ID: "ann", State: faculty.Running, Pid: 7, Run: "svc-1", Since: time.Now().Add(-time.Minute), Health: &faculty.Health{OK: true, Tools: 3},
			Usage: map[string]int64{"memoryuse": 5 << 20}, Address: "127.0.0.1:1", LastExit: exit(3, true), Restarts: 2},
		{ID: "bob", State: faculty.Stopped, ByHand: true},
		{ID: "zoe.x", State: faculty.Running, Pid: 8, Stale: true},
	}}
}

func TestFacultyList(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*faculty.Listing)
		out    []string
		errs   []string
		status error
	}{
		{"well", func(*faculty.Listing) {}, []string{"ok, 3 tools", "5 MiB", "1m0s", "stopped (by hand)", "exited with 3", "unknown"},
			[]string{"zoe.x: the definitions have changed", "clients do not reach these workers"}, nil},
		{"none", func(l *faculty.Listing) { l.Workers = nil }, nil, []string{"no workers are defined"}, nil},
		{"failing health", func(l *faculty.Listing) { l.Workers[0].Health = &faculty.Health{Problem: "no answer"} }, []string{"FAILING"},
			[]string{"ann: health: no answer"}, cli.StatusError(1)},
		{"failed", func(l *faculty.Listing) {
			l.Workers[0].State, l.Workers[0].Problem = faculty.Failed, "it ended 5 times"
		}, []string{"failed"},
			[]string{"ann: it ended 5 times"}, cli.StatusError(1)},
		{"not proved", func(l *faculty.Listing) { l.Workers[0].LastExit = exit(3, false) }, []string{"not proved"}, nil, cli.StatusError(1)},
		{"bad definitions", func(l *faculty.Listing) { l.Problem = "unknown key" }, []string{"running"}, []string{"not valid any more", "unknown key"}, cli.StatusError(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, asJSON := range []bool{false, true} {
				f := &fakeWorkers{listing: several()}
				test.change(&f.listing)
				e, stdout, stderr := workers(t, f, asJSON)
				if err := e.FacultyList(t.Context()); !errors.Is(err, test.status) {
					t.Errorf("got %v, want %v", err, test.status)
				}
				if asJSON {
					var got faculty.Listing
					if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || len(got.Workers) != len(f.listing.Workers) {
						t.Errorf("%v in %s", err, stdout)
					}
					continue
				}
				for _, want := range test.out {
					if !strings.Contains(stdout.String(), want) {
						t.Errorf("no %q in %q", want, stdout)
					}
				}
				for _, want := range test.errs {
					if !strings.Contains(stderr.String(), want) {
						t.Errorf("no %q in %q", want, stderr)
					}
				}
			}
		})
	}
}

func TestFacultyChanges(t *testing.T) {
	all := cli.FacultyTarget{All: true}
	for _, test := range []struct {
		name  string
		run   func(*cli.Env, context.Context, cli.FacultyTarget) error
		to    cli.FacultyTarget
		asked []string
		out   string
		kind  error
	}{
		{"start", (*cli.Env).FacultyStart, cli.FacultyTarget{Worker: "bob"}, []string{"start bob"}, "worker bob is running\n", nil},
		{"start all", (*cli.Env).FacultyStart, all, []string{"start bob"}, "worker bob is running\n", nil},
		{"stop", (*cli.Env).FacultyStop, cli.FacultyTarget{Worker: "ann"}, []string{"stop ann"}, "worker ann is stopped; killed 0, nothing is left: true\n", nil},
		{"stop all", (*cli.Env).FacultyStop, all, []string{"stop ann", "stop zoe.x"}, "worker zoe.x is stopped", nil},
		{"restart all", (*cli.Env).FacultyRestart, all, []string{"restart ann", "restart zoe.x"}, "worker ann is running", nil},
		{"nobody", (*cli.Env).FacultyStop, cli.FacultyTarget{Worker: "eve"}, []string{"stop eve"}, "", fault.NotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fakeWorkers{listing: several()}
			e, stdout, _ := workers(t, f, false)
			if err := test.run(e, t.Context(), test.to); !errors.Is(err, test.kind) {
				t.Errorf("got %v, want %v", err, test.kind)
			}
			if !slices.Equal(f.asked, test.asked) || !strings.Contains(stdout.String(), test.out) {
				t.Errorf("asked %q, printed %q", f.asked, stdout)
			}
		})
	}
	// A worker that is gone without proof is no success.
	f := &fakeWorkers{listing: several()}
	f.listing.Workers[0].LastExit = exit(0, false)
	e, stdout, _ := workers(t, f, false)
	if err := e.FacultyStop(t.Context(), cli.FacultyTarget{Worker: "ann"}); !errors.Is(err, cli.StatusError(1)) || !strings.Contains(stdout.String(), "nothing is left: false") {
		t.Errorf("got %v: %s", err, stdout)
	}
}

// What a worker wrote must not command the operator's terminal.
func TestFacultyLogs(t *testing.T) {
	f := &fakeWorkers{log: []byte("one\ntwo\x1b[2J\tü\xff\r\nthree\u009b\u202e\n")}
	for _, test := range []struct {
		lines int
		want  string
	}{
		{9, "one\ntwo\\x1b[2J\tü\\xff\\x0d\nthree\\xc2\\x9b\\xe2\\x80\\xae\n"}, {2, "two\\x1b[2J\tü\\xff\\x0d\nthree\\xc2\\x9b\\xe2\\x80\\xae\n"}, {1, "three\\xc2\\x9b\\xe2\\x80\\xae\n"},
	} {
		e, stdout, _ := workers(t, f, false)
		if err := e.FacultyLogs(t.Context(), "ann", test.lines, false); err != nil || stdout.String() != test.want {
			t.Errorf("%d lines: %q, %v", test.lines, stdout, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	e, _, _ := workers(t, f, false)
	if err := e.FacultyLogs(ctx, "ann", 1, true); err != nil {
		t.Errorf("an interrupted follow: %v", err)
	}
}

// Status and doctor tell of workers only where the host has some to keep.
func TestStatusTellsOfWorkers(t *testing.T) {
	f := &fakeWorkers{listing: several()}
	f.listing.Workers[0].Health = &faculty.Health{Problem: "no answer"}
	e, stdout, _ := workers(t, f, false)
	if err := e.Status(t.Context()); err != nil || strings.Contains(stdout.String(), "faculty") {
		t.Errorf("without definitions: %v, %s", err, stdout)
	}
	text, err := os.ReadFile(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Config, append(text, "[faculty]\ndefinitions = \"/no/such/file\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout.Reset()
	if err := e.Status(t.Context()); err != nil || !strings.Contains(stdout.String(), "1 running, 1 running but failing, 1 stopped") ||
		!strings.Contains(stdout.String(), "playground-facultyd   up") {
		t.Errorf("with definitions: %v, %s", err, stdout)
	}
	report, err := e.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, check := range report.Checks {
		if check.Name == "faculty workers" {
			found = check.Status == "warn" && strings.Contains(check.Detail, "/no/such/file") && check.Remedy != ""
		}
	}
	if !found {
		t.Errorf("doctor says %+v", report.Checks)
	}
}

// The check reads tokens as both daemons will, and finds two tenants who could pass for each other.
func TestFacultyCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := strings.Repeat("a", 64)+"\n", strings.Repeat("b", 64)
	for _, test := range []struct{ name, ann, bob, want string }{
		{"good", a, b, ""},
		{"same", a, a, "worker bob: it has the same token as ann"},
		{"short", "sesame", b, "worker ann: cannot use token file"},
		{"all are told", "sesame", "open", "; worker bob: cannot use token file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, stdout, stderr := workers(t, &fakeWorkers{}, false)
			definitions := write("workers.json", fmt.Sprintf(`{"workers":[
				{"tenant":"ann","program":"/p","address":"127.0.0.1:1","token_file":%q},
				{"tenant":"bob","program":"/p","address":"127.0.0.1:2","token_file":%q}]}`, write("ann", test.ann), write("bob", test.bob)))
			text, err := os.ReadFile(e.Config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(e.Config, fmt.Appendf(text, "[faculty]\ndefinitions = %q\n", definitions), 0o600); err != nil {
				t.Fatal(err)
			}
			err = e.FacultyCheck(t.Context())
			if test.want == "" {
				if err != nil || !strings.Contains(stdout.String(), "2 workers") {
					t.Fatalf("%v: %s", err, stdout)
				}
				if !strings.Contains(stderr.String(), `http.catalogue is "sandbox"`) {
					t.Errorf("nothing tells that no client reaches them: %q", stderr)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(fault.HintOf(err), "playground-facultyd(8)") {
				t.Errorf("got %v (%s)", err, fault.HintOf(err))
			}
			if err != nil && (strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "aaaa")) {
				t.Errorf("it tells a token: %v", err)
			}
		})
	}
}

// A worker that the gateway would look for elsewhere, or speak to with another token, answers nobody.
func TestFacultyCheckComparesTheManifest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ann, bob, same := write("ann", strings.Repeat("a", 64)), write("bob", strings.Repeat("b", 64)), write("same", strings.Repeat("a", 64)+"\n")
	definitions := write("workers.json", fmt.Sprintf(`{"workers":[{"tenant":"ann","program":"/p","address":"127.0.0.1:1","token_file":%q}]}`, ann))
	entry := func(tenant, address, token string) string {
		return fmt.Sprintf(`[{"tenant":%q,"address":%q,"token_file":%q}]`, tenant, address, token)
	}
	for name, test := range map[string]struct{ manifest, want string }{
		"the same":              {entry("ann", "127.0.0.1:1", ann), ""},
		"a copy of the token":   {entry("ann", "127.0.0.1:1", same), ""},
		"somebody else's":       {entry("bob", "127.0.0.1:2", bob), ""},
		"another address":       {entry("ann", "127.0.0.1:2", ann), "worker ann is at 127.0.0.1:1"},
		"another token":         {entry("ann", "127.0.0.1:1", bob), "worker ann: gateway.manifest has another token"},
		"another's worker":      {entry("bob", "127.0.0.1:1", bob), "sends tenant bob to 127.0.0.1:1, which is the worker ann"},
		"a manifest cut in two": {"[", "manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, _ := workers(t, &fakeWorkers{}, false)
			text, err := os.ReadFile(e.Config)
			if err != nil {
				t.Fatal(err)
			}
			text = fmt.Appendf(text, "[http]\ncatalogue = \"workers\"\n[gateway]\nmanifest = %q\n[faculty]\ndefinitions = %q\n", write("manifest.json", test.manifest), definitions)
			if err := os.WriteFile(e.Config, text, 0o600); err != nil {
				t.Fatal(err)
			}
			err = e.FacultyCheck(t.Context())
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.HintOf(err) == "" || strings.Contains(err.Error(), "aaaa") {
				t.Errorf("%v, hint %q", err, fault.HintOf(err))
			}
		})
	}
}
