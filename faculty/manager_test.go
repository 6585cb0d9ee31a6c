package faculty_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"playground/faculty"
	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// in runs a test in a bubble with a world and a folder.
func in(t *testing.T, f func(t *testing.T, w *world, dir string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(), dir) })
}

func TestLife(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		got := b.reach("alice", faculty.Running)
		if got.Run != "svc-1" || got.Pid != 42 || got.Usage["maxproc"] != 1 || got.Started.IsZero() || got.Restarts != 0 || got.Stale || got.ByHand {
			t.Errorf("running: %+v", got)
		}
		want := job.ServiceSpec{
			Tenant: "alice", Name: "faculty", Argv: []string{"/opt/w", "--at", "127.0.0.1:9001", "--token=/run/playground-faculty/token"},
			Env: []string{"MODE=x", "PATH=/usr/bin:/bin", "PERSONA=alice assistant", "PILE=/pile/self.pile", "TRIBLESPACE_KEY=/pile/self.key"},
		}
		if got := w.starts[0]; !slices.Equal(got.Argv, want.Argv) || !slices.Equal(got.Env, want.Env) || got.Tenant != want.Tenant || got.Name != want.Name {
			t.Errorf("started %+v", got)
		}
		if w.staged["/run/playground-faculty/token"] != "s3cret" || w.handles["alice"] != 1 {
			t.Errorf("staged %v, handles %v", w.staged, w.handles)
		}
		w.set(func() {
			w.services["svc-1"].out, w.services["svc-1"].cursor = []ring.Chunk{{Stream: ring.Stdout, Data: []byte("hello\n")}}, 6
		})
		got, err := b.Stop(t.Context(), "alice")
		if err != nil || got.State != faculty.Stopped || !got.LastExit.Result.Cleanup.Proven || got.LastExit.Result.Cleanup.Killed != 2 {
			t.Errorf("stopped: %+v, %v", got, err)
		}
		if len(w.running()) != 0 || w.handles["alice"] != 0 || len(w.staged) != 0 {
			t.Errorf("left: services %v, handles %v, tokens %v", w.running(), w.handles, w.staged)
		}
		if log := b.log("alice"); !strings.Contains(log, "hello\n") || !strings.Contains(log, "started, as svc-1") || strings.Contains(log, "s3cret") {
			t.Errorf("log %q", log)
		}
		if got := b.worker("alice"); !got.ByHand {
			t.Error("it does not say that it was stopped by hand")
		}
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		// Stopped by hand stays so over a restart, until somebody starts it.
		b = run(t, w, dir)
		time.Sleep(time.Hour)
		if got := b.worker("alice"); got.State != faculty.Stopped || !got.ByHand || len(w.running()) != 0 {
			t.Errorf("after a restart: %+v", got)
		}
		if got, err := b.Start(t.Context(), "alice"); err != nil || got.State != faculty.Running {
			t.Errorf("started by hand: %+v, %v", got, err)
		}
		if err := b.stop(); err != nil || len(w.running()) != 0 {
			t.Errorf("the daemon's stop: %v, %v", err, w.running())
		}
		b = run(t, w, dir)
		b.reach("alice", faculty.Running)
		b.stop()
	})
}

func TestCrashes(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		for n := range 4 {
			got := b.reach("alice", faculty.Running)
			if got.Restarts != n {
				t.Errorf("%d restarts, want %d", got.Restarts, n)
			}
			w.exit(3)
			got = b.reach("alice", faculty.Backoff)
			if got.Retry.IsZero() || *got.LastExit.Result.ExitCode != 3 || !strings.Contains(got.Problem, "exited with 3") {
				t.Errorf("backoff: %+v", got)
			}
		}
		b.reach("alice", faculty.Running)
		w.exit(3)
		got := b.reach("alice", faculty.Failed)
		if !strings.Contains(got.Problem, "5 times within 1m0s") || got.Restarts != 4 {
			t.Errorf("failed: %+v", got)
		}
		time.Sleep(time.Hour)
		if got := b.worker("alice"); got.State != faculty.Failed || len(w.running()) != 0 {
			t.Errorf("later: %+v", got)
		}
		if got, err := b.Start(t.Context(), "alice"); err != nil || got.State != faculty.Running || got.Restarts != 0 {
			t.Errorf("started by hand: %+v, %v", got, err)
		}
		// The token is read anew at each start, and a daemonizing worker is told what it does wrong.
		w.set(func() { w.tokens["/t/alice"] = "other" })
		code := 0
		w.end(w.running()[0], job.Result{Outcome: job.Exited, ExitCode: &code, Cleanup: job.Cleanup{Killed: 1, Proven: true}})
		if got := b.reach("alice", faculty.Backoff); !strings.Contains(got.Problem, "foreground") {
			t.Errorf("daemonized: %+v", got)
		}
		b.reach("alice", faculty.Running)
		if w.staged["/run/playground-faculty/token"] != "other" {
			t.Errorf("staged %v", w.staged)
		}
		b.stop()
	})
}

