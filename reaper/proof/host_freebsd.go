package proof

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/racct"
	"playground/reaper/bsdproc"
)

// A Host is the Kernel of a real system, for the job in one leaf jail.
type Host struct {
	jid      int
	jail     string // its full name
	all      racct.Filter
	sleepers []racct.Filter
	freeze   racct.Rule
	killing  chan error // non-nil while a Kill is under way
}

// NewHost returns the Kernel for a leaf jail. The name is asked for as well as the number, so that a number that has become
// another jail's is never removed.
func NewHost(jail string, jid int) (*Host, error) {
	if jid <= 0 {
		return nil, fmt.Errorf("internal error: %d is no number of a job's jail", jid)
	}
	all, err := racct.All(jail)
	if err != nil {
		return nil, err
	}
	sleepers, err := racct.Sleepers(jail)
	if err != nil {
		return nil, err
	}
	freeze, err := racct.Freeze(jail)
	if err != nil {
		return nil, err
	}
	return &Host{jid: jid, jail: jail, all: all, sleepers: sleepers, freeze: freeze}, nil
}

// Status implements Kernel.
func (h *Host) Status() (bsdproc.Status, error) { return bsdproc.StatusOf(0) }

// Pids implements Kernel.
func (h *Host) Pids(capacity int) ([]bsdproc.PidInfo, error) { return bsdproc.Pids(capacity) }

// killPatience is how long the loop waits for a kill before it goes on collecting.
const killPatience = 20 * time.Millisecond

// Kill implements Kernel. On FreeBSD 13 the call stops each target first and may take seconds, so it has a goroutine of
// its own, and there is one at a time.
func (h *Host) Kill(branch int) error {
	if h.killing == nil {
		done := make(chan error, 1)
		h.killing = done
		go func() { done <- bsdproc.Kill(unix.SIGKILL, branch) }()
	}
	select {
	case err := <-h.killing:
		h.killing = nil
		return err
	case <-time.After(killPatience):
		return nil
	}
}

// Wait implements Kernel.
func (h *Host) Wait(pid int, linuxClone bool) (int, syscall.WaitStatus, error) {
	got, status, err := bsdproc.WaitNow(pid, linuxClone)
	if errors.Is(err, unix.ECHILD) {
		err = ErrNoChild
	}
	return got, status, err
}

// RemoveJail implements Kernel.
func (h *Host) RemoveJail() error {
	state, err := h.JailState()
	if err != nil || state != bsdproc.JailAlive {
		return err
	}
	return bsdproc.RemoveJail(h.jid)
}

// JailState implements Kernel.
func (h *Host) JailState() (bsdproc.JailState, error) {
	state, name, err := bsdproc.JailOf(h.jid)
	if err == nil && state == bsdproc.JailAlive && name != h.jail {
		return bsdproc.JailUnknown, fmt.Errorf("jail %d is %q, not %q", h.jid, name, h.jail)
	}
	return state, err
}

// JailProcesses implements Kernel.
func (h *Host) JailProcesses() (int, error) {
	list, err := bsdproc.Processes()
	n := 0
	for _, p := range list {
		if p.Jail == h.jid {
			n++
		}
	}
	return n, err
}

// Freeze implements Kernel.
func (h *Host) Freeze() error { return racct.Add(h.freeze) }

// Wake implements Kernel.
func (h *Host) Wake() error {
	var errs []error
	for _, f := range h.sleepers {
		errs = append(errs, racct.Remove(f))
	}
	return errors.Join(errs...)
}

// Unlimit implements Kernel.
func (h *Host) Unlimit() error { return racct.Remove(h.all) }

// Now implements Kernel.
func (h *Host) Now() time.Time { return time.Now() }

// Pause implements Kernel.
func (h *Host) Pause(d time.Duration) { time.Sleep(d) }
