package workloop

import (
	"net/http"
	"sync"

	"playground/racct"
)

const (
	mostSlots = 16
	slotBytes = 512 << 20 // memory that one worker is reckoned with
)

// capacity returns how many sandboxed runs may go at once on a host with that much memory.
func capacity(override int, memory int64) int {
	if override > 0 {
		return override
	}
	return int(min(mostSlots, max(1, memory/slotBytes)))
}

// hostCapacity is capacity on this host.
func hostCapacity(override int) int { return capacity(override, racct.HostMemory()) }

// slots bound the sandboxed runs of the host. A slot is taken before a worker is started and given back when it is reaped.
type slots struct {
	capacity int
	mu       sync.Mutex // guards taken
	taken    int
}

// take takes a slot. The release may be called more than once.
func (s *slots) take() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.capacity {
		return nil, s.refusal()
	}
	s.taken++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
	}), nil
}

// free returns how many slots nobody has.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capacity - s.taken
}

// refusal is the answer where no slot is free. It says both numbers.
func (s *slots) refusal() error {
	refusal := refuse(CodeAdmission, http.StatusServiceUnavailable, "all sandboxed runs of this host are taken: the ceiling is %d, 0 are free", s.capacity)
	refusal.Extra = map[string]any{keyCapacity: s.capacity, keyAvailable: 0}
	return hinted(refusal, "start it again when a run has ended (playground runs list --state running), or raise work.capacity in playground.toml")
}