// A reaperd that is started anew has ended all services: they are started anew, and that is nobody's fault.
func TestReaperAway(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		for range 10 {
			b.reach("alice", faculty.Running)
			w.set(func() { w.down = true })
			time.Sleep(3 * time.Second)
			if got := b.worker("alice"); got.State != faculty.Running || !strings.Contains(got.Problem, "cannot reach") {
				t.Errorf("while it is away: %+v", got)
			}
			w.restart()
			b.reach("alice", faculty.Backoff)
		}
		if got := b.reach("alice", faculty.Running); len(w.running()) != 1 {
			t.Errorf("%+v, services %v", got, w.running())
		}
		// A stop waits for it, and says so; the service is ended when it answers again.
		w.set(func() { w.down = true })
		done := make(chan error, 1)
		go func() {
			_, err := b.Stop(t.Context(), "alice")
			done <- err
		}()
		time.Sleep(5 * time.Second)
		select {
		case err := <-done:
			t.Errorf("stopped though reaperd is away: %v", err)
		default:
		}
		w.set(func() { w.down = false })
		if err := <-done; err != nil || len(w.running()) != 0 {
			t.Errorf("stopped: %v, %v", err, w.running())
		}
		b.stop()
	})
}

// A start whose answer was lost leaves no second life.
func TestLostReply(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		w.lostReply = true
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		if len(w.running()) != 1 || w.next != 2 {
			t.Errorf("services %v of %d", w.running(), w.next)
		}
		b.stop()
	})
}

// What an earlier process left is ended before anything is started, also what is no longer defined.
func TestLeftovers(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		for _, name := range []string{"faculty-old", "other"} {
			if _, err := w.Start(t.Context(), job.ServiceSpec{Tenant: "bob", Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		w.set(func() { w.down = true })
		second := run(t, w, dir) // as if the first had been killed
		_, err := second.Start(t.Context(), "alice")
		is(t, err, fault.Unavailable, "earlier")
		w.set(func() { w.down = false })
		second.reach("alice", faculty.Running)
		var names []string
		for _, id := range w.running() {
			names = append(names, w.services[id].Name)
		}
		slices.Sort(names)
		if !slices.Contains(names, "other") || slices.Contains(names, "faculty-old") {
			t.Errorf("services %v", names)
		}
		b.stop()
		second.stop()
	})
}

// Definitions that become invalid stop nobody, and keep nobody from stopping.
func TestDefinitionsBreak(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		first := b.reach("alice", faculty.Running)
		w.set(func() { w.defsErr = fault.New(fault.Invalid, "line 3 is bad") })
		listing, err := b.List(t.Context())
		if err != nil || !strings.Contains(listing.Problem, "line 3") || listing.Workers[0].State != faculty.Running {
			t.Errorf("list: %+v, %v", listing, err)
		}
		_, err = b.Restart(t.Context(), "alice")
		is(t, err, fault.Invalid, "line 3")
		if got := b.worker("alice"); got.Run != first.Run {
			t.Error("a refused restart has stopped it")
		}
		w.exit(1) // a restart of its own uses what is known
		b.reach("alice", faculty.Running)
		if _, err := b.Stop(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		_, err = b.Start(t.Context(), "alice")
		is(t, err, fault.Invalid, "line 3")
		// They are mended, and say something else.
		def := alice()
		def.Args = []string{"new"}
		other := alice()
		other.Name, other.TokenFile = "second", "/t/alice"
		w.set(func() { w.defs, w.defsErr = []faculty.Definition{def, other}, nil })
		if got := b.worker("alice"); !got.Stale {
			t.Errorf("changed: %+v", got)
		}
		if got := b.worker("alice.second"); got.State != faculty.Stopped || !got.Stale {
			t.Errorf("new: %+v", got)
		}
		if _, err := b.Start(t.Context(), "alice"); err != nil || w.starts[len(w.starts)-1].Argv[1] != "new" {
			t.Errorf("the new definition: %v, %v", err, w.starts)
		}
		if got, err := b.Start(t.Context(), "alice.second"); err != nil || got.State != faculty.Running ||
			w.starts[len(w.starts)-1].Argv[3] != "--token=/run/playground-faculty/token.second" {
			t.Errorf("the new worker: %+v, %v", got, err)
		}
		// One that is taken out goes on until it is stopped.
		w.set(func() { w.defs = nil })
		if got := b.worker("alice"); got.State != faculty.Running || !got.Stale {
			t.Errorf("taken out: %+v", got)
		}
		_, err = b.Restart(t.Context(), "alice")
		is(t, err, fault.NotFound, "alice")
		if got, err := b.Stop(t.Context(), "alice"); err != nil || got.State != faculty.Stopped {
			t.Errorf("stop of what was taken out: %+v, %v", got, err)
		}
		b.stop()
		// A daemon that starts with broken ones comes up, without workers.
		w.set(func() { w.defsErr = fault.New(fault.Invalid, "line 3 is bad") })
		b = run(t, w, dir)
		if listing, err := b.List(t.Context()); err != nil || listing.Problem == "" || len(w.troubles) == 0 {
			t.Errorf("start with broken ones: %+v, %v, %v", listing, err, w.troubles)
		}
		b.stop()
	})
}

