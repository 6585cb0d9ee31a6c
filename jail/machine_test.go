package jail

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"playground/fault"
)

// TestSandboxMachine does things in any order to two sandboxes on a fake kernel: sessions, jobs, jails removed from outside,
// references that linger, calls that fail, and daemons that stop or are killed.
func TestSandboxMachine(t *testing.T) {
	first := jailManager(t, &fakeHost{}, t.TempDir())
	for _, name := range []string{"alice", "bob"} {
		provision(t, first, name)
	}
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			x := &machine{t: t, h: &fakeHost{}, handles: make(map[string]int)}
			x.m = restart(t, first, x.h)
			for range rapid.IntRange(1, 25).Draw(r, "steps") {
				name := rapid.SampledFrom([]string{"alice", "bob"}).Draw(r, "tenant")
				act := rapid.SampledFrom([]string{"open", "close", "job", "end", "outside", "linger", "bury", "fail", "stop", "kill", "sweep"}).Draw(r, "act")
				x.do(act, name, rapid.IntRange(0, 14).Draw(r, "which"))
				x.check(act)
			}
			x.finish()
		})
	})
}

type machine struct {
	t       *testing.T
	h       *fakeHost
	m       *Manager
	handles map[string]int // what each tenant should have
	jobs    []int
}

func (x *machine) do(act, name string, which int) {
	t := x.t
	ctx := t.Context()
	x.h.fail = ""
	switch act {
	case "open":
		if _, err := x.m.Open(ctx, name, OpenOptions{}); err != nil {
			t.Fatalf("open: %v", err)
		}
		x.handles[name]++
	case "fail": // every call of an attach has its turn
		plan := x.m.store.backing.plan(x.m.tenants[name].rec)
		x.h.fail = []string{"devices", "create pg-" + name}[which%2]
		if which < len(plan) {
			x.h.fail = "mount " + filepath.Base(filepath.Join("root", plan[which].on))
		}
		if _, err := x.m.Open(ctx, name, OpenOptions{}); err == nil {
			x.handles[name]++ // attached already, or mounted
		} else if !errors.Is(err, errFake) {
			t.Fatalf("open that fails: %v", err)
		}
		x.h.fail = ""
	case "close":
		_, err := x.m.Close(ctx, name)
		if x.handles[name] == 0 && !errors.Is(err, fault.NotOpen) || x.handles[name] > 0 && err != nil {
			t.Fatalf("close with %d handles: %v", x.handles[name], err)
		}
		x.handles[name] = max(x.handles[name]-1, 0)
	case "job":
		if a, err := x.m.Attachment(ctx, name); err == nil {
			x.h.jid++ // a name of its own
			params, err := LeafSpec{Parent: "pg-" + name, Name: "j" + string(rune('a'+x.h.jid%26)) + time.Now().Format("150405.000")[7:], Root: a.Root}.params()
			if err != nil {
				t.Fatal(err)
			}
			if jid, err := x.h.createJail("pg-"+name+".job", params); err == nil {
				x.jobs = append(x.jobs, jid)
			}
		}
	case "end":
		if len(x.jobs) > 0 {
			x.remove(x.jobs[which%len(x.jobs)])
		}
	case "outside":
		if info, _ := x.h.lookup("pg-" + name); info.State == Alive {
			x.remove(info.JID)
		}
	case "linger":
		x.h.linger = true
	case "bury":
		x.h.linger = false
		x.h.bury()
	case "sweep":
		x.m.sweep(ctx, time.Now())
	case "stop", "kill":
		x.restart(act == "stop")
	}
}

// remove ends a jail as somebody else does, and forgets the jobs that ended with it.
func (x *machine) remove(jid int) {
	if err := x.h.removeJail(jid); err != nil {
		x.t.Fatal(err)
	}
	x.forgetJobs()
}

func (x *machine) forgetJobs() {
	x.jobs = slices.DeleteFunc(x.jobs, func(jid int) bool {
		state, _ := x.h.stateOf(jid)
		return state != Alive
	})
}

// restart is a new daemon. One that stops in order detaches what is idle; sessions come back in either case.
func (x *machine) restart(orderly bool) {
	for name, tn := range x.m.tenants {
		if err := x.m.store.saveSession(tn.rec.ID, session{Handles: x.handles[name]}); err != nil {
			x.t.Fatal(err)
		}
	}
	if orderly {
		for _, t := range x.m.all() {
			if t.object != nil {
				t.object.Detach(x.t.Context()) // as leave does
			}
		}
	}
	x.m = restart(x.t, x.m, x.h)
	for _, t := range x.m.all() {
		if err := x.m.reattach(x.t.Context(), t); err != nil {
			x.t.Fatalf("reattach: %v", err)
		}
	}
	if err := x.m.settleStrays(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *machine) check(act string) {
	t := x.t
	for _, jid := range x.jobs {
		if state, _ := x.h.stateOf(jid); state != Alive {
			t.Fatalf("after %s a job's jail is %v", act, state)
		}
	}
	alive := make(map[string]int)
	for _, j := range x.h.list {
		if j.State == Alive && j.Parent == 0 {
			alive[j.Name]++
			// Whatever is alive stands on a complete root.
			plan := x.m.store.backing.plan(x.m.tenants[strings.TrimPrefix(j.Name, "pg-")].rec)
			for _, p := range plan {
				if m, ok := topAt(x.h.table, filepath.Join(j.Path, p.on)); !ok || m.matches(p, j.Path) != nil {
					t.Fatalf("after %s jail %s has no %s", act, j.Name, p.on)
				}
			}
		}
	}
	on := make(map[string]int)
	for _, m := range x.h.table {
		on[m.on]++
	}
	for path, n := range on {
		if n > 1 {
			t.Fatalf("after %s there are %d mounts on %s", act, n, path)
		}
	}
	for name, want := range x.handles {
		sb, err := x.m.Get(t.Context(), name)
		if err != nil || sb.Handles != want || alive[sb.Name] > 1 {
			t.Fatalf("after %s: %+v, want %d handles; %d jails; %v", act, sb, want, alive[sb.Name], err)
		}
	}
}

// finish ends all that runs; nothing may be left then.
func (x *machine) finish() {
	t := x.t
	x.h.linger = false
	for _, jid := range slices.Clone(x.jobs) {
		x.remove(jid)
	}
	x.h.bury()
	x.handles = make(map[string]int)
	x.restart(true) // no session comes back
	for _, tn := range x.m.all() {
		if err := tn.detach(t.Context()); err != nil {
			t.Fatalf("detach: %v", err)
		}
		// As when the sandbox is destroyed, which takes too long to make it anew each time.
		if err := x.m.store.backing.release(t.Context(), tn.rec.ID); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
	x.h.mustBeEmpty(t)
}
