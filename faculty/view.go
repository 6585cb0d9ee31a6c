package faculty

import (
	"context"
	"strings"
	"time"
	"unicode"

	"playground/fault"
)

// A wish is the operator's.
type wish struct {
	change func(*Machine, time.Time) Act
	taken  chan struct{} // closed when the machine has changed
}

// wish hands a wish to the loop, and returns when it shows. A loop that has ended has nothing to wish for.
func (k *keeper) wish(change func(*Machine, time.Time) Act) {
	w := wish{change, make(chan struct{})}
	select {
	case k.wishes <- w:
		<-w.taken
	case <-k.over:
	}
}

// as is a change that takes a definition over, unless it leaves a life alone that is as an earlier definition says.
func (k *keeper) as(def Definition, change func(*Machine, time.Time) Act) func(*Machine, time.Time) Act {
	return func(m *Machine, now time.Time) Act {
		alive := m.State() == Starting || m.State() == Running
		act := change(m, now)
		if !alive || act != ActNone {
			k.def = def
			m.SetDelay(def.RestartDelay)
		}
		return act
	}
}

func (k *keeper) definition() Definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.def
}

// worker returns the worker as it is.
func (k *keeper) worker() Worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := Worker{
		ID: k.id, Tenant: k.def.Tenant, Name: k.def.Name, Address: k.def.Address.String(),
		State: k.machine.State(), Since: k.machine.since, Restarts: k.machine.restarts, Problem: k.machine.problem, Retry: k.machine.Due(),
		Run: k.service.ID, Started: k.service.Started,
	}
	if k.problem != "" {
		w.Problem = k.problem
	}
	if k.exit != nil {
		exit := *k.exit
		w.LastExit = &exit
	}
	if k.health != nil {
		health := *k.health
		w.Health = &health
	}
	return w
}

// steadyFor is how long a state must last to count as reached: a program that is not there ends at once.
const steadyFor = 200 * time.Millisecond

// settle waits until the worker's state is one that is wanted, and stays so for a moment.
func (k *keeper) settle(ctx context.Context, wanted func(State) bool) (Worker, error) {
	for {
		k.mu.Lock()
		changed, reached := k.changed, wanted(k.machine.State())
		k.mu.Unlock()
		var quiet <-chan time.Time
		if reached {
			quiet = time.After(steadyFor)
		}
		select {
		case <-changed:
		case <-quiet:
			return k.worker(), nil
		case <-k.over:
			return k.worker(), nil
		case <-ctx.Done():
			w := k.worker()
			e := fault.New(fault.Busy, "worker %q is still %s", k.id, w.State)
			if w.Problem != "" {
				e.Message += ": " + w.Problem
			}
			return Worker{}, e.WithHint("look again with `playground faculty list`")
		}
	}
}

// Bounds of what a report or a problem may say, in bytes: they repeat what a tenant's program said.
const (
	maxProblem = 300
	maxServer  = 120
)

// report takes a health report.
func (k *keeper) report(health Health) error {
	health.At = time.Now()
	health.Problem, health.Server = tidy(health.Problem, maxProblem), tidy(health.Server, maxServer)
	k.mu.Lock()
	defer k.mu.Unlock()
	if health.Run == "" || health.Run != k.service.ID {
		return fault.New(fault.NotFound, "that life of worker %q is over", k.id)
	}
	k.health = &health
	return nil
}

// tidy makes a text fit for a terminal.
func tidy(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