// Starts that the host refuses are tried again, and are no crashes.
func TestRefusedStarts(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := &bench{}
		for name, test := range map[string]struct {
			breaks, mends func()
			text          string
		}{
			"no token":  {func() { delete(w.tokens, "/t/alice") }, func() { w.tokens["/t/alice"] = "x" }, "/t/alice"},
			"no tenant": {func() { delete(w.sandboxes, "alice") }, func() { w.sandboxes["alice"] = jail.Sandbox{ID: "01B", Isolation: jail.IsolationNamespaces} }, "no tenant"},
			"no proof":  {func() { w.startErr = fault.New(fault.ProofLost, "starts are refused") }, func() { w.startErr = nil }, "starts are refused"},
			"none":      {func() { w.sandboxes["alice"] = jail.Sandbox{Isolation: jail.IsolationNone} }, func() { w.sandboxes["alice"] = jail.Sandbox{ID: "01C", Isolation: jail.IsolationNamespaces} }, "isolation"},
		} {
			w.set(test.breaks)
			b = run(t, w, dir)
			got := b.reach("alice", faculty.Backoff)
			if !strings.Contains(got.Problem, test.text) {
				t.Errorf("%s: %+v", name, got)
			}
			time.Sleep(10 * time.Minute)
			if got := b.worker("alice"); got.State != faculty.Backoff && got.State != faculty.Starting || got.Restarts != 0 || len(w.running()) != 0 {
				t.Errorf("%s, later: %+v", name, got)
			}
			w.set(test.mends)
			b.reach("alice", faculty.Running)
			if err := b.stop(); err != nil || len(w.running()) != 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A jaild that was started anew has forgotten the handle, and a tenant of the same name may be another: the handle is taken anew.
func TestHandles(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() { w.handles["alice"] = 0 })
		w.exit(1)
		b.reach("alice", faculty.Backoff)
		b.reach("alice", faculty.Running)
		if w.handles["alice"] != 1 {
			t.Errorf("handles %v", w.handles)
		}
		w.set(func() {
			w.handles["alice"] = 5 // of others
			w.sandboxes["alice"] = jail.Sandbox{ID: "01Z", Isolation: jail.IsolationNamespaces}
		})
		w.exit(1)
		b.reach("alice", faculty.Backoff)
		b.reach("alice", faculty.Running)
		if w.handles["alice"] != 6 {
			t.Errorf("handles %v", w.handles)
		}
		b.stop()
		if w.handles["alice"] != 5 {
			t.Errorf("handles after the stop: %v", w.handles)
		}
	})
}

