package jail

import (
	"errors"
	"strings"
	"testing"
	"time"

	"playground/fault"
)

// Where the kernel object cannot connect from inside, as a jail cannot, that is said with the way out; and a dial is a use.
func TestDialUnsupported(t *testing.T) {
	m, objects := newManager(t, t.TempDir())
	provision(t, m, "alice")
	if f, err := m.Dial(t.Context(), "alice", "127.0.0.1:9001"); !errors.Is(err, fault.NotOpen) {
		t.Errorf("not attached: %v, %v", f, err)
	}
	if _, err := m.Open(t.Context(), "alice", OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	m.tenants["alice"].used = time.Time{}
	f, err := m.Dial(t.Context(), "alice", "127.0.0.1:9001")
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "its network is none") || !strings.Contains(fault.HintOf(err), "address or inherit") {
		t.Errorf("%v, %v (hint %q)", f, err, fault.HintOf(err))
	}
	if m.tenants["alice"].used.IsZero() {
		t.Error("a dial is not a use")
	}
	(*objects)[0].Kill()
	if f, err := m.Dial(t.Context(), "alice", "127.0.0.1:9001"); !errors.Is(err, fault.NotOpen) {
		t.Errorf("the object is gone: %v, %v", f, err)
	}
}
