package faculty_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"playground/faculty"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A walk drives a machine through named events and checks state and act after each.
type walk struct {
	t   *testing.T
	m   faculty.Machine
	now time.Time
}

func newWalk(t *testing.T, delay time.Duration) *walk {
	w := &walk{t: t, now: t0}
	w.m.SetDelay(delay)
	return w
}

func (w *walk) step(event string, state faculty.State, act faculty.Act) {
	w.t.Helper()
	var got faculty.Act
	switch event {
	case "start":
		got = w.m.Start(w.now)
	case "stop":
		got = w.m.Stop(w.now)
	case "restart":
		got = w.m.Restart(w.now)
	case "started":
		got = w.m.Started(w.now)
	case "refused":
		got = w.m.Refused(w.now, "no")
	case "exit":
		got = w.m.Ended(w.now, true, "exited with 1")
	case "gone":
		got = w.m.Ended(w.now, false, "gone")
	case "tick":
		got = w.m.Tick(w.now)
	}
	if got != act || w.m.State() != state {
		w.t.Fatalf("after %s: state %s, act %d; want %s, %d", event, w.m.State(), got, state, act)
	}
}

// due moves the clock to the next try, which must be d away.
func (w *walk) due(d time.Duration) {
	w.t.Helper()
	if got := w.m.Due().Sub(w.now); got != d {
		w.t.Fatalf("next try in %v, want %v", got, d)
	}
	w.now = w.now.Add(d - time.Nanosecond)
	w.step("tick", faculty.Backoff, faculty.ActNone)
	w.now = w.now.Add(time.Nanosecond)
	w.step("tick", faculty.Starting, faculty.ActStart)
}

func TestMachineStartStop(t *testing.T) {
	w := newWalk(t, time.Second)
	w.step("stop", faculty.Stopped, faculty.ActNone)
	w.step("start", faculty.Starting, faculty.ActStart)
	w.step("start", faculty.Starting, faculty.ActNone)
	w.step("started", faculty.Running, faculty.ActNone)
	w.step("start", faculty.Running, faculty.ActNone)
	w.step("stop", faculty.Stopping, faculty.ActStop)
	w.step("stop", faculty.Stopping, faculty.ActNone)
	w.step("exit", faculty.Stopped, faculty.ActNone)
}

// A stop that comes while a start goes on ends whatever that start makes.
func TestMachineStopDuringStart(t *testing.T) {
	w := newWalk(t, time.Second)
	w.step("start", faculty.Starting, faculty.ActStart)
	w.step("stop", faculty.Stopping, faculty.ActStop)
	w.step("started", faculty.Stopping, faculty.ActStop)
	w.step("gone", faculty.Stopped, faculty.ActNone)
	w.step("start", faculty.Starting, faculty.ActStart)
	w.step("stop", faculty.Stopping, faculty.ActStop)
	w.step("refused", faculty.Stopped, faculty.ActNone)
}

func TestMachineRestart(t *testing.T) {
	w := newWalk(t, time.Second)
	w.step("restart", faculty.Starting, faculty.ActStart)
	w.step("started", faculty.Running, faculty.ActNone)
	w.step("restart", faculty.Stopping, faculty.ActStop)
	w.step("gone", faculty.Starting, faculty.ActStart)
	w.step("restart", faculty.Stopping, faculty.ActStop)
	w.step("stop", faculty.Stopping, faculty.ActNone) // the last wish counts
	w.step("refused", faculty.Stopped, faculty.ActNone)
	w.step("start", faculty.Starting, faculty.ActStart)
	w.step("stop", faculty.Stopping, faculty.ActStop)
	w.step("start", faculty.Stopping, faculty.ActNone)
	w.step("refused", faculty.Starting, faculty.ActStart)
}

// Waits double up to their bound, a steady life makes the next one the first again, and the fifth end within a minute is one
// too many.
func TestMachineBackoff(t *testing.T) {
	w := newWalk(t, 4*time.Second)
	w.step("start", faculty.Starting, faculty.ActStart)
	for _, pause := range []time.Duration{4, 8, 10, 10} {
		w.step("started", faculty.Running, faculty.ActNone)
		w.step("exit", faculty.Backoff, faculty.ActNone)
		w.due(pause * time.Second)
	}
	w.step("started", faculty.Running, faculty.ActNone)
	w.now = w.now.Add(time.Minute)
	w.step("exit", faculty.Backoff, faculty.ActNone)
	w.due(4 * time.Second)
}