func TestHealth(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		run := b.reach("alice", faculty.Running).Run
		if err := b.Report("alice", faculty.Health{Run: run, OK: true, Tools: 3, Server: "notebook\x1b[2J " + strings.Repeat("é", 200)}); err != nil {
			t.Error(err)
		}
		got := b.worker("alice").Health
		if got == nil || !got.OK || got.Tools != 3 || got.At.IsZero() || strings.Contains(got.Server, "\x1b") || len(got.Server) > 130 {
			t.Errorf("health %+v", got)
		}
		is(t, b.Report("alice", faculty.Health{Run: "svc-0", OK: true}), fault.NotFound, "over")
		is(t, b.Report("alice", faculty.Health{OK: true}), fault.NotFound, "over")
		is(t, b.Report("bob", faculty.Health{Run: run}), fault.NotFound, "bob")
		w.exit(1)
		b.reach("alice", faculty.Backoff)
		is(t, b.Report("alice", faculty.Health{Run: run, OK: true}), fault.NotFound, "over")
		if got := b.reach("alice", faculty.Running); got.Health != nil {
			t.Errorf("the next life has %+v", got.Health)
		}
		b.stop()
	})
}

// A worker that cannot be ended does not hold the daemon's stop up for ever, and is named.
func TestStopGivesUp(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() { w.services["svc-1"].deaf = true })
		began := time.Now()
		is(t, b.stop(), fault.ProofLost, "alice")
		if took := time.Since(began); took > 55*time.Second {
			t.Errorf("it took %v", took)
		}
		w.set(func() { w.services["svc-1"].deaf = false })
		w.Stop(t.Context(), "svc-1")
	})
}

// A reaperd that was stopped first has ended all workers: the daemon's stop waits a moment for it, and tells.
func TestStopWithoutReaper(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() { w.down = true })
		began := time.Now()
		is(t, b.stop(), fault.ProofLost, "alice")
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		w.restart()
	})
}

func TestUnknownWorkers(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		for _, f := range []func() error{
			func() error { _, err := b.Start(t.Context(), "../x"); return err },
			func() error { _, err := b.Stop(t.Context(), "../x"); return err },
			func() error { _, err := b.Restart(t.Context(), ""); return err },
			func() error { _, err := b.Log("bob", 0); return err },
		} {
			is(t, f(), fault.NotFound, "")
		}
		b.stop()
	})
	// Nothing was made of such names.
}

// Addresses are checked against the network that the tenant has.
func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		sandbox jail.Sandbox
		want    string
	}{
		"own address":        {jail.Sandbox{Isolation: jail.IsolationJail, Network: jail.NetworkAddress, Address: "127.0.0.1"}, ""},
		"another's":          {jail.Sandbox{Isolation: jail.IsolationJail, Network: jail.NetworkAddress, Address: "127.80.0.3"}, "127.80.0.3"},
		"inherit":            {jail.Sandbox{Isolation: jail.IsolationJail, Network: jail.NetworkInherit}, ""},
		"no network":         {jail.Sandbox{Isolation: jail.IsolationJail, Network: jail.NetworkNone}, "could not be reached"},
		"a stack of its own": {jail.Sandbox{Isolation: jail.IsolationJail, Network: jail.NetworkVNET}, "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world, dir string) {
				w.sandboxes["alice"] = test.sandbox
				b := run(t, w, dir)
				if test.want == "" {
					b.reach("alice", faculty.Running)
					if w.staged["/var/run/playground-faculty/token"] != "s3cret" {
						t.Errorf("staged %v", w.staged)
					}
				} else if got := b.reach("alice", faculty.Backoff); !strings.Contains(got.Problem, test.want) || len(w.execs) != 0 {
					t.Errorf("got %+v", got)
				}
				b.stop()
			})
		})
	}
}

// The Manager's folder is closed to others, and holds no token.
func TestFolder(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		own := filepath.Join(dir, "faculty")
		b := run(t, w, own)
		b.reach("alice", faculty.Running)
		if err := filepath.WalkDir(own, func(path string, entry os.DirEntry, err error) error {
			info, infoErr := entry.Info()
			if err = errors.Join(err, infoErr); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			if err == nil && entry.Type().IsRegular() {
				text, readErr := os.ReadFile(path)
				if strings.Contains(string(text), "s3cret") {
					t.Errorf("%s holds the token", path)
				}
				err = readErr
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		b.stop()
	})
}
