package confine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/reaper/bsdproc"
)

// A process that a worker started before it was confined is outside of its jail, and is found all the same.
func TestKin(t *testing.T) {
	worker := bsdproc.Process{Pid: 50, Start: 7, Session: 50, Jail: 9, State: bsdproc.Sleep}
	child := bsdproc.Process{Pid: 51, Start: 8, Session: 50, State: bsdproc.Sleep}
	dead := bsdproc.Process{Pid: 52, Start: 8, Session: 50, Jail: 9, State: bsdproc.Zombie}
	inside := bsdproc.Process{Pid: 53, Start: 9, Session: 53, Jail: 9, State: bsdproc.Run}
	host := bsdproc.Process{Pid: 60, Start: 1, Session: 60, State: bsdproc.Sleep}
	later := bsdproc.Process{Pid: 50, Start: 99, Session: 50, State: bsdproc.Sleep}
	for _, c := range []struct {
		name string
		kin  kin
		list []bsdproc.Process
		want []Leftover
	}{
		{"alone", kin{9, 50, 7}, []bsdproc.Process{host, worker}, []Leftover{{50, 7}}},
		{"a child outside", kin{9, 50, 7}, []bsdproc.Process{worker, child, host}, []Leftover{{50, 7}, {51, 8}}},
		{"the child when the worker is gone", kin{9, 50, 7}, []bsdproc.Process{child, dead, host}, []Leftover{{51, 8}}},
		{"another session in the jail", kin{9, 50, 7}, []bsdproc.Process{inside, host}, []Leftover{{53, 9}}},
		{"a later process by the number", kin{9, 50, 7}, []bsdproc.Process{later, host}, nil},
		{"verified", kin{9, 0, 7}, []bsdproc.Process{later, child, host}, nil},
		{"nothing is the host's", kin{}, []bsdproc.Process{host, child}, nil},
	} {
		if got := c.kin.living(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAwaitExec(t *testing.T) {
	calls := 0
	b, err := awaitExec(func() ([]byte, error) {
		if calls++; calls < 3 {
			return nil, unix.EBUSY
		}
		return []byte("x"), nil
	}, time.Minute)
	if string(b) != "x" || err != nil || calls != 3 {
		t.Errorf("got %q, %v after %d calls", b, err, calls)
	}
	if _, err := awaitExec(func() ([]byte, error) { return nil, unix.ESRCH }, time.Minute); !errors.Is(err, unix.ESRCH) {
		t.Errorf("one that is gone: %v", err)
	}
	if _, err := awaitExec(func() ([]byte, error) { return nil, unix.EBUSY }, 0); !errors.Is(err, unix.EBUSY) {
		t.Errorf("one that stays so: %v", err)
	}
}
