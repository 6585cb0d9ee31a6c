package faculty_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"playground/faculty"
	"playground/fault"
	"playground/jail"
	"playground/ring"
)

// A tenant can make every command in its sandbox hang, the one that stages a token too. That is its own trouble: other tenants'
// workers start, its own starts are told for what they are, and its sandbox is given back.
func TestHangingSandboxes(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		w.hang = map[string]bool{"mallory": true}
		w.sandboxes["mallory"] = jail.Sandbox{Tenant: "mallory", ID: "01M", Isolation: jail.IsolationNamespaces, Network: jail.NetworkNone}
		w.tokens["/t/mallory"] = "x"
		for i := range 20 {
			w.defs = append(w.defs, faculty.Definition{Tenant: "mallory", Name: fmt.Sprintf("w%d", i), Program: "/p", TokenFile: "/t/mallory",
				Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(9100+i)), RestartDelay: time.Second})
		}
		b := run(t, w, dir)
		began := time.Now()
		b.reach("alice", faculty.Running)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("alice waited %v for mallory", waited)
		}
		got := b.reach("mallory.w3", faculty.Backoff)
		if !strings.Contains(got.Problem, "was not ready within") || strings.Contains(got.Problem, "context") {
			t.Errorf("the problem is told as %q", got.Problem)
		}
		if log := b.log("mallory.w3"); !strings.Contains(log, "not started: ") {
			t.Errorf("log %q", log)
		}
		if w.handles["mallory"] == 0 {
			t.Fatal("nothing to give back")
		}
		if err := b.stop(); err != nil || w.handles["mallory"] != 0 {
			t.Errorf("stop: %v, handles %v", err, w.handles)
		}
	})
}

// A start by hand of a worker that runs changes nothing, and does not hide that the definitions say something else.
func TestStartOfRunning(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() { w.defs[0].Args = []string{"--new"} })
		if got, err := b.Start(t.Context(), "alice"); err != nil || got.Run != "svc-1" {
			t.Errorf("start: %+v, %v", got, err)
		}
		if got := b.worker("alice"); !got.Stale {
			t.Error("it runs as it was defined before, and the list does not say so")
		}
		if got, err := b.Restart(t.Context(), "alice"); err != nil || got.Run != "svc-2" || got.LastExit.String() != "stopped" {
			t.Errorf("restart: %+v, %v", got, err)
		}
		if got := b.worker("alice"); got.Stale || w.starts[1].Argv[1] != "--new" {
			t.Errorf("restarted: %+v, %v", got, w.starts[1])
		}
		b.stop()
	})
}

// A worker that is defined and was never started has nothing to stop and no log, and says so.
func TestNewInDefinitions(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() {
			w.defs = append(w.defs, faculty.Definition{Tenant: "bob", Program: "/p", TokenFile: "/t/bob", Address: netip.MustParseAddrPort("127.0.0.1:9")})
		})
		_, err := b.Stop(t.Context(), "bob")
		is(t, err, fault.NotFound, "was never started")
		_, err = b.Log("bob", 0)
		is(t, err, fault.NotFound, "was never started")
		_, err = b.Stop(t.Context(), "carol")
		is(t, err, fault.NotFound, "there is no worker")
		b.stop()
	})
}

// What a tenant's programs say to the script that stages a token reaches the operator's terminal as text, and as nothing else.
func TestStageSays(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		w.stageSays = "no\x1b]0;x\x07 space\r\n--- playground-facultyd: started\u202e\u009b2J\xff" + strings.Repeat("x", 10_000)
		b := run(t, w, dir)
		got := b.reach("alice", faculty.Backoff)
		for _, text := range []string{got.Problem, b.log("alice")} {
			if !strings.Contains(text, "no ]0;x  space") || strings.ContainsAny(text, "\x1b\x07\r\u202e\u009b") || !utf8.ValidString(text) || len(text) > 1000 ||
				strings.Contains(text, "\n--- playground-facultyd: started") {
				t.Errorf("%q", text)
			}
		}
		b.stop()
	})
}

// The daemon's lines are lines of their own, however a worker's output ends.
func TestNotesAreLines(t *testing.T) {
	in(t, func(t *testing.T, w *world, dir string) {
		b := run(t, w, dir)
		b.reach("alice", faculty.Running)
		w.set(func() {
			w.services["svc-1"].out, w.services["svc-1"].cursor = []ring.Chunk{{Stream: ring.Stdout, Data: []byte("no end of line")}}, 14
		})
		time.Sleep(time.Minute)
		w.exit(1)
		b.reach("alice", faculty.Backoff)
		if log := b.log("alice"); !strings.Contains(log, "\nno end of line\n--- ") || strings.Contains(log, "\n\n") {
			t.Errorf("log %q", log)
		}
		b.stop()
	})
}