func TestMachineCrashLoop(t *testing.T) {
	w := newWalk(t, 5*time.Second)
	w.step("start", faculty.Starting, faculty.ActStart)
	for range 4 {
		w.step("started", faculty.Running, faculty.ActNone)
		w.step("exit", faculty.Backoff, faculty.ActNone)
		w.due(w.m.Due().Sub(w.now))
	}
	w.step("started", faculty.Running, faculty.ActNone)
	w.step("exit", faculty.Failed, faculty.ActNone)
	w.now = w.now.Add(time.Hour)
	w.step("tick", faculty.Failed, faculty.ActNone)
	w.step("start", faculty.Starting, faculty.ActStart)
	w.step("started", faculty.Running, faculty.ActNone)
	w.step("exit", faculty.Backoff, faculty.ActNone) // the earlier ends are forgotten
	w.step("stop", faculty.Stopped, faculty.ActNone)
}

// What the host ends is not the worker's fault, and a start that is refused is no end.
func TestMachineHostTrouble(t *testing.T) {
	w := newWalk(t, 100*time.Millisecond)
	w.step("start", faculty.Starting, faculty.ActStart)
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		w.step("refused", faculty.Backoff, faculty.ActNone)
		w.due(wait * time.Second)
	}
	for range 20 {
		w.step("started", faculty.Running, faculty.ActNone)
		w.step("gone", faculty.Backoff, faculty.ActNone)
		w.due(time.Second)
	}
}

// TestMachineProperties: whatever happens in whatever order, at most one life or start is under way, a stop is always followed by
// Stopped once that has ended, and Failed and Stopped start nothing by themselves.
func TestMachineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m faculty.Machine
		m.SetDelay(time.Duration(rapid.IntRange(100, 20_000).Draw(t, "delay")) * time.Millisecond)
		now := t0
		flying, living, wanted := false, false, false
		var exits []time.Time
		obey := func(act faculty.Act) {
			switch act {
			case faculty.ActStart:
				if flying || living {
					t.Fatal("a start beside another life")
				}
				flying = true
			case faculty.ActStop:
				if !flying && !living {
					t.Fatal("a stop of nothing")
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"start":   func(*rapid.T) { wanted, exits = true, nil; obey(m.Start(now)) },
			"stop":    func(*rapid.T) { wanted = false; obey(m.Stop(now)) },
			"restart": func(*rapid.T) { wanted, exits = true, nil; obey(m.Restart(now)) },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
				obey(m.Tick(now))
			},
			"started": func(t *rapid.T) {
				if !flying {
					t.Skip()
				}
				flying, living = false, true
				obey(m.Started(now))
			},
			"refused": func(t *rapid.T) {
				if !flying {
					t.Skip()
				}
				flying = false
				obey(m.Refused(now, "no"))
			},
			"ended": func(t *rapid.T) {
				if !living {
					t.Skip()
				}
				living = false
				own := rapid.Bool().Draw(t, "own")
				if own && m.State() == faculty.Running {
					exits = append(exits, now)
				}
				obey(m.Ended(now, own, "ended"))
				if m.State() == faculty.Failed && len(exits) < 5 {
					t.Fatalf("failed after %d ends", len(exits))
				}
			},
			"": func(t *rapid.T) {
				s := m.State()
				idle := s == faculty.Stopped || s == faculty.Failed || s == faculty.Backoff
				if idle == (flying || living) {
					t.Fatalf("state %s with flying %v, living %v", s, flying, living)
				}
				if !wanted && s != faculty.Stopped && s != faculty.Stopping {
					t.Fatalf("state %s though it is to be stopped", s)
				}
				if wanted && s == faculty.Stopped {
					t.Fatal("stopped though it is wanted")
				}
				if (s == faculty.Backoff) != !m.Due().IsZero() {
					t.Fatalf("state %s, due %v", s, m.Due())
				}
				if s == faculty.Backoff && m.Due().Sub(now) > 30*time.Second {
					t.Fatalf("it waits %v", m.Due().Sub(now))
				}
			},
		})
	})
}

// The states have the names that users see.
func TestStates(t *testing.T) {
	all := []faculty.State{faculty.Stopped, faculty.Starting, faculty.Running, faculty.Backoff, faculty.Failed, faculty.Stopping}
	slices.Sort(all)
	var words []string
	for _, s := range all {
		words = append(words, string(s))
	}
	if got := strings.Join(words, " "); got != "backoff failed running starting stopped stopping" {
		t.Error(got)
	}
}
