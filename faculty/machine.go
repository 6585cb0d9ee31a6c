package faculty

import (
	"fmt"
	"slices"
	"time"
)

// A State is where a worker is.
type State string

// The states.
const (
	Stopped  State = "stopped"  // nothing of it is there, and it is to stay so
	Starting State = "starting" // its sandbox, token and program are being prepared
	Running  State = "running"
	Backoff  State = "backoff"  // it ended, or could not be started; it is tried again
	Failed   State = "failed"   // it ended too often; it waits for the operator
	Stopping State = "stopping" // it is being ended; it is Stopped when that is proved
)

// How often a worker may end, and how long is waited.
const (
	crashes     = 5 // ends within crashWindow that are one too many
	crashWindow = time.Minute
	steady      = time.Minute // a life this long makes the next wait the first one again

	longestPause = 10 * time.Second // between restarts, unless the worker's own delay is longer
	firstRefused = time.Second      // wait after a start that was refused
	longRefused  = 30 * time.Second
)

// An Act is what has to be done after an event.
type Act int

// The acts.
const (
	ActNone  Act = iota
	ActStart     // begin a start; Started or Refused follows
	ActStop      // end the start or the life; Refused, Ended, or Started and then Ended, follow
)

// A Machine is the life of one worker as a table of states and events, without clock and without work: events bring the time,
// and say what to do. Its zero value is Stopped.
type Machine struct {
	state   State
	since   time.Time
	delay   time.Duration
	pause   time.Duration // before the next restart
	refused time.Duration // before the next try of a refused start
	due     time.Time     // in Backoff: when it is tried again
	exits   []time.Time   // ends of its own within the crash window
	again   bool          // in Stopping: it is to start anew
	ended   bool          // it lived before the start that goes on or is due
	problem string

	restarts int
}

// State returns the state.
func (m *Machine) State() State {
	if m.state == "" {
		return Stopped
	}
	return m.state
}

// Due returns when Tick has something to do; zero when it has not.
func (m *Machine) Due() time.Time {
	if m.state != Backoff {
		return time.Time{}
	}
	return m.due
}

// SetDelay sets the wait before a restart, for waits to come.
func (m *Machine) SetDelay(d time.Duration) { m.delay, m.pause = d, d }

func (m *Machine) to(s State, now time.Time) { m.state, m.since = s, now }

// Start is the operator's, or the daemon's, wish that it runs.
func (m *Machine) Start(now time.Time) Act {
	switch m.State() {
	case Stopping:
		m.again = true
	case Stopped, Backoff, Failed:
		return m.begin(now)
	}
	return ActNone
}

// begin starts with a clean slate.
func (m *Machine) begin(now time.Time) Act {
	m.exits, m.restarts, m.pause, m.refused, m.ended, m.again, m.problem = nil, 0, m.delay, 0, false, false, ""
	m.to(Starting, now)
	return ActStart
}

// Stop is the wish that it does not run.
func (m *Machine) Stop(now time.Time) Act {
	m.again = false
	switch m.State() {
	case Backoff, Failed:
		m.problem = ""
		m.to(Stopped, now)
	case Starting, Running:
		m.to(Stopping, now)
		return ActStop
	}
	return ActNone
}

// Restart ends it, where it runs, and starts it.
func (m *Machine) Restart(now time.Time) Act {
	act := m.Stop(now)
	if m.state == Stopping {
		m.again = true
		return act
	}
	return m.Start(now)
}

// Started tells that a start worked.
func (m *Machine) Started(now time.Time) Act {
	if m.state == Stopping {
		return ActStop
	}
	m.problem = ""
	m.to(Running, now)
	return ActNone
}

// Refused tells that a start did not work, and that nothing of it is left.
func (m *Machine) Refused(now time.Time, problem string) Act {
	if m.state == Stopping {
		return m.over(now)
	}
	m.problem = problem
	m.refused = min(max(2*m.refused, firstRefused), longRefused)
	m.wait(now, m.refused)
	return ActNone
}

// Ended tells that a life has ended, and that nothing of it is left. own: by itself, as opposed to by the host.
func (m *Machine) Ended(now time.Time, own bool, problem string) Act {
	if m.state == Stopping {
		return m.over(now)
	}
	lived := now.Sub(m.since)
	m.problem, m.ended, m.refused = problem, true, 0
	if !own {
		m.wait(now, max(m.delay, firstRefused))
		return ActNone
	}
	m.exits = append(slices.DeleteFunc(m.exits, func(at time.Time) bool { return now.Sub(at) >= crashWindow }), now)
	if len(m.exits) >= crashes {
		m.problem = fmt.Sprintf("it ended %d times within %v: %s", len(m.exits), crashWindow, problem)
		m.to(Failed, now)
		return ActNone
	}
	if lived >= steady {
		m.pause = m.delay
	}
	m.wait(now, m.pause)
	m.pause = min(2*m.pause, max(longestPause, m.delay))
	return ActNone
}

func (m *Machine) wait(now time.Time, d time.Duration) {
	m.due = now.Add(d)
	m.to(Backoff, now)
}

// over is the end of Stopping.
func (m *Machine) over(now time.Time) Act {
	if m.again {
		return m.begin(now)
	}
	m.problem = ""
	m.to(Stopped, now)
	return ActNone
}

// Tick tells that time has passed.
func (m *Machine) Tick(now time.Time) Act {
	if m.state != Backoff || now.Before(m.due) {
		return ActNone
	}
	if m.ended {
		m.restarts++
		m.ended = false
	}
	m.to(Starting, now)
	return ActStart
}
